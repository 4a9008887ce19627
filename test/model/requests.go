package model

import (
	"math/bits"

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
			r := d.Response.Topics[0].Partitions[0]
			answered.answered = readAnswer(m.proposal, r)
			if len(w.m.cfg.MinISRs) > 0 && w.m.bug != MinISRNotTold { // elsewhere it is what the broker knows
				answered.answered.MinISR = int(r.GetMinInsyncReplicas())
				answered.answered.MetadataOffset = n.im.Offset() + image.MetadataOffset(len(d.Records))
			}
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
