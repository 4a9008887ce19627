package model

import (
	"slices"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/invariant"
)

// pendingMax bounds decisions that are made and not committed.
const pendingMax = 2

// pending counts the decisions that are made and not committed.
func (w *World) pending() (n int) {
	for d := w.newest; d != w.tip; d = d.parent {
		if d.last {
			n++
		}
	}
	return n
}

// decide makes a decision on the newest entry. It returns nil if that writes nothing and answers nobody.
func (w *World) decide(r request, make func(*node) decided) *World {
	if w.pending() >= pendingMax {
		return nil
	}
	on := w.m.bug.base(w)
	o := on.decide(r, func() decided { return make(on) })
	if len(o.entries) == 0 {
		return nil
	}
	next := w.fork()
	if on != w.newest {
		next.standing(o.entries)
		return next
	}
	next.newest = o.entries[len(o.entries)-1]
	if w.m.bug == AnswerBeforeCommit && next.newest.answer != nil && next.newest.answer.message != nil {
		next.deliver(next.newest.answer)
	}
	return next.commitAll()
}

// commitAll commits at once what no failover can take away any more.
func (w *World) commitAll() *World {
	if w.left.Of[Failover] > 0 && w.left.Total > 0 {
		return w
	}
	for w.tip != w.newest {
		w.commitNext()
	}
	return w
}

// commitOne commits the oldest entry that is not committed.
func (w *World) commitOne() *World {
	if w.tip == w.newest {
		return nil
	}
	next := w.fork()
	next.commitNext()
	return next
}

func (w *World) commitNext() {
	n := w.newest
	for n.parent != w.tip {
		n = n.parent
	}
	before := w.tip
	w.tip = n
	if n.bad != nil {
		w.bad = n.bad
	}
	w.m.trace("apply offset=%d claim=%d", n.im.Offset(), n.claim)
	for i := range w.promises {
		if w.m.tracing() {
			w.m.trace("t-%d %v", i, n.parts[i])
		}
		w.excuse(n, i, before.parts[i], n.parts[i])
	}
	if n.answer != nil && (w.m.bug != AnswerBeforeCommit || n.answer.message == nil) {
		w.deliver(n.answer)
	}
}

// excuse takes back promises that nobody makes. An unclean election keeps what the new leader has. So does the registration
// after a crash of the machine without eligible leader replicas: the last member stays in the ISR whatever it lost (KIP-966
// is there to end that). After both, a leader of before it may still count on what is gone, and promises nothing.
func (w *World) excuse(n *node, part int, old, p image.Partition) {
	heir := image.NoBroker
	switch {
	case p.Recovering && isOutsider(old, p.Leader):
		heir = p.Leader
	case !w.m.cfg.ELR && len(p.ISR) == 1 && registers(n, p.ISR[0]) && w.broker(p.ISR[0]).short:
		heir = p.ISR[0]
	default:
		return
	}
	w.reduce(heir, part).since = p.LeaderEpoch
}

// excuseCut takes back what an heir lost before it knew that it is one: until it leads, it follows whom it knew before, also
// where that leader's log is the shorter one. An unclean election asks nobody first.
func (w *World) excuseCut(id image.BrokerID, part int) {
	if p := w.tip.parts[part]; p.Recovering && slices.Equal(p.ISR, []image.BrokerID{id}) && w.broker(id).parts[part].LeaderEpoch < w.promises[part].since {
		w.reduce(id, part)
	}
}

// reduce leaves of what was committed what the heir has.
func (w *World) reduce(heir image.BrokerID, part int) *promise {
	w.promises = slices.Clone(w.promises)
	q := &w.promises[part]
	q.committed = q.committed[:common(q.committed, w.broker(heir).parts[part].log.entries)]
	return q
}

// isOutsider tells whether the leader comes from outside what an election without loss may choose from.
func isOutsider(old image.Partition, leader image.BrokerID) bool {
	return leader != image.NoBroker && leader != old.Leader && !image.Contains(invariant.Candidates(old), leader)
}

// registers tells whether the entry opens a life of the broker.
func registers(n *node, id image.BrokerID) bool {
	for _, r := range n.records {
		if b := r.GetRegisterBroker(); b != nil && image.BrokerID(b.BrokerId) == id {
			return true
		}
	}
	return false
}

// deliver gives an answer whose decision is committed: a proposal's to the network, a registration's to the broker.
func (w *World) deliver(a *answer) {
	if a.message != nil {
		w.send(*a.message)
		return
	}
	b := w.edit(image.BrokerID(a.broker))
	switch {
	case b.life != a.life:
		return
	case a.exits:
		b.end(metadatapb.StopKind_STOP_KIND_CLEAN)
		return
	}
	b.epoch, b.registered, b.short, b.wiped = a.epoch, a.offset, false, false
	im := w.at[a.broker-1].im
	w.act(b, im, im) // its metadata may have come before the answer
}

// standing puts entries into the log that were not decided on its end. The real verdict decides whether they count.
func (w *World) standing(entries []*node) {
	for _, e := range entries {
		s := fsm.State{
			ClaimIndex: w.tip.claim, ClaimTerm: w.tip.claim, ExpectedSequence: w.tip.sequence + 1, Offset: w.tip.im.Offset(),
		}
		raw := record.RawEntry{Count: len(e.records)}
		raw.ClaimIndex, raw.Term, raw.Sequence, raw.BaseOffset = e.claim, e.claim, e.sequence, e.base
		switch w.m.bug {
		case ServingBeforeClaimApplied:
			raw.ClaimIndex, raw.Term, raw.Sequence = s.ClaimIndex, s.ClaimTerm, s.ExpectedSequence
		case EntryFenceDropped: // sequence, offset and chain are judged as ever
			raw.ClaimIndex, raw.Term = s.ClaimIndex, s.ClaimTerm
		}
		v, why := fsm.Judge(s, w.tip.claim, &raw)
		w.m.trace("%v: %s", v, why)
		switch v {
		case fsm.Halt:
			w.fail("MetadataLogMatching", "an entry stands in the log that every replica must halt at: %s", why)
			return
		case fsm.Apply:
			w.newest = w.newest.entry(e.records, w.newest.live)
			w.newest.last, w.newest.stray = true, e.claim < w.tip.claim
			w.commitNext()
		}
	}
}

// land lets an entry of the controller before the failover come to stand in the log.
func (w *World) land() *World {
	if w.stale == nil || w.tip != w.newest {
		return nil
	}
	next := w.fork()
	next.stale = nil
	next.standing([]*node{w.stale})
	return next
}

// failover lets another controller become active. What was not committed is gone, except that one entry of it may still
// come. The claim gives every broker a new session and decides what was left undone.
func (w *World) failover() *World {
	next := w.fork()
	if !next.spend(Failover) {
		return nil
	}
	if w.newest != w.tip {
		next.stale = w.newest
		for next.stale.parent != w.tip {
			next.stale = next.stale.parent
		}
	}
	next.tip = w.tip.claimed()
	next.newest = next.tip
	o := next.newest.decide(request{kind: doFailover, a: 1}, func() decided {
		return plain(controller.Activate(next.tip.view(next.tip.live, begin)))
	})
	if len(o.entries) > 0 {
		next.newest = o.entries[len(o.entries)-1]
	}
	return next.commitAll()
}
