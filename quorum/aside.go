package quorum

import (
	"math/rand/v2"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// asideMembershipsMin is the number of ISR memberships from which a decision about them is made beside the loop. Less than that
// takes a few milliseconds.
const asideMembershipsMin = 1000

// aside is a large decision that is made, encoded and replayed on a goroutine of its own, so that heartbeats do not wait
// for it. Nothing else that writes is decided meanwhile: what comes waits in order, the decision stands on the newest
// pending image as any other does, and the whole of it enters that image at once.
type aside struct {
	claim *claim
	op    *operation
	// about are the brokers whose partitions it is about; their own heartbeats wait, too.
	about []image.BrokerID
	// done is closed when what follows is there: the decision, and the claim as it leaves it.
	done    chan struct{}
	plan    plan
	err     error
	scratch claim
}

// decideAside begins a large decision.
func (l *loop) decideAside(op *operation, about []image.BrokerID) {
	c := l.claim
	l.close(c) // what is open goes its own way
	a := &aside{claim: c, op: op, about: about, done: make(chan struct{}), scratch: *c}
	a.scratch.ready = nil
	own := rand.New(rand.NewPCG(l.rand.Uint64(), l.rand.Uint64()))
	v := l.view()
	v.Rand, v.NewID = own, func() image.UUID { return newID(own) }
	l.aside = a
	l.metrics.OperationsDecided.Add(1)
	l.asides.Go(func() {
		defer close(a.done)
		if a.plan = op.decide(v); a.plan.err == nil {
			a.err = l.append(&a.scratch, op.cause, a.plan)
		}
	})
}

// onAside takes a large decision over. Heartbeats that came meanwhile count.
func (l *loop) onAside() {
	a, c := l.aside, l.claim
	l.aside = nil
	for _, err := range []error{a.plan.err, a.err} {
		if err != nil {
			a.op.answer(result{err: err})
			return
		}
	}
	l.explain(a.op.cause, a.plan, c.pending)
	s := &a.scratch
	c.open, c.ready = s.open, append(c.ready, s.ready...)
	c.sequence, c.base, c.chain, c.timeMs, c.pending = s.sequence, s.base, s.chain, s.timeMs, s.pending
	if a.plan.liveness != nil {
		joined := a.plan.liveness.Joined(c.liveness)
		a.plan.liveness = &joined
	}
	l.settle(a.op, a.plan)
}

// meanwhile takes what comes while a large decision is made: heartbeats that change nothing are answered, all else waits.
func (l *loop) meanwhile(op *operation) {
	c := l.claim
	if r := op.beat; r != nil && !slices.Contains(l.aside.about, image.BrokerID(r.GetBrokerId())) && c.restsOnCommitted(r) && !op.isLate(l.env.Now()) {
		if p := op.decide(l.view()); p.err == nil && len(p.records) == 0 {
			l.metrics.OperationsDecided.Add(1)
			l.settle(op, p)
			return
		}
	}
	l.waiting = append(l.waiting, op)
}

// restsOnCommitted tells whether the answer to a heartbeat that changes nothing rests on committed records only: the broker's
// registration is what is committed, and nothing is wished that needs more than that. It need not wait for other entries.
func (c *claim) restsOnCommitted(r *controllerpb.BrokerHeartbeatRequest) bool {
	id := image.BrokerID(r.GetBrokerId())
	now, ok1 := c.pending.Broker(id)
	then, ok2 := c.committed.Broker(id)
	return ok1 && ok2 && !r.GetWantFence() && !r.GetWantShutDown() && now.Epoch == then.Epoch && now.Fenced == then.Fenced &&
		!now.InControlledShutdown && !then.InControlledShutdown
}

// asideDone is closed when the large decision is made that is under way, if there is one.
func (l *loop) asideDone() <-chan struct{} {
	if l.aside == nil {
		return nil
	}
	return l.aside.done
}

// takes tells whether a request may be taken from the queue.
func (l *loop) takes() bool {
	switch {
	case l.claim == nil, l.paused != nil:
		return false
	case l.aside != nil:
		return len(l.waiting) < operationsQueuedMax
	}
	return l.claim.hasRoom()
}

// nextWaiting takes the oldest request that waited for a large decision.
func (l *loop) nextWaiting() (op *operation, ok bool) {
	if len(l.waiting) == 0 || l.aside != nil || !l.takes() {
		return nil, false
	}
	op = l.waiting[0]
	l.waiting = l.waiting[1:]
	return op, true
}

// largeOf returns the brokers among ids if they have so many ISR memberships that a decision about them is large.
func largeOf(v controller.View, ids ...image.BrokerID) []image.BrokerID {
	memberships := 0
	for _, id := range ids {
		memberships += v.Image.ISRCount(id)
	}
	if memberships < asideMembershipsMin {
		return nil
	}
	return ids
}

// leaving returns the sender of a heartbeat that wants to leave if that is a large decision.
func leaving(v controller.View, r *controllerpb.BrokerHeartbeatRequest) []image.BrokerID {
	if !r.GetWantFence() && !r.GetWantShutDown() {
		return nil
	}
	return largeOf(v, image.BrokerID(r.GetBrokerId()))
}
