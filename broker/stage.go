package broker

import (
	"context"
	"sync"
)

// stage is a set of goroutines that are stopped together, before or after others.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// newStage makes a stage that no other context ends: the broker stops its stages in their order.
func newStage(ctx context.Context) *stage {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &stage{ctx: ctx, cancel: cancel}
}

// run starts a goroutine that ends with the stage.
func (s *stage) run(f func(context.Context)) { s.wg.Go(func() { f(s.ctx) }) }

// stop ends the stage and waits. It may be called again.
func (s *stage) stop() {
	s.cancel()
	s.wg.Wait()
}
