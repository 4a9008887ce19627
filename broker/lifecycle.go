package broker

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// State is where a broker stands between its start and its end. The numbers are those of Kafka's BrokerState.
type State int32

const (
	// StateNotRunning is before Run.
	StateNotRunning State = 0
	// StateStarting follows the metadata, registers, and catches up with the own registration.
	StateStarting State = 1
	// StateRecovery recovers the logs and carries out the first image; the broker is still fenced.
	StateRecovery State = 2
	// StateRunning has been unfenced at least once.
	StateRunning State = 3
	// StatePendingControlledShutdown serves on until the controller has moved the leaderships.
	StatePendingControlledShutdown State = 6
	// StateShuttingDown is the end.
	StateShuttingDown State = 7
)

// String is the state's name in logs, metrics and NodeStatus.
func (s State) String() string {
	switch s {
	case StateNotRunning:
		return "NOT_RUNNING"
	case StateStarting:
		return "STARTING"
	case StateRecovery:
		return "RECOVERY"
	case StateRunning:
		return "RUNNING"
	case StatePendingControlledShutdown:
		return "PENDING_CONTROLLED_SHUTDOWN"
	case StateShuttingDown:
		return "SHUTTING_DOWN"
	default:
		return fmt.Sprintf("UNKNOWN(%d)", int32(s))
	}
}

// Pauses between two calls of a broker to the controller, beside the heartbeat interval.
const (
	// catchUpIntervalMin is the pause between the first heartbeats of a broker that catches up with its registration. It
	// doubles with each answer that says "not yet", up to catchUpIntervalMax and never above the heartbeat interval.
	catchUpIntervalMin = 10 * time.Millisecond
	catchUpIntervalMax = 320 * time.Millisecond
	// handOverInterval is the pause after the first answer that does not yet let the broker stop.
	handOverInterval = 50 * time.Millisecond
	// retryBackoffMin doubles with each failure in a row, up to retryBackoffMax.
	retryBackoffMin = 100 * time.Millisecond
	retryBackoffMax = time.Second
)

// call is what a broker sends to the controller of its own accord.
type call uint8

const (
	callNone call = iota
	callRegister
	callHeartbeat
)

func (c call) String() string { return [...]string{"none", "register", "heartbeat"}[c] }

// lifecycle is the broker's dealing with the controller as a value: events in, effects out. It reads no clock and
// starts nothing; lifecycleLoop owns the one instance and carries the effects out.
//
// At most one call is under way and at most one is scheduled (Kafka: BrokerLifecycleManager).
type lifecycle struct {
	state    State
	interval time.Duration // between heartbeats of a running broker

	epoch              image.BrokerEpoch    // NoBrokerEpoch until registered
	registrationOffset image.MetadataOffset // of the registration, NoOffset until registered
	wantFence          bool                 // until the broker is ready to serve

	calling       call // under way
	again         bool // send the next one as soon as the present one has succeeded
	failures      int  // in a row
	behind        int  // answers in a row that said "not caught up yet", until the pause is at its longest
	askedToStop   bool // PENDING: a heartbeat with want_shut_down has been answered
	judgeable     bool // the image suffices to judge the logs by
	shutdownAsked bool
}

// effects is what an event leads to, in the order of the fields.
type effects struct {
	entered State         // a new state, else the present one
	send    call          // to make now
	timer   time.Duration // until onTimer; negative: no timer, zero: the timer stays as it is
}

const timerNone time.Duration = -1

// heartbeatAnswer is what the lifecycle reads in an answer.
type heartbeatAnswer struct {
	caughtUp, fenced, shouldShutDown bool
}

func newLifecycle(interval time.Duration) *lifecycle {
	return &lifecycle{
		state:              StateStarting,
		interval:           interval,
		epoch:              image.NoBrokerEpoch,
		registrationOffset: image.NoOffset,
		wantFence:          true,
	}
}

// onJudgeable: the image has reached the position that the stream began with, and the log directory was listed.
// Only now may the broker register.
func (lc *lifecycle) onJudgeable() effects {
	if lc.state != StateStarting || lc.judgeable {
		return lc.stay()
	}
	lc.judgeable = true
	return lc.sendNow()
}

// onTimer: the scheduled call is due.
func (lc *lifecycle) onTimer() effects { return lc.sendNow() }

// onRegistered: the registration is in the log.
func (lc *lifecycle) onRegistered(epoch image.BrokerEpoch, offset image.MetadataOffset) effects {
	lc.succeeded()
	if lc.state == StateShuttingDown {
		return lc.stay()
	}
	lc.epoch, lc.registrationOffset = epoch, offset
	return lc.sendNow()
}

