package model

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/test/invariant"
)

// healEvery is how many states lie between two of which it is tried whether they heal.
const healEvery = 199

// converges is the promise that healing keeps.
const converges = "Converges"

// healRoundsMax bounds the rounds of healing steps. Each round in which something happens brings a world nearer to peace.
const healRoundsMax = 100

// heal makes every step that is no harm until nothing changes any more, and tells what is still wrong then: once harm stops,
// requests are answered, images converge, brokers serve, replicas catch up and reassignments end.
func (w *World) heal() error {
	actions := w.m.healing()
	for range healRoundsMax {
		before := w.key()
		for _, a := range actions {
			next := w.do(a)
			if next == nil {
				continue
			}
			if err := next.check(); err != nil {
				return fmt.Errorf("%w (while healing: %v)", err, a)
			}
			w = next
		}
		if w.key() == before {
			return w.converged()
		}
	}
	return fmt.Errorf("%s: not at peace after %d rounds", converges, healRoundsMax)
}

// healing are the steps that undo harm. Records are not produced, leaders not balanced and moves not begun, for these would
// go on for ever or change what is to be healed.
func (m *model) healing() []action {
	var list []action
	for _, a := range m.actions() {
		switch a.kind {
		case doCommit, doApply, doFetch, doRequest, doAnswer, doResend, doForget, doHeartbeat, doRegister, doExit, doArrive, doLand:
			list = append(list, a)
		}
	}
	return list
}

// converged tells what keeps a world that nothing happens in from being at peace.
func (w *World) converged() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(w.messages) > 0 || w.tip != w.newest {
		wrong("%d messages are not delivered, %d decisions not committed", len(w.messages), w.pending())
	}
	for i, b := range w.brokers {
		for part := range b.parts {
			if r := &b.parts[part]; r.sent != nil || len(r.waiting) > 0 {
				wrong("broker %d waits for answers: sent %v, %d producers", b.id, r.sent, len(r.waiting))
			}
		}
		known, ok := w.tip.im.Broker(b.id)
		if !b.begun || w.at[i].im != w.tip.im || !ok || !known.IsActive() || known.Epoch != b.epoch {
			wrong("broker %d does not serve: %v", b.id, known)
		}
	}
	for i, p := range w.tip.parts {
		if err := w.peaceful(i, p); err != nil {
			wrong("t-%d (%v): %w", i, p, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", converges, err)
	}
	return nil
}

func (w *World) peaceful(part int, p image.Partition) error {
	if p.Leader == image.NoBroker {
		if len(invariant.Candidates(p)) == 0 && len(p.LastKnownELR) == 0 && !w.m.cfg.Unclean {
			return nil // every log that could lead is gone: only an operator can help
		}
		return errors.New("no leader")
	}
	l := &w.broker(p.Leader).parts[part]
	switch {
	case p.IsReassigning() || !image.SameSet(p.ISR, p.Replicas):
		return errors.New("the ISR is not whole")
	case !l.leads() || l.LeaderEpoch != p.LeaderEpoch || l.PartitionEpoch != p.PartitionEpoch || l.ISR.Pending != nil:
		return fmt.Errorf("the leader is not at rest: %v", l.State)
	case l.HighWatermark != l.log.end():
		return fmt.Errorf("records wait: %v", l.State)
	}
	for _, id := range p.Replicas {
		if o := &w.broker(id).parts[part].log; o.end() != l.log.end() || !o.holds(l.log.entries) {
			return fmt.Errorf("broker %d has %s, the leader %s", id, appendEntries(nil, o.entries), appendEntries(nil, l.log.entries))
		}
	}
	return nil
}
