package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// scriptedController answers from functions and notes when it was called.
type scriptedController struct {
	began time.Time

	mu        sync.Mutex
	calls     []string
	register  func(context.Context) (*controllerpb.RegisterBrokerResponse, error)
	heartbeat func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error)
}

func (c *scriptedController) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf("%v ", time.Since(c.began))+fmt.Sprintf(format, args...))
}

func (c *scriptedController) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.calls
	c.calls = nil
	return t
}

func (c *scriptedController) RegisterBroker(ctx context.Context, _ *controllerpb.RegisterBrokerRequest) (*controllerpb.RegisterBrokerResponse, error) {
	c.note("register")
	return c.register(ctx)
}

func (c *scriptedController) BrokerHeartbeat(ctx context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
	c.note("heartbeat epoch=%d offset=%d wantFence=%v wantShutDown=%v", r.BrokerEpoch, r.MetadataOffset, r.WantFence, r.WantShutDown)
	c.mu.Lock()
	answer := c.heartbeat
	c.mu.Unlock()
	return answer(ctx, r)
}

func (c *scriptedController) setHeartbeat(f func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heartbeat = f
}

// loopFixture is a lifecycle loop against a scripted controller that fences, unfences and lets go at once.
func loopFixture(t *testing.T) (*lifecycleLoop, *scriptedController, *[]State) {
	t.Helper()
	c := &scriptedController{began: time.Now()}
	c.register = func(context.Context) (*controllerpb.RegisterBrokerResponse, error) {
		return &controllerpb.RegisterBrokerResponse{BrokerEpoch: 41, RegistrationOffset: 41}, nil
	}
	c.heartbeat = func(_ context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
		return &controllerpb.BrokerHeartbeatResponse{IsCaughtUp: true, IsFenced: r.WantFence || r.WantShutDown, ShouldShutDown: r.WantShutDown}, nil
	}
	states := &[]State{}
	cfg := DefaultConfig()
	cfg.ID = 1
	ll := newLifecycleLoop(&cfg, lifecycleInputs{
		calls:        c,
		registration: func() (*controllerpb.RegisterBrokerRequest, error) { return &controllerpb.RegisterBrokerRequest{}, nil },
		position:     func() image.Position { return image.Position{Offset: 50} },
		registered:   func(image.BrokerEpoch, image.MetadataOffset) error { return nil },
		answered:     func(*controllerpb.BrokerHeartbeatResponse) {},
		entered:      func(s State) { *states = append(*states, s) },
	}, time.Now, slog.New(slog.DiscardHandler))
	return ll, c, states
}

func TestLifecycleLoopRunsThroughItsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ll, c, states := loopFixture(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); ll.run(ctx) }()
		synctest.Wait()
		if got := c.taken(); got != nil {
			t.Errorf("sent before the logs could be judged: %q", got)
		}
		ll.judgeable.fire()
		synctest.Wait()
		ll.ready.fire()
		time.Sleep(5 * time.Second)
		cancel()
		<-done
		want := []string{
			"0s register",
			"0s heartbeat epoch=41 offset=50 wantFence=true wantShutDown=false",
			"0s heartbeat epoch=41 offset=50 wantFence=false wantShutDown=false",
			"2s heartbeat epoch=41 offset=50 wantFence=false wantShutDown=false",
			"4s heartbeat epoch=41 offset=50 wantFence=false wantShutDown=false",
			"5s heartbeat epoch=41 offset=50 wantFence=false wantShutDown=true",
		}
		if d := cmp.Diff(want, c.taken()); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]State{StateStarting, StateRecovery, StateRunning, StatePendingControlledShutdown, StateShuttingDown}, *states); d != "" {
			t.Errorf("states (-want +got):\n%s", d)
		}
	})
}

// A registration is repeated for ever (KAFKA-18106).
func TestRegistrationIsRepeatedUntilTheOldSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ll, c, _ := loopFixture(t)
		accept := c.register
		c.register = func(ctx context.Context) (*controllerpb.RegisterBrokerResponse, error) {
			if time.Since(c.began) < 9*time.Second {
				return nil, errors.New("DUPLICATE_BROKER_REGISTRATION")
			}
			return accept(ctx)
		}
		go ll.run(t.Context())
		ll.judgeable.fire()
		time.Sleep(9*time.Second + retryBackoffMax)
		if v := ll.current(); v.epoch != 41 || v.state != StateRecovery {
			t.Errorf("after the session: %+v", v)
		}
		ll.stopNow.fire()
		synctest.Wait()
	})
}

// A controller that never answers holds a stop up no longer than the limit, and a call no longer than its deadline.
func TestControlledShutdownEndsWithoutController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ll, c, _ := loopFixture(t)
		done := make(chan struct{})
		go func() { defer close(done); ll.run(t.Context()) }()
		ll.judgeable.fire()
		synctest.Wait()
		ll.ready.fire()
		synctest.Wait()
		c.setHeartbeat(func(ctx context.Context, _ *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c.taken()
		asked := time.Now()
		ll.stopAsked.fire()
		<-done
		if waited := time.Since(asked); waited != 30*time.Second {
			t.Errorf("stopped after %v", waited)
		}
		if n := len(c.taken()); n < 7 || n > 10 {
			t.Errorf("%d heartbeats in 30 s of a mute controller, with a deadline of 3 s each", n)
		}
	})
}

// A stale broker epoch changes nothing but the pace: the broker keeps its epoch and state and sends no registration.
func TestStaleBrokerEpochKeepsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ll, c, _ := loopFixture(t)
		go ll.run(t.Context())
		ll.judgeable.fire()
		synctest.Wait()
		ll.ready.fire()
		synctest.Wait()
		c.taken()
		c.setHeartbeat(func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
			return nil, errors.New("STALE_BROKER_EPOCH")
		})
		time.Sleep(time.Minute)
		if v := ll.current(); v.state != StateRunning || v.epoch != 41 {
			t.Errorf("after a minute of stale epochs: %+v", v)
		}
		for _, call := range c.taken() {
			var at, what string
			fmt.Sscan(call, &at, &what)
			if what != "heartbeat" {
				t.Errorf("sent %q", call)
			}
		}
		ll.stopNow.fire()
		synctest.Wait()
	})
}
