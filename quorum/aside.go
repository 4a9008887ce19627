package quorum

import (
	"fmt"
	"math/rand/v2"

	"github.com/quorate/quorate/fsm/image"
)

// asideItemsMin is the number of partitions, topics or configs from which a decision about them is made beside the loop. Less
// than that takes a few milliseconds.
const asideItemsMin = 1000

// aside is a large decision that is made, encoded and replayed on a goroutine of its own, so that heartbeats do not wait
// for it. Nothing else that writes is decided meanwhile: what comes waits in order, the decision stands on the newest
// pending image as any other does, and the whole of it enters that image at once.
type aside struct {
	op *operation
	// about are the brokers whose registration it changes; their own heartbeats wait, too.
	about []image.BrokerID
	// stood is the image that it stands on.
	stood *image.Image
	// behind are answers that rest on it although others were asked: on what was decided before and on what follows from that.
	behind []parked
	// done is closed when what follows is there: the decision, and the claim as it leaves it.
	done    chan struct{}
	plan    plan
	err     error
	told    explanation
	scratch claim
}

// decideAside begins a large decision.
func (l *loop) decideAside(op *operation, about []image.BrokerID) {
	c := l.claim
	l.close(c) // what is open goes its own way
	a := &aside{op: op, about: about, stood: c.pending, done: make(chan struct{}), scratch: *c}
	a.scratch.ready = nil
	own := rand.New(rand.NewPCG(l.rand.Uint64(), l.rand.Uint64()))
	v := l.view()
	v.Rand, v.NewID = own, func() image.UUID { return newID(own) }
	l.aside = a
	l.metrics.OperationsDecided.Add(1)
	l.asides.Go(func() {
		defer close(a.done)
		l.env.At("controller.aside." + op.cause.GetName())
		if a.plan = op.decide(v); a.plan.err == nil {
			a.told = explain(a.plan, a.stood)
			a.err = l.append(&a.scratch, op.cause, a.plan)
		}
	})
}

// onAside takes a large decision over. Heartbeats that came meanwhile count.
func (l *loop) onAside() {
	a, c := l.aside, l.claim
	l.aside = nil
	defer func() {
		for _, p := range a.behind {
			l.parkBehind(p)
		}
	}()
	for _, err := range []error{a.plan.err, a.err} {
		if err != nil {
			a.op.answer(result{err: err})
			return
		}
	}
	s := &a.scratch
	if c.pending != a.stood || c.sequence+uint64(len(s.ready)) != s.sequence {
		l.fatal(fmt.Errorf("quorum: the decision %s was made on the image at offset %d, and the pending one is at %d",
			a.op.cause.GetName(), a.stood.Offset(), c.pending.Offset()))
		a.op.answer(result{err: ErrOutcomeUnknown})
		return
	}
	l.tell(a.op.cause, a.told)
	c.open, c.ready = s.open, append(c.ready, s.ready...)
	c.sequence, c.base, c.chain, c.timeMs, c.pending = s.sequence, s.base, s.chain, s.timeMs, s.pending
	if a.plan.liveness != nil {
		joined := a.plan.liveness.Joined(c.liveness)
		a.plan.liveness = &joined
	}
	l.settle(a.op, a.plan)
}

// parkBehind parks an answer behind the large decision that is under way, if there is one.
func (l *loop) parkBehind(p parked) {
	if l.aside != nil {
		l.aside.behind = append(l.aside.behind, p)
		return
	}
	l.park(p)
}

// dropAside ends a large decision together with its claim; its goroutine ends by itself. What it leaves behind may be in the log.
func (l *loop) dropAside() {
	a := l.aside
	if a == nil {
		return
	}
	l.aside = nil
	a.op.answer(result{err: ErrNotActive})
	for _, p := range a.behind {
		p.answer(result{err: ErrOutcomeUnknown})
	}
}

// asideDone is closed when the large decision is made that is under way, if there is one.
func (l *loop) asideDone() <-chan struct{} {
	if l.aside == nil {
		return nil
	}
	return l.aside.done
}