// onFailed: a call got no answer, or any refusal. None is final: a duplicate registration ends with the old
// session (KAFKA-18106), and a stale epoch leaves the broker as it is (it learns the rest from the metadata).
func (lc *lifecycle) onFailed() effects {
	lc.calling = callNone
	lc.again = false
	if lc.state == StateShuttingDown {
		return lc.stay()
	}
	wait := retryBackoffMax
	if lc.failures < 4 {
		wait = retryBackoffMin << lc.failures
	}
	lc.failures++
	return effects{entered: lc.state, timer: min(wait, retryBackoffMax)}
}

// onForgotten: the metadata does not know this life any more, for an offline recovery has lost its registration. As long as nothing
// has been acted on it registers again; a later life ends ([ErrNewLineage]).
func (lc *lifecycle) onForgotten() effects {
	if lc.state != StateStarting || lc.epoch == image.NoBrokerEpoch {
		return lc.stay()
	}
	lc.epoch, lc.registrationOffset = image.NoBrokerEpoch, image.NoOffset
	return lc.sendNow()
}

// onHeartbeat: a heartbeat was answered.
func (lc *lifecycle) onHeartbeat(a heartbeatAnswer) effects {
	again := lc.again
	lc.succeeded()
	wait := lc.interval
	switch lc.state {
	case StateStarting:
		wait = min(catchUpIntervalMin<<lc.behind, catchUpIntervalMax, lc.interval)
		if catchUpIntervalMin<<lc.behind < catchUpIntervalMax {
			lc.behind++
		}
		if a.caughtUp {
			lc.state, wait = StateRecovery, catchUpIntervalMin
		}
	case StateRecovery:
		if !a.fenced {
			lc.state = StateRunning
		}
	case StatePendingControlledShutdown:
		if a.shouldShutDown {
			return lc.enter(StateShuttingDown)
		}
		// The answer to a heartbeat sent before the broker wanted to stop says nothing about that.
		if !lc.askedToStop && !again {
			lc.askedToStop = true
			wait = handOverInterval
		}
	case StateShuttingDown:
		return lc.stay()
	}
	if again {
		return lc.sendNow()
	}
	return effects{entered: lc.state, timer: wait}
}

// onReady: the first image has been carried out and requests are served; ask to be unfenced.
func (lc *lifecycle) onReady() effects {
	if lc.state == StateShuttingDown || !lc.wantFence {
		return lc.stay()
	}
	lc.wantFence = false
	return lc.sendNow()
}

// onStopAsked: hand the leaderships over if there can be any, else end at once.
func (lc *lifecycle) onStopAsked() effects {
	if lc.shutdownAsked {
		return lc.stay()
	}
	lc.shutdownAsked = true
	if lc.state != StateRunning {
		return lc.enter(StateShuttingDown)
	}
	lc.state = StatePendingControlledShutdown
	return lc.sendNow()
}

// onStopNow: the time for a controlled shutdown is over, or none is wanted.
func (lc *lifecycle) onStopNow() effects {
	lc.shutdownAsked = true
	if lc.state == StateShuttingDown {
		return lc.stay()
	}
	return lc.enter(StateShuttingDown)
}

// wantShutDown is what heartbeats carry.
func (lc *lifecycle) wantShutDown() bool { return lc.state == StatePendingControlledShutdown }

func (lc *lifecycle) succeeded() {
	lc.calling = callNone
	lc.again = false
	lc.failures = 0
}

func (lc *lifecycle) stay() effects { return effects{entered: lc.state} }

func (lc *lifecycle) enter(s State) effects {
	lc.state = s
	return effects{entered: s, timer: timerNone}
}

// sendNow makes the call that is due, or notes that one is to follow the one under way.
func (lc *lifecycle) sendNow() effects {
	switch {
	case lc.state == StateShuttingDown, !lc.judgeable:
		return effects{entered: lc.state, timer: timerNone}
	case lc.calling != callNone:
		lc.again = true
		return lc.stay()
	case lc.epoch == image.NoBrokerEpoch:
		lc.calling = callRegister
	default:
		lc.calling = callHeartbeat
	}
	return effects{entered: lc.state, send: lc.calling, timer: timerNone}
}

// String is the lifecycle in one line.
func (lc *lifecycle) String() string {
	s := fmt.Sprintf("%v epoch=%d", lc.state, lc.epoch)
	if lc.wantFence {
		s += " wantFence"
	}
	if lc.wantShutDown() {
		s += " wantShutDown"
	}
	if lc.calling != callNone {
		s += " calling=" + lc.calling.String()
	}
	if lc.again {
		s += " again"
	}
	if lc.failures > 0 {
		s += fmt.Sprintf(" failures=%d", lc.failures)
	}
	return s
}

// String is the effects in one line.
func (e effects) String() string {
	s := ""
	if e.send != callNone {
		s += "send " + e.send.String()
	}
	if e.timer > 0 {
		s += "timer " + e.timer.String()
	}
	if s == "" {
		return "-"
	}
	return s
}
