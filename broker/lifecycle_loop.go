package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// controllerCalls are the calls that the lifecycle makes to the active controller. A call ends with its context.
type controllerCalls interface {
	RegisterBroker(context.Context, *controllerpb.RegisterBrokerRequest) (*controllerpb.RegisterBrokerResponse, error)
	BrokerHeartbeat(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error)
}

// lifecycleInputs is what the loop asks of the rest of the broker. All may be called from any goroutine.
type lifecycleInputs struct {
	calls controllerCalls
	// registration judges the logs by the present image and makes the request.
	registration func() (*controllerpb.RegisterBrokerRequest, error)
	// position is the metadata that the broker has acted on.
	position func() image.Position
	// registered is called with each new epoch before the first heartbeat goes out under it.
	registered func(image.BrokerEpoch, image.MetadataOffset) error
	// isForgotten tells that the metadata of a newer lineage than that of the registration does not hold it.
	isForgotten func(image.BrokerEpoch) bool
	// answered is called with each answer to a heartbeat.
	answered func(*controllerpb.BrokerHeartbeatResponse)
	// entered is called when the state changes, in order.
	entered func(State)
}

// lifecycleView is what others may know of the lifecycle.
type lifecycleView struct {
	state              State
	epoch              image.BrokerEpoch
	registrationOffset image.MetadataOffset
	fenced             bool // as the last answer to a heartbeat said; true before the first one
	heardAt            time.Time
	lastError          string
}

// lifecycleLoop owns the lifecycle: one goroutine, in run, steps it and makes its calls.
type lifecycleLoop struct {
	id      image.BrokerID
	session time.Duration
	// controlled tells whether a stop hands leaderships over, for at most waitMax.
	controlled bool
	waitMax    time.Duration
	in         lifecycleInputs
	log        *slog.Logger
	now        func() time.Time

	lc   *lifecycle
	view atomic.Pointer[lifecycleView]

	judgeable, ready, stopAsked, stopNow oneShot
	lastLog                              time.Time // of a failure: one line a second
}

// oneShot is a signal that is given once.
type oneShot struct {
	once sync.Once
	ch   chan struct{}
}

func newOneShot() oneShot                { return oneShot{ch: make(chan struct{})} }
func (o *oneShot) fire()                 { o.once.Do(func() { close(o.ch) }) }
func (o *oneShot) done() <-chan struct{} { return o.ch }

func newLifecycleLoop(cfg *Config, in lifecycleInputs, now func() time.Time, log *slog.Logger) *lifecycleLoop {
	ll := &lifecycleLoop{
		id: cfg.ID, session: cfg.SessionTimeout,
		controlled: cfg.ControlledShutdown, waitMax: cfg.ControlledShutdownMaxWait,
		in: in, log: log, now: now,
		lc:        newLifecycle(cfg.HeartbeatInterval),
		judgeable: newOneShot(), ready: newOneShot(), stopAsked: newOneShot(), stopNow: newOneShot(),
	}
	ll.view.Store(&lifecycleView{state: StateNotRunning, epoch: image.NoBrokerEpoch, registrationOffset: image.NoOffset, fenced: true})
	return ll
}

// current is what others may know. Any goroutine may call it.
func (ll *lifecycleLoop) current() lifecycleView { return *ll.view.Load() }

// callResult is what became of a call.
type callResult struct {
	registered *controllerpb.RegisterBrokerResponse
	heartbeat  *controllerpb.BrokerHeartbeatResponse
	err        error
}

// run steps the lifecycle until it is SHUTTING_DOWN. The end of ctx asks for a controlled shutdown.
func (ll *lifecycleLoop) run(ctx context.Context) {
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	results := make(chan callResult, 1)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()

	timer, deadline := stoppedTimer(), stoppedTimer()
	defer timer.Stop()
	defer deadline.Stop()
	carry := func(e effects) {
		ll.publish(e.entered)
		switch {
		case e.timer < 0:
			timer.Stop()
		case e.timer > 0:
			timer.Reset(e.timer)
		}
		if e.send != callNone {
			calls.Go(func() { results <- ll.call(callCtx, e.send) })
		}
	}
	ll.publish(StateStarting)

	judgeable, ready, asked := ll.judgeable.done(), ll.ready.done(), ll.stopAsked.done()
	stopping := ctx.Done()
	for ll.lc.state != StateShuttingDown {
		select {
		case <-judgeable:
			judgeable = nil
			carry(ll.lc.onJudgeable())
		case <-ready:
			ready = nil
			carry(ll.lc.onReady())
		case <-stopping:
			stopping = nil
			ll.stopAsked.fire()
		case <-asked:
			asked = nil
			deadline.Reset(ll.waitMax)
			carry(ll.onStopAsked())
		case <-deadline.C:
			ll.log.Warn("controlled shutdown took too long; stopping without the controller's leave", "waited", ll.waitMax)
			carry(ll.lc.onStopNow())
		case <-ll.stopNow.done():
			carry(ll.lc.onStopNow())
		case <-timer.C:
			carry(ll.lc.onTimer())
		case r := <-results:
			carry(ll.onResult(r))
		}
	}
}

