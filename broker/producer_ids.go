package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// producerIDsRefill is the share of a block after whose use the next one is asked for, in percent.
	producerIDsRefill = 90
	// producerIDsWaitMax bounds how long a client's request waits for a block.
	producerIDsWaitMax = time.Second
	// producerIDsRetry is the pause after a block could not be had; it doubles with each failure in a row, up to retryBackoffMax.
	producerIDsRetry = 50 * time.Millisecond
)

// errNoProducerID says that no block of producer ids could be had in time; the client asks again.
var errNoProducerID = errors.New("broker: no producer id at hand; the controller has not answered yet")

// idBlock is a range of producer ids that the metadata log gave to this broker: first, first+1, …, end-1.
type idBlock struct{ first, end int64 }

func (b idBlock) left() int64 { return b.end - b.first }

// producerIDs hands out producer ids, each once in the life of the cluster: a block is committed in the metadata log
// before the first of it is used, and what is left of a block at a crash is lost (KIP-360, Kafka: ProducerIdManager).
// Any goroutine may call Next; run is the one goroutine that asks for blocks.
type producerIDs struct {
	allocate func(context.Context) (idBlock, error)
	log      *slog.Logger

	mu      sync.Mutex
	block   idBlock
	size    int64 // of the block when it was new
	next    idBlock
	arrived chan struct{} // closed and replaced when a block arrives
	want    chan struct{}
}

func newProducerIDs(allocate func(context.Context) (idBlock, error), log *slog.Logger) *producerIDs {
	return &producerIDs{allocate: allocate, log: log, arrived: make(chan struct{}), want: make(chan struct{}, 1)}
}

// Next returns an id that nobody else has. It waits for a block for a second at most.
func (pi *producerIDs) Next(ctx context.Context) (int64, error) {
	timer := time.NewTimer(producerIDsWaitMax)
	defer timer.Stop()
	for {
		id, ok, arrived := pi.take()
		if ok {
			return id, nil
		}
		select {
		case <-arrived:
		case <-timer.C:
			return 0, errNoProducerID
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", errNoProducerID, ctx.Err())
		}
	}
}

// take takes an id off the block if there is one, and wakes run when little is left.
func (pi *producerIDs) take() (id int64, ok bool, arrived <-chan struct{}) {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	if pi.block.left() == 0 {
		pi.block, pi.next = pi.next, idBlock{}
		pi.size = pi.block.left()
	}
	if ok = pi.block.left() > 0; ok {
		id = pi.block.first
		pi.block.first++
	}
	if pi.next.left() == 0 && pi.block.left()*100 <= pi.size*(100-producerIDsRefill) {
		select {
		case pi.want <- struct{}{}:
		default:
		}
	}
	return id, ok, pi.arrived
}

// run asks for blocks as they are wanted, until ctx ends.
func (pi *producerIDs) run(ctx context.Context) {
	for {
		select {
		case <-pi.want:
		case <-ctx.Done():
			return
		}
		for wait := producerIDsRetry; pi.needs(); wait = min(2*wait, retryBackoffMax) {
			block, err := pi.allocate(ctx)
			if err == nil {
				pi.put(block)
				break
			}
			pi.log.Warn("no block of producer ids could be had; trying again", "in", wait, "error", err)
			if !sleep(ctx, wait) {
				return
			}
		}
	}
}

func (pi *producerIDs) needs() bool {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	return pi.next.left() == 0 && pi.block.left()*100 <= pi.size*(100-producerIDsRefill)
}

func (pi *producerIDs) put(b idBlock) {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	pi.next = b
	close(pi.arrived)
	pi.arrived = make(chan struct{})
}
