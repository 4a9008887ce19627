package kafka

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// smallFrame is the size up to which a request's bytes are reserved from the common budget. Larger ones have a budget
// of their own, so that large requests hold up each other and nobody else.
const smallFrame = 1 << 20

const (
	// lagMax is how long a request waits for buffer space before those who hold space and lag are closed, and how far
	// a peer may be behind receiveRateMin before it lags.
	lagMax = time.Second
	// receiveRateMin is what a peer must send of a request that it began, in bytes a second, not to lag.
	receiveRateMin = 1 << 20
)

// frameBudget bounds the buffers of requests that are being received or handled, beyond the first buffer of each
// connection.
type frameBudget struct {
	small, large *byteBudget
}

func newFrameBudget(small, large int64, clock env.Clock) *frameBudget {
	return &frameBudget{small: &byteBudget{limit: small, clock: clock}, large: &byteBudget{limit: large, clock: clock}}
}

// reserve waits until a request of size bytes has buffer space. Lag ends its connection; it must not block.
func (b *frameBudget) reserve(ctx context.Context, size int, lag func()) (*intake, error) {
	if size > smallFrame {
		return b.large.reserve(ctx, int64(size), lag)
	}
	return b.small.reserve(ctx, int64(bufferFor(size)), lag)
}

// byteBudget is given to a request all at once, when its first buffer is full. So who holds some of it waits for its
// peer or its handler only, never for more, and requests cannot wait for each other in a circle.
type byteBudget struct {
	limit int64
	clock env.Clock

	mu sync.Mutex
	// used is what all requests hold, and leaving the part of it whose connections have been told to close.
	used, leaving int64
	receiving     list.List // of *intake: unfinished requests that hold space, oldest first
	waiting       []*intake // who waits longest first; one for each connection at most
	oldestNext    bool      // whose turn it is in waiting
}

// intake is the reservation of one request, used by its connection's reader. A request within the first buffer has
// none: nil, of which everything is received and nothing is held.
type intake struct {
	b       *byteBudget
	size    int64
	lag     func()
	granted chan struct{}
	// onPaceUntil is when the peer lags unless it sends more, in clock nanoseconds.
	onPaceUntil atomic.Int64

	// Under b.mu. Place is nil when the request waits, and again when it is received.
	place   *list.Element
	evicted bool
}

// reserve waits for size bytes. A wait of lagMax, and each after it, closes those who lag.
func (b *byteBudget) reserve(ctx context.Context, size int64, lag func()) (*intake, error) {
	in := &intake{b: b, size: size, lag: lag, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, in)
	b.grant()
	holds := in.place != nil
	b.mu.Unlock()
	if holds {
		return in, nil
	}
	timer := time.NewTimer(lagMax)
	defer timer.Stop()
	for {
		select {
		case <-in.granted:
			return in, nil
		case <-timer.C:
			b.evict()
			timer.Reset(lagMax)
		case <-ctx.Done():
			b.mu.Lock()
			defer b.mu.Unlock()
			if in.place != nil {
				return in, nil // granted meanwhile; the reader finds the connection closed
			}
			b.waiting = slices.DeleteFunc(b.waiting, func(w *intake) bool { return w == in })
			b.grant()
			return nil, ctx.Err()
		}
	}
}

// arrived tells that the peer has sent n bytes more. What it sent ahead counts for no longer than lagMax.
func (in *intake) arrived(n int) {
	if in == nil {
		return
	}
	until := in.onPaceUntil.Load() + int64(n)*int64(time.Second)/receiveRateMin
	in.onPaceUntil.Store(min(until, in.b.clock.Now().Add(lagMax).UnixNano()))
}

// received tells that the request is complete. It holds its bytes until release.
func (in *intake) received() {
	if in == nil {
		return
	}
	in.b.mu.Lock()
	defer in.b.mu.Unlock()
	in.leave()
}

// release gives the space back; it is called once. It tells whether the connection was closed for lagging.
func (in *intake) release() (evicted bool) {
	if in == nil {
		return false
	}
	b := in.b
	b.mu.Lock()
	defer b.mu.Unlock()
	in.leave()
	b.used -= in.size
	if in.evicted {
		b.leaving -= in.size
	}
	b.grant()
	return in.evicted
}

func (in *intake) leave() {
	if in.place != nil {
		in.b.receiving.Remove(in.place)
		in.place = nil
	}
}

// grant gives out what is free, by turns to who wants least, so that an ordinary request does not queue behind many
// large ones, and to who waits longest, so that nobody waits for ever. Nobody goes before one whose turn it is.
func (b *byteBudget) grant() {
	for len(b.waiting) > 0 {
		next := 0
		for i, in := range b.waiting {
			if !b.oldestNext && in.size < b.waiting[next].size {
				next = i
			}
		}
		in := b.waiting[next]
		if b.used+in.size > b.limit {
			return
		}
		b.waiting = slices.Delete(b.waiting, next, next+1)
		b.oldestNext = !b.oldestNext
		b.used += in.size
		in.onPaceUntil.Store(b.clock.Now().Add(lagMax).UnixNano()) // a wait was not the peer's
		in.place = b.receiving.PushBack(in)
		close(in.granted)
	}
}

// evict closes the connections of those who lag, oldest first, until what they hold covers what is waited for and an
// eighth of the budget: those who come next shall not have to wait as well.
func (b *byteBudget) evict() {
	now := b.clock.Now().UnixNano()
	var out []*intake
	b.mu.Lock()
	short := b.limit/8 - b.leaving
	for _, in := range b.waiting {
		short += in.size
	}
	for e := b.receiving.Front(); e != nil && short > 0; e = e.Next() {
		in := e.Value.(*intake)
		if in.evicted || now < in.onPaceUntil.Load() {
			continue
		}
		in.evicted = true
		b.leaving += in.size
		short -= in.size
		out = append(out, in)
	}
	b.mu.Unlock()
	for _, in := range out {
		in.lag()
	}
}

// fetchBudget bounds the records in answers that are being written. It never blocks: it grants less.
type fetchBudget struct {
	left atomic.Int64
}

// take grants up to want bytes.
func (b *fetchBudget) take(want int) int {
	for {
		left := b.left.Load()
		got := min(int64(want), max(left, 0))
		if got == 0 || b.left.CompareAndSwap(left, left-got) {
			return int(got)
		}
	}
}

func (b *fetchBudget) give(n int) { b.left.Add(int64(n)) }
