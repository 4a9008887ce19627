package kafka

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// peer is a request on its way through a budget.
type peer struct {
	t    *testing.T
	b    *byteBudget
	rate int // bytes a second
}

// receive takes a request as readFrame does, in reads of up to 64 KiB, lets it be handled, and tells whether it was
// received whole. It stops where it stalls, until it is closed.
func (p peer) receive(size, stallAt int, handling time.Duration) bool {
	closed := make(chan struct{})
	in, err := p.b.reserve(p.t.Context(), int64(size), func() { close(closed) })
	if err != nil {
		p.t.Error(err)
		return false
	}
	defer in.release()
	p.b.mu.Lock()
	if p.b.used > p.b.limit {
		p.t.Errorf("%d bytes are held, the limit is %d", p.b.used, p.b.limit)
	}
	p.b.mu.Unlock()
	for have := firstBuffer; have < size; {
		if have >= stallAt {
			<-closed
			return false
		}
		n := min(64<<10, size-have)
		select {
		case <-time.After(time.Duration(n) * time.Second / time.Duration(p.rate)):
		case <-closed:
			return false
		}
		have += n
		in.arrived(n)
	}
	in.received()
	time.Sleep(handling)
	return true
}

// Requests that need many times the budget finish, all of them, whatever their sizes and their handlers' times. Nobody who sends is closed, and the limit holds throughout.
func TestHonestRequestsBeyondTheBudgetAllFinish(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		size  int
	}{
		{"small", 2 << 20, smallFrame},
		{"small, odd limit", 2<<20 + 12345, smallFrame},
		{"large, room for one", 20 << 20, 20 << 20},
		{"large", 50 << 20, 20 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &byteBudget{limit: c.limit, clock: env.OS("").Clock}
				r := rand.New(rand.NewPCG(1, 2))
				var wg sync.WaitGroup
				for i := range 60 {
					size := c.size
					if i%3 > 0 {
						size = firstBuffer + 1 + r.IntN(c.size-firstBuffer)
					}
					p, handling := peer{t, b, 2<<20 + r.IntN(8<<20)}, time.Duration(r.IntN(2000))*time.Millisecond
					wg.Go(func() {
						if !p.receive(size, size, handling) {
							t.Errorf("a request of %d bytes at %d bytes a second was closed", size, p.rate)
						}
					})
				}
				wg.Wait()
				b.empty(t)
			})
		})
	}
}

// With peers that stall at any point among them, the honest ones still all finish, and those who stall are closed.
func TestHonestRequestsFinishAmongStalledOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &byteBudget{limit: 2 << 20, clock: env.OS("").Clock}
		r := rand.New(rand.NewPCG(3, 4))
		var honest, stalled sync.WaitGroup
		for range 60 {
			at := firstBuffer + 1 + r.IntN(smallFrame-firstBuffer-1)
			stalled.Go(func() { peer{t, b, 64 << 20}.receive(smallFrame, at, 0) })
			honest.Go(func() {
				if !(peer{t, b, 2 << 20}).receive(smallFrame, smallFrame, time.Millisecond) {
					t.Error("an honest request was closed")
				}
			})
		}
		honest.Wait()
		// The last of those who stall hold what they have while nobody waits; one who wants all makes them go.
		in, err := b.reserve(t.Context(), b.limit, func() { t.Error("who waited was closed") })
		if err != nil {
			t.Fatal(err)
		}
		in.release()
		stalled.Wait()
		b.empty(t)
	})
}

func (b *byteBudget) empty(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used != 0 || b.leaving != 0 || b.receiving.Len() != 0 || len(b.waiting) != 0 {
		t.Errorf("left behind: %d held, %d leaving, %d receiving, %d waiting", b.used, b.leaving, b.receiving.Len(), len(b.waiting))
	}
}