func (ll *lifecycleLoop) onStopAsked() effects {
	if !ll.controlled {
		return ll.lc.onStopNow()
	}
	return ll.lc.onStopAsked()
}

// call makes one call and waits for its answer. It reads only what the lifecycle does not change during a call.
func (ll *lifecycleLoop) call(ctx context.Context, c call) (r callResult) {
	ctx, cancel := context.WithTimeout(ctx, ll.session/heartbeatDeadlines)
	defer cancel()
	if c == callRegister {
		req, err := ll.in.registration()
		if err != nil {
			return callResult{err: err}
		}
		r.registered, r.err = ll.in.calls.RegisterBroker(ctx, req)
		return r
	}
	at := ll.in.position()
	v := ll.current()
	r.heartbeat, r.err = ll.in.calls.BrokerHeartbeat(ctx, &controllerpb.BrokerHeartbeatRequest{
		BrokerId:       int32(ll.id),
		BrokerEpoch:    int64(v.epoch),
		MetadataOffset: int64(at.Offset),
		Chain:          uint64(at.Chain),
		Lineage:        int32(at.Lineage),
		WantFence:      !isFired(&ll.ready),
		WantShutDown:   v.state == StatePendingControlledShutdown,
	})
	return r
}

// heartbeatDeadlines is how many heartbeats may fail one after another within a session.
const heartbeatDeadlines = 3

func (ll *lifecycleLoop) onResult(r callResult) effects {
	switch {
	case r.err != nil:
		return ll.onFailed(r.err)
	case r.registered != nil:
		epoch, offset := image.BrokerEpoch(r.registered.BrokerEpoch), image.MetadataOffset(r.registered.RegistrationOffset)
		if err := ll.in.registered(epoch, offset); err != nil {
			return ll.onFailed(err)
		}
		ll.log.Info("registered", "brokerEpoch", epoch, "registrationOffset", offset)
		ll.setError("")
		return ll.lc.onRegistered(epoch, offset)
	default:
		ll.in.answered(r.heartbeat)
		ll.setFenced(r.heartbeat.IsFenced)
		return ll.lc.onHeartbeat(heartbeatAnswer{
			caughtUp: r.heartbeat.IsCaughtUp, fenced: r.heartbeat.IsFenced, shouldShutDown: r.heartbeat.ShouldShutDown,
		})
	}
}

func (ll *lifecycleLoop) onFailed(err error) effects {
	what := ll.lc.calling
	e := ll.lc.onFailed()
	if ll.lc.state == StateStarting && isStaleEpoch(err) && ll.in.isForgotten(ll.lc.epoch) {
		ll.log.Warn("an offline recovery of the quorum has lost this broker's registration; registering again", "brokerEpoch", ll.lc.epoch)
		return ll.lc.onForgotten()
	}
	ll.setError(err.Error())
	if now := ll.now(); ll.lastLog.IsZero() || now.Sub(ll.lastLog) >= failureLogInterval {
		ll.lastLog = now
		ll.log.Warn("no success at the controller; trying again", "call", what.String(), "failures", ll.lc.failures, "error", err)
	}
	return e
}

// failureLogInterval spaces the lines that tell of failures in a row.
const failureLogInterval = time.Second

// publish makes the lifecycle's state visible to others.
func (ll *lifecycleLoop) publish(s State) {
	v := ll.current()
	before := v.state
	v.state, v.epoch, v.registrationOffset = s, ll.lc.epoch, ll.lc.registrationOffset
	ll.view.Store(&v)
	if before != s {
		ll.log.Info("state changed", "from", before.String(), "to", s.String())
		ll.in.entered(s)
	}
}

func (ll *lifecycleLoop) setFenced(fenced bool) {
	v := ll.current()
	if v.fenced != fenced {
		ll.log.Info("fencing changed", "fenced", fenced)
	}
	v.fenced, v.heardAt, v.lastError = fenced, ll.now(), ""
	ll.view.Store(&v)
}

func (ll *lifecycleLoop) setError(text string) {
	v := ll.current()
	v.lastError = text
	ll.view.Store(&v)
}

func isFired(o *oneShot) bool {
	select {
	case <-o.ch:
		return true
	default:
		return false
	}
}

// stoppedTimer is a timer that fires only after a Reset.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// isStaleEpoch tells that the controller does not know this life of the broker.
func isStaleEpoch(err error) bool {
	refusal, ok := client.AsRefusal(err)
	return ok && refusal.Code == controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH
}
