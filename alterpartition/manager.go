package alterpartition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// ErrNotAttempted says that an item was not taken and will never be sent, because an earlier one of the same partition
// is not answered yet or the queue is full (Kafka: OPERATION_NOT_ATTEMPTED).
var ErrNotAttempted = errors.New("alterpartition: operation not attempted")

// Item is a proposal on its way to the controller.
type Item struct {
	Partition image.PartitionID
	Proposal  *partition.Proposal
	// Repeat marks a proposal that was answered already, by an answer that settles nothing. A request of nothing but
	// repetitions waits for [Config.RetryBackoff].
	Repeat bool
	// Done gets the answer. It may submit the next item.
	Done func(partition.AlterPartitionAnswered)
}

// entry is an item in the queue.
type entry struct {
	item Item
	// fresh: no request has carried it yet.
	fresh bool
	done  bool
	// unprovenUntil is when a sending that was not answered can no longer take effect.
	unprovenUntil time.Time
}

// rival is a copy of a proposal that was sent and not answered, although a later sending was.
type rival struct {
	proposal *partition.Proposal
	// until as entry.unprovenUntil.
	until time.Time
}

// Manager sends the proposals of one broker.
type Manager struct {
	cfg        Config
	clock      env.Clock
	controller Controller
	logger     *slog.Logger
	wake       chan struct{}

	mu      sync.Mutex
	entries map[image.PartitionID]*entry
	order   []*entry // oldest first
	// rivals are those of items that are off the queue: the owner may submit the same proposal again. At most one a partition, and
	// those whose time is over go when the next response is settled.
	rivals map[image.PartitionID]rival

	// Of Run's goroutine:
	failures      int // in a row
	failureLogged time.Time
}

// New returns a manager that sends nothing before [Manager.Run].
func New(cfg Config, clock env.Clock, controller Controller, logger *slog.Logger) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Manager{
		cfg: cfg, clock: clock, controller: controller, logger: logger,
		wake: make(chan struct{}, 1), entries: make(map[image.PartitionID]*entry), rivals: make(map[image.PartitionID]rival),
	}, nil
}

// Submit queues an item. The error, if any, wraps [ErrNotAttempted]; Done is not called then.
func (m *Manager) Submit(item Item) error {
	m.mu.Lock()
	if m.entries[item.Partition] != nil {
		m.mu.Unlock()
		return fmt.Errorf("%w: a change of %v is under way", ErrNotAttempted, item.Partition)
	}
	if len(m.entries) >= m.cfg.ItemsMax {
		m.mu.Unlock()
		return fmt.Errorf("%w: the queue holds %d items, the limit; try again later", ErrNotAttempted, m.cfg.ItemsMax)
	}
	e := &entry{item: item, fresh: !item.Repeat}
	if r, ok := m.rivals[item.Partition]; ok && r.proposal.Equal(item.Proposal) {
		e.unprovenUntil = r.until
	}
	m.entries[item.Partition] = e
	m.order = append(m.order, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

// Pending is the number of items that are not answered yet.
func (m *Manager) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// Run sends what is submitted until the context ends.
func (m *Manager) Run(ctx context.Context) {
	for paused := false; ctx.Err() == nil; {
		entries, fresh := m.next()
		if len(entries) == 0 {
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
			continue
		}
		if !fresh && !paused {
			m.pause(ctx, true)
			entries, _ = m.next() // what came meanwhile rides along
		}
		if paused = ctx.Err() == nil && !m.round(ctx, entries); paused {
			m.pause(ctx, false)
		}
	}
}

// next returns the oldest items, as many as one request carries, and whether any of them was not sent before.
func (m *Manager) next() (entries []*entry, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries = append(entries, m.order[:min(len(m.order), m.cfg.ItemsPerRequestMax)]...)
	for _, e := range entries {
		fresh = fresh || e.fresh
	}
	return entries, fresh
}

// pause waits for the backoff, or less if a new item comes and is allowed to end it.
func (m *Manager) pause(ctx context.Context, untilFresh bool) {
	timer := time.NewTimer(m.cfg.RetryBackoff)
	defer timer.Stop()
	for {
		var wake <-chan struct{}
		if untilFresh {
			wake = m.wake
		}
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-wake:
			if _, fresh := m.next(); fresh {
				return
			}
		}
	}
}

// round sends one request and settles what it answers. It returns false if the request failed as a whole.
func (m *Manager) round(ctx context.Context, entries []*entry) bool {
	items := make([]Item, len(entries))
	for i, e := range entries {
		items[i] = e.item
	}
	sent := m.clock.Now()
	limited, cancel := context.WithTimeout(ctx, m.cfg.RequestTimeout)
	defer cancel()
	response, err := m.controller.AlterPartition(limited, buildRequest(m.cfg.BrokerID, m.cfg.BrokerEpoch(), items))
	if err != nil {
		m.failed(ctx, entries, err)
		return false
	}
	m.settle(entries, readResponse(items, response), sent)
	return true
}
