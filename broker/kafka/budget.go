package kafka

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// smallFrame is the size up to which a request's bytes are reserved from the common budget. Larger ones have a budget
// of their own, so that peers who announce much and send it slowly hold up each other and nobody else.
const smallFrame = 1 << 20

// frameBudget bounds the bytes of requests that are being received or handled.
type frameBudget struct {
	small, large *semaphore.Weighted
}

func newFrameBudget(small, large int64) *frameBudget {
	return &frameBudget{small: semaphore.NewWeighted(small), large: semaphore.NewWeighted(large)}
}

// reserve waits until size bytes are free.
func (b *frameBudget) reserve(ctx context.Context, size int) error {
	if size > smallFrame {
		return b.large.Acquire(ctx, int64(size))
	}
	return b.small.Acquire(ctx, int64(size))
}

func (b *frameBudget) release(size int) {
	if size > smallFrame {
		b.large.Release(int64(size))
		return
	}
	b.small.Release(int64(size))
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

// bufferClasses are the sizes of pooled request buffers. A larger request gets a buffer of its own.
var bufferClasses = [...]int{4 << 10, 32 << 10, 256 << 10, smallFrame}

// bufferPool keeps request buffers for reuse.
type bufferPool struct {
	classes [len(bufferClasses)]sync.Pool
}

// get returns a buffer of length 0 that holds at least size bytes, or a smaller one that the caller lets grow if the
// size is beyond the classes: a peer must send the bytes before they are allocated.
func (p *bufferPool) get(size int) []byte {
	for i, class := range bufferClasses {
		if size > class && i < len(bufferClasses)-1 {
			continue
		}
		if size <= class {
			if b, ok := p.classes[i].Get().(*[]byte); ok {
				return (*b)[:0]
			}
		}
		return make([]byte, 0, class)
	}
	return nil
}

// put takes a buffer back when nothing refers to it any more.
func (p *bufferPool) put(b []byte) {
	for i, class := range bufferClasses {
		if cap(b) == class {
			b = b[:0]
			p.classes[i].Put(&b)
			return
		}
	}
}
