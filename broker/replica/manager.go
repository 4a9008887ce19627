package replica

import (
	"context"
	"log/slog"
	"sync"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// Manager fetches the partitions that this broker follows, with one fetcher a leader's address.
type Manager struct {
	cfg    Config
	dialer Dialer
	clock  env.Clock
	logger *slog.Logger

	wg sync.WaitGroup // fetchers

	mu       sync.Mutex
	ctx      context.Context // of Run; nil before
	closed   bool
	fetchers map[endpoint]*fetcher
	// where is the fetcher that has a partition, running, delayed or failed.
	where map[image.PartitionID]*fetcher
}

// endpoint is what a fetcher is bound to. A broker that moves to another address gets a new one.
type endpoint struct {
	leader  image.BrokerID
	address string
}

// NewManager returns a manager that fetches nothing before [Manager.Run].
func NewManager(cfg Config, dialer Dialer, clock env.Clock, logger *slog.Logger) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Manager{
		cfg: cfg, dialer: dialer, clock: clock, logger: logger,
		fetchers: make(map[endpoint]*fetcher), where: make(map[image.PartitionID]*fetcher),
	}, nil
}

// Run fetches until the context ends, and returns when no log is touched any more. It is called once.
func (m *Manager) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for _, f := range m.fetchers {
		m.start(f)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.wg.Wait()
}

// start runs a fetcher on its own goroutine, now or when Run begins. The manager's lock is held.
func (m *Manager) start(f *fetcher) {
	if ctx := m.ctx; ctx != nil && !m.closed {
		m.wg.Go(func() { f.run(ctx) })
	}
}

// Remove ends the fetching of partitions. When it returns, no fetch touches their logs any more. Partitions that are not
// fetched are passed over.
func (m *Manager) Remove(ids []image.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(ids)
}

func (m *Manager) remove(ids []image.PartitionID) {
	byFetcher := make(map[*fetcher][]image.PartitionID)
	for _, id := range ids {
		if f := m.where[id]; f != nil {
			byFetcher[f] = append(byFetcher[f], id)
			delete(m.where, id)
		}
	}
	for f, ids := range byFetcher {
		f.remove(ids)
	}
}

// Add begins the fetching of partitions, each at the end of its log. One that is fetched from the same leader in the same
// leader epoch goes on as it is, unless it has failed. What runs under others is stopped before any log end is read.
func (m *Manager) Add(list []Assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	var begin []Assignment
	var stop []image.PartitionID
	for _, a := range list {
		f := m.where[a.Partition]
		if f != nil && f.endpoint == (endpoint{a.Leader, a.Address}) && f.fetches(a) {
			continue
		}
		begin = append(begin, a)
		stop = append(stop, a.Partition)
	}
	m.remove(stop)
	byFetcher := make(map[*fetcher][]Assignment)
	for _, a := range begin {
		f := m.fetcher(endpoint{a.Leader, a.Address})
		byFetcher[f] = append(byFetcher[f], a)
		m.where[a.Partition] = f
	}
	for f, list := range byFetcher {
		f.add(list)
	}
}

// fetcher returns the fetcher of an endpoint, and starts one if there is none.
func (m *Manager) fetcher(e endpoint) *fetcher {
	f := m.fetchers[e]
	if f == nil {
		f = newFetcher(m, e)
		m.fetchers[e] = f
		m.start(f)
	}
	return f
}

// retire forgets a fetcher that has had no partition for a while. It returns false if it has one by now.
func (m *Manager) retire(f *fetcher) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !f.isIdle() {
		return false
	}
	delete(m.fetchers, f.endpoint)
	return true
}

// Status tells how the fetching of a partition goes.
func (m *Manager) Status(id image.PartitionID) Status {
	m.mu.Lock()
	f := m.where[id]
	m.mu.Unlock()
	if f == nil {
		return StatusNone
	}
	return f.status(id)
}

// Counts are the numbers of partitions in each state, and of fetchers.
type Counts struct {
	Fetching, Delayed, Failed, Fetchers int
	// LagMax is the largest number of offsets by which a fetched partition is behind what its leader last told.
	LagMax int64
}

// Counts is for metrics. It looks at every partition.
func (m *Manager) Counts() Counts {
	m.mu.Lock()
	fetchers := make([]*fetcher, 0, len(m.fetchers))
	for _, f := range m.fetchers {
		fetchers = append(fetchers, f)
	}
	m.mu.Unlock()
	c := Counts{Fetchers: len(fetchers)}
	for _, f := range fetchers {
		f.count(&c)
	}
	return c
}
