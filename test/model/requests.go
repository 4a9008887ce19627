package model

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// request delivers an AlterPartition request to the active controller.
func (w *World) request(i int) *World {
	if i >= len(w.messages) || !w.messages[i].isRequest() {
		return nil
	}
	start := w.fork()
	m := start.take(i)
	return start.decide(request{kind: doRequest, message: m}, func(n *node) decided {
		d, err := controller.AlterPartition(n.view(n.live, begin), w.m.alterPartition(m))
		out := plain(d, err)
		answered := *m
		if err != nil {
			out.err = nil
			answered.whole, _ = controllerpb.CodeOf(err)
		} else {
			answered.answered = readAnswer(m.proposal, d.Response.Topics[0].Partitions[0])
		}
		answered.text = answered.describe()
		out.answer = &answer{message: &answered}
		return out
	})
}

// alterPartition is the request as package alterpartition builds it.
func (m *model) alterPartition(q *message) *controllerpb.AlterPartitionRequest {
	p := q.proposal
	item := &controllerpb.AlterPartitionItem{
		Partition: int32(q.part), LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED, Reason: p.Kind.Reason(),
	}
	for _, member := range p.ISR {
		is := &controllerpb.IsrMember{BrokerId: int32(member.ID)}
		if epoch := int64(member.Epoch); member.Epoch != image.NoBrokerEpoch && m.bug != NoBrokerEpoch {
			is.BrokerEpoch = &epoch
		}
		item.Isr = append(item.Isr, is)
	}
	topic := m.ids[q.part].Topic
	return &controllerpb.AlterPartitionRequest{
		BrokerId: int32(q.from), BrokerEpoch: int64(q.senderEpoch),
		Topics: []*controllerpb.AlterPartitionTopic{{TopicId: topic[:], Partitions: []*controllerpb.AlterPartitionItem{item}}},
	}
}

func readAnswer(p *partition.Proposal, r *controllerpb.AlterPartitionResult) *partition.AlterPartitionAnswered {
	return &partition.AlterPartitionAnswered{
		Proposal: p, Code: r.GetError().GetCode(), LeaderEpoch: image.LeaderEpoch(r.GetLeaderEpoch()),
		PartitionEpoch: image.PartitionEpoch(r.GetPartitionEpoch()), ISR: image.BrokerIDs(r.GetIsr()),
	}
}

// heartbeat is that of a broker which wants to serve. Only one that changes something is of interest.
func (w *World) heartbeat(id image.BrokerID) *World {
	b := w.broker(id)
	known, ok := w.newest.im.Broker(id)
	if !b.begun || !ok || known.Epoch != b.epoch || !known.Fenced {
		return nil
	}
	at := w.at[id-1].im.Offset()
	return w.decide(request{kind: doHeartbeat, a: int8(id), at: at}, func(n *node) decided {
		d, err := controller.BrokerHeartbeat(n.view(n.live, begin), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: int32(id), BrokerEpoch: int64(b.epoch), MetadataOffset: int64(at),
		})
		return plain(d, err)
	})
}

// register opens the life that a crashed broker is in. The session of the life before is over by then.
func (w *World) register(id image.BrokerID) *World {
	b := w.broker(id)
	if b.epoch != image.NoBrokerEpoch {
		return nil
	}
	known, _ := w.newest.im.Broker(id)
	if known.IncarnationID == incarnation(id, b.life) {
		return nil // under way
	}
	at := w.at[id-1].im
	return w.decide(request{kind: doRegister, a: int8(id), b: b.life, stop: b.stop, wiped: b.wiped, at: at.Offset()}, func(n *node) decided {
		live, now := n.expired(func(other image.BrokerID) bool { return other == id })
		d, err := controller.RegisterBroker(n.view(live, now), registration(b, at))
		out := plain(d, err)
		if err == nil {
			out.answer = &answer{
				broker: int(id), life: b.life, epoch: image.BrokerEpoch(d.Response.BrokerEpoch),
				offset: image.MetadataOffset(d.Response.RegistrationOffset),
			}
		}
		return out
	})
}

func incarnation(id image.BrokerID, life int8) image.UUID {
	return uuid(fmt.Sprintf("inc-%d.%d", id, life))
}

