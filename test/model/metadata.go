package model

import (
	"slices"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// apply lets a broker take the next committed metadata, or with newest all of it at once, as a broker does that was busy.
func (w *World) apply(id image.BrokerID, newest bool) *World {
	from := w.at[id-1]
	var path []*node
	for n := w.tip; n != from; n = n.parent {
		if n.im != n.parent.im {
			path = append(path, n)
		}
	}
	if len(path) == 0 || newest && len(path) == 1 {
		return nil
	}
	to := path[len(path)-1]
	if newest {
		to = path[0]
	}
	next := w.fork()
	next.at[id-1] = to
	b := next.edit(id)
	next.act(b, from.im, to.im)
	return next
}

// act makes of a broker's replicas what the metadata says, as package broker does: deletions, leaders, followers, news. A
// broker that is starting begins when its own registration has come.
func (w *World) act(b *broker, old, im *image.Image) {
	if !b.begun {
		if b.epoch == image.NoBrokerEpoch || im.Offset() < b.registered {
			return
		}
		b.begun, old = true, image.Empty()
	}
	local := w.m.localChanges(old, im, b.id)
	for _, id := range local.Deletes {
		w.step(b, int(id.Partition), partition.Deleted{})
		r := newReplica()
		r.Proposals, r.sent = b.parts[id.Partition].Proposals, b.parts[id.Partition].sent
		b.parts[id.Partition] = r
	}
	minISR := func(p image.Partition) int { return im.MinInsyncReplicas("t", len(p.Replicas)) }
	for _, l := range local.Leaders {
		r := &b.parts[l.ID.Partition]
		fx := w.step(b, int(l.ID.Partition), partition.BecomeLeader{
			Partition: l.Partition, MinISR: minISR(l.Partition), MetadataOffset: im.Offset(), LogEndOffset: r.log.end(), HighWatermark: r.log.high, Now: w.clock(),
		})
		r.order(im, fx.Fetch)
	}
	for _, l := range local.Followers {
		r := &b.parts[l.ID.Partition]
		fx := w.step(b, int(l.ID.Partition), partition.BecomeFollower{Partition: l.Partition, InControlledShutdown: b.stopping})
		if w.m.bug == CutToOwnWatermark && fx.NewLeaderEpoch {
			r.log.cut(r.log.high)
		}
		r.order(im, fx.Fetch)
	}
	w.news(b, old, im)
}

// transition is a broker's step from one image to another.
type transition struct {
	old, new *image.Image
	id       image.BrokerID
}

// localChanges remembers what [image.LocalChanges] has told.
func (m *model) localChanges(old, im *image.Image, id image.BrokerID) *image.BrokerChanges {
	t := transition{old, im, id}
	c, ok := m.changes[t]
	if !ok {
		c = image.LocalChanges(old, im, id)
		m.changes[t] = c
	}
	return c
}

// order carries out what a step asks of the fetcher.
func (r *replica) order(im *image.Image, o partition.FetchOrder) {
	switch o {
	case partition.FetchStop:
		r.source, r.sourceEpoch = image.NoBroker, partition.NoLeaderEpoch
	case partition.FetchRestart:
		r.source, r.sourceEpoch = image.NoBroker, partition.NoLeaderEpoch
		if _, ok := im.Broker(r.Leader); ok {
			r.source, r.sourceEpoch = r.Leader, r.LeaderEpoch
		}
	}
}

// news tells replicas of another min.insync.replicas, and leaders of registrations that changed among their replicas.
func (w *World) news(b *broker, old, im *image.Image) {
	configs := old.MinInsyncReplicas("t", len(brokerIDs)) != im.MinInsyncReplicas("t", len(brokerIDs))
	tell := func(i int) {
		minISR := im.MinInsyncReplicas("t", len(b.parts[i].Replicas))
		w.step(b, i, partition.MetadataChanged{MinISR: minISR, MetadataOffset: im.Offset(), Now: w.clock()})
	}
	for i := range b.parts {
		r := &b.parts[i]
		switch {
		case configs:
			tell(i)
			continue
		case !r.leads():
			continue
		}
		for _, id := range r.Replicas {
			before, _ := old.Broker(id)
			after, _ := im.Broker(id)
			if before.Epoch != after.Epoch || before.IsActive() != after.IsActive() || before.StateSinceMs != after.StateSinceMs {
				tell(i)
				break
			}
		}
	}
}

// answer delivers the answer to a proposal. A process that ended meanwhile gets none.
func (w *World) answer(i int) *World {
	if i >= len(w.messages) || w.messages[i].isRequest() {
		return nil
	}
	next := w.fork()
	m := next.take(i)
	b := next.broker(m.from)
	if b.life != m.life || b.parts[m.part].sent == nil || !b.parts[m.part].sent.Equal(m.proposal) ||
		b.parts[m.part].attempt != m.attempt || !next.isFinal(m) {
		return next // nobody waits for it, or what was asked is asked again
	}
	b = next.edit(m.from)
	r := &b.parts[m.part]
	r.sent = nil
	if m.answered.Code == controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA {
		r.refusing = true
		for _, id := range m.proposal.Changed {
			known, _ := w.at[m.from-1].im.Broker(id)
			r.refused[id-1] = refusal{known.Epoch, known.Fenced, known.InControlledShutdown, known.StateSinceMs}
		}
	}
	a := *m.answered
	a.Now = w.clock()
	next.step(b, m.part, a)
	return next
}

// isFinal is the AlterPartition manager's rule: a refusal that is taken as proof counts only if no other copy of the request
// could still arrive when it was sent. One that was under way then may be decided after the refusal and before its answer is
// here. Package alterpartition knows that by the clock.
func (w *World) isFinal(m *message) bool {
	switch {
	case m.whole != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED:
		return false
	case m.answered.Code == controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER:
		return false
	case m.answered.Code == controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA:
		return !m.rivalled
	}
	return true
}

// resend sends a proposal again that was not answered: because nothing of it is under way any more, or, as harm, though
// something is.
func (w *World) resend(id image.BrokerID, part int, repeat bool) *World {
	b := w.broker(id)
	r := &b.parts[part]
	if r.sent == nil || b.epoch == image.NoBrokerEpoch || repeat != (w.underWay(part, r.sent, id, b.life) > 0) {
		return nil
	}
	next := w.fork()
	if !repeat && w.m.bug == NeverRepeated || repeat && !next.spend(Repeated) {
		return nil
	}
	b = next.edit(id)
	r = &b.parts[part]
	if r.attempt++; !repeat {
		r.attempt = 0
	}
	m := message{from: id, life: b.life, senderEpoch: b.epoch, part: part, proposal: r.sent, attempt: r.attempt}
	m.rivalled = slices.ContainsFunc(w.messages, func(other *message) bool { return other.isRequest() && other.isCopyOf(&m) })
	next.send(m)
	return next
}

// lose drops an answer. A request that is lost is one that was not sent yet: it is sent again, and the same comes of it.
func (w *World) lose(i int) *World {
	next := w.fork()
	if i >= len(w.messages) || w.messages[i].isRequest() || !next.spend(Lost) {
		return nil
	}
	next.take(i)
	return next
}

func (m *message) isRequest() bool {
	return m.answered == nil && m.whole == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
}
