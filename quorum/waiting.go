package quorum

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// writes tells whether a decision that writes can be made.
func (l *loop) writes() bool { return l.aside == nil && l.claim.hasRoom() }

// takes tells whether a request may be taken from the queue.
func (l *loop) takes() bool {
	switch {
	case l.claim == nil, l.paused != nil:
		return false
	case l.writes():
		return len(l.waiting) == 0 // those go first
	}
	return len(l.waiting) < operationsQueuedMax
}

// take decides a request, or lets it wait.
func (l *loop) take(op *operation) {
	if l.writes() {
		l.decide(op)
		return
	}
	l.meanwhile(op)
}

// nextWaiting takes the oldest heartbeat that waited, else the oldest request, if it can be decided now.
func (l *loop) nextWaiting() (op *operation, ok bool) {
	if !l.goesOn() {
		return nil, false
	}
	op = l.waiting[0]
	l.waiting = l.waiting[1:]
	l.waitingNow.Add(-1)
	if op.heartbeat != nil {
		l.heartbeatsWaiting--
	}
	return op, true
}

// goesOn tells whether there is a request that waited and can be decided now.
func (l *loop) goesOn() bool {
	return len(l.waiting) > 0 && l.claim != nil && l.paused == nil && l.writes()
}

// closedNow is closed.
var closedNow = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// waited is closed if there is a request that waited and can be decided now.
func (l *loop) waited() <-chan struct{} {
	if l.goesOn() {
		return closedNow
	}
	return nil
}

// meanwhile takes what comes while nothing that writes can be decided, for a large decision is made or the log is behind: heartbeats
// that change nothing are answered; all else waits, the other heartbeats first, for what they wish is void soon, then requests in order.
func (l *loop) meanwhile(op *operation) {
	if op.heartbeat != nil && l.isOfNobodyAside(op.heartbeat) && l.claim.restsOnCommitted(op.heartbeat) && !op.isLate(l.env.Now()) {
		v := l.view()
		if op.extent == nil || op.extent(v).Items < asideItemsMin {
			if p := op.decide(v); p.err == nil && len(p.records) == 0 {
				l.metrics.OperationsDecided.Add(1)
				l.settle(op, p)
				return
			}
		}
	}
	l.waitingNow.Add(1)
	if op.heartbeat == nil {
		l.waiting = append(l.waiting, op)
		return
	}
	l.waiting = slices.Insert(l.waiting, l.heartbeatsWaiting, op)
	l.heartbeatsWaiting++
}

// refuseWaiting answers the requests that waited when the active role ended.
func (l *loop) refuseWaiting() {
	for _, op := range l.waiting {
		op.answer(result{err: ErrNotActive})
	}
	l.waiting, l.heartbeatsWaiting = nil, 0
	l.waitingNow.Store(0)
}

// isOfNobodyAside tells whether the large decision that is made, if there is one, leaves the sender as it is.
func (l *loop) isOfNobodyAside(r *controllerpb.BrokerHeartbeatRequest) bool {
	return l.aside == nil || !slices.Contains(l.aside.about, image.BrokerID(r.GetBrokerId()))
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
