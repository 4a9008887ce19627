package kafka

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// forwarder runs requests that wait for the active controller, each on a goroutine of its own, up to a limit. Beyond
// it the connection's reader waits, which is the client's backpressure.
type forwarder struct {
	slots *semaphore.Weighted
	wg    sync.WaitGroup
}

func newForwarder(limit int) *forwarder {
	return &forwarder{slots: semaphore.NewWeighted(int64(limit))}
}

// forward runs work with the client's time-out, at most ForwardMax. The work answers the request. It goes on when the
// connection ends, as a change that was asked for is not broken off, but not when the server does.
func (s *Server) forward(r *request, timeoutMillis int32, work func(ctx context.Context)) {
	if s.forwards.slots.Acquire(r.ctx, 1) != nil {
		return // the connection has ended
	}
	timeout := min(time.Duration(timeoutMillis)*time.Millisecond, s.cfg.ForwardMax)
	ctx, cancel := context.WithTimeout(s.base, max(timeout, 0))
	s.forwards.wg.Go(func() {
		defer s.forwards.slots.Release(1)
		defer cancel()
		work(ctx)
	})
}

func (f *forwarder) wait() { f.wg.Wait() }
