package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// check holds the order of refusals that AlterPartition states. Between the two epochs the order is interleaved: ahead
// of ours first, then what the sender may not do, then what it does not know yet.
func (a *alteration) check(p image.Partition, item *controllerpb.AlterPartitionItem) *controllerpb.Error {
	le, pe := image.LeaderEpoch(item.GetLeaderEpoch()), image.PartitionEpoch(item.GetPartitionEpoch())
	switch {
	case le > p.LeaderEpoch:
		return controllerpb.NewError(codeNotController, "leader epoch %d is ahead of %d here: ask for the active controller", le, p.LeaderEpoch)
	case pe > p.PartitionEpoch:
		return controllerpb.NewError(codeNotController, "partition epoch %d is ahead of %d here: ask for the active controller", pe, p.PartitionEpoch)
	case le < p.LeaderEpoch:
		return controllerpb.NewError(codeFencedLeaderEpoch, "leader epoch %d is over, it is %d: wait for the metadata log", le, p.LeaderEpoch)
	case p.Leader != a.sender:
		return controllerpb.NewError(codeInvalidRequest, "broker %v sent the change, the leader is %v", a.sender, p.Leader)
	case pe < p.PartitionEpoch:
		return controllerpb.NewError(codeInvalidUpdateVersion, "partition epoch %d is over, it is %d: wait for the metadata log", pe, p.PartitionEpoch)
	}
	if err := checkISR(p, item); err != nil {
		return err
	}
	return a.checkMembers(item)
}

func checkISR(p image.Partition, item *controllerpb.AlterPartitionItem) *controllerpb.Error {
	leads := false
	for i, m := range item.GetIsr() {
		id := image.BrokerID(m.GetBrokerId())
		for _, other := range item.GetIsr()[:i] {
			if other.GetBrokerId() == m.GetBrokerId() {
				return controllerpb.NewError(codeInvalidRequest, "the ISR names broker %v twice", id)
			}
		}
		if !image.Contains(p.Replicas, id) {
			return controllerpb.NewError(codeInvalidRequest, "the ISR names broker %v, the replicas are %s", id, image.FormatReplicas(p.Replicas))
		}
		leads = leads || id == p.Leader
	}
	if !leads {
		return controllerpb.NewError(codeInvalidRequest, "the ISR lacks the leader %v", p.Leader)
	}
	switch item.GetLeaderRecoveryState() {
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED:
		return nil
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING:
		if len(item.GetIsr()) > 1 {
			return controllerpb.NewError(codeInvalidRequest, "a recovering leader is alone in the ISR, this one has %d members", len(item.GetIsr()))
		}
		if !p.Recovering {
			return controllerpb.NewError(codeInvalidRequest, "the partition is recovered and cannot go back to recovering")
		}
		return nil
	}
	return controllerpb.NewError(codeInvalidRequest, "leader recovery state %d is neither RECOVERED nor RECOVERING", item.GetLeaderRecoveryState())
}

// checkMembers looks at every member of the ISR, the leader included.
func (a *alteration) checkMembers(item *controllerpb.AlterPartitionItem) *controllerpb.Error {
	for _, m := range item.GetIsr() {
		b, ok := a.view.Image.Broker(image.BrokerID(m.GetBrokerId()))
		switch {
		case !ok:
			return controllerpb.NewError(codeIneligibleReplica, "broker %d is not registered", m.GetBrokerId())
		case b.InControlledShutdown:
			return controllerpb.NewError(codeIneligibleReplica, "broker %v is shutting down", b.ID)
		case b.Fenced:
			return controllerpb.NewError(codeIneligibleReplica, "broker %v is fenced", b.ID)
		case m.BrokerEpoch != nil && image.BrokerEpoch(m.GetBrokerEpoch()) != b.Epoch:
			return controllerpb.NewError(codeIneligibleReplica, "broker %v has epoch %d, the proposal rests on a fetch under %d", b.ID, b.Epoch, m.GetBrokerEpoch())
		}
	}
	return nil
}