// registration is what a starting broker tells of itself, judged by the metadata that it has.
func registration(b *broker, at *image.Image) *controllerpb.RegisterBrokerRequest {
	i, d := incarnation(b.id, b.life), uuid("dir-"+b.id.String())
	r := &controllerpb.RegisterBrokerRequest{
		ClusterId: clusterID, BrokerId: int32(b.id), IncarnationId: i[:], DirectoryId: d[:], StopKind: b.stop, JudgedOffset: int64(at.Offset()),
		Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "localhost", Port: uint32(9000 + b.id)}},
		Features:  image.DeclaredFeatures(),
	}
	if !b.wiped {
		return r
	}
	lost := map[image.PartitionID]bool{}
	for id := range at.PartitionsWithISR(b.id) {
		lost[id] = true
	}
	for id := range at.PartitionsWithELR(b.id) {
		lost[id] = true
	}
	for id := range lost {
		r.LostReplicas = append(r.LostReplicas, &controllerpb.LostReplica{TopicId: id.Topic.Bytes(), Partitions: []int32{id.Partition}})
	}
	return r
}

// fence ends the sessions of some brokers at once.
func (w *World) fence(mask int8) *World {
	start := w.fork()
	for range bits.OnesCount8(uint8(mask)) {
		if !start.spend(Fence) {
			return nil
		}
	}
	over := func(id image.BrokerID) bool { return mask>>(id-1)&1 == 1 }
	for _, id := range brokerIDs {
		if b, ok := w.newest.im.Broker(id); over(id) && (!ok || b.Fenced) {
			return nil
		}
	}
	return start.decide(request{kind: doFence, a: mask}, func(n *node) decided {
		live, now := n.expired(over)
		return plain(controller.FenceStaleBrokers(n.view(live, now)))
	})
}

// preferred is the background election of preferred leaders.
func (w *World) preferred() *World {
	if !w.m.cfg.Preferred {
		return nil
	}
	return w.decide(request{kind: doPreferred}, func(n *node) decided {
		return plain(controller.BalanceLeaders(n.view(n.live, begin), 0))
	})
}

// move starts the reassignment, then cancels it.
func (w *World) move() *World {
	if w.m.cfg.Move == nil || w.moves == 2 {
		return nil
	}
	start := w.fork()
	start.moves++
	return start.decide(request{kind: doMove, a: w.moves}, func(n *node) decided {
		p := &controllerpb.ReassignablePartition{Topic: "t"}
		if w.moves == 0 {
			p.Replicas = &metadatapb.BrokerIds{Ids: w.m.cfg.Move}
		}
		return plain(controller.AlterPartitionReassignments(n.view(n.live, begin), &controllerpb.AlterPartitionReassignmentsRequest{
			Partitions: []*controllerpb.ReassignablePartition{p},
		}))
	})
}

// crashKind is what a crash takes away.
type crashKind int8

const (
	// crashProcess leaves the logs as they are, crashMachine takes their unsynced tails, crashDisk all of them.
	crashProcess crashKind = iota
	crashMachine
	crashDisk
	crashKinds
)

// crash ends a broker's process. It is down until it registers.
func (w *World) crash(id image.BrokerID, how crashKind) *World {
	next := w.fork()
	if w.broker(id).epoch == image.NoBrokerEpoch || !next.spend(Crash) {
		return nil
	}
	if how != crashProcess && !slices.ContainsFunc(w.broker(id).parts, func(r replica) bool { return r.log.end() > r.log.synced }) {
		return nil // it takes nothing away
	}
	w.m.trace("broker %d is down", id)
	b := next.edit(id)
	b.life++
	b.epoch, b.registered, b.begun = image.NoBrokerEpoch, 0, false
	b.stop = metadatapb.StopKind_STOP_KIND_PROCESS_CRASH
	if how == crashMachine {
		b.stop = metadatapb.StopKind_STOP_KIND_MACHINE_CRASH
	}
	for i := range b.parts {
		old := b.parts[i].log
		r := newReplica()
		switch r.log = old; how {
		case crashProcess:
			r.log.reload(old.end())
		case crashMachine:
			r.log.reload(old.synced)
			r.log.high = 0
		case crashDisk:
			r.log, b.wiped = plog{}, true
		}
		b.short = b.short || r.log.end() < old.end()
		b.parts[i] = r
	}
	return next
}
