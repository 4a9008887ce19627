package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Extent is how large a decision may become, estimated before it is made: by counters of the image and by adding up what the
// request names, never by looking at partitions. Whoever decides keeps large ones from being in the way of small ones.
type Extent struct {
	// Items is about the number of partitions, topics and configs that the decision looks at, one by one, or writes.
	Items int
	// Brokers are those whose own registration the decision changes: what they ask meanwhile rests on it.
	Brokers []image.BrokerID
}

const (
	// lookupsMax bounds the topics that an estimate looks up; a request that names more is counted by its topics.
	lookupsMax = 100
	// itemsBeyondLookups is the number of partitions that a topic is then taken to have.
	itemsBeyondLookups = 10
)

// departureExtent is that of taking a broker out of service. What other brokers are in does not count.
func departureExtent(im *image.Image, id image.BrokerID) Extent {
	return Extent{Items: im.ISRCount(id) + im.ELRCount(id), Brokers: []image.BrokerID{id}}
}

// RegisterBrokerExtent estimates RegisterBroker: another incarnation, and one that names lost replicas, take the broker out
// of ISRs and ELRs.
func RegisterBrokerExtent(v View, req *controllerpb.RegisterBrokerRequest) Extent {
	id := image.BrokerID(req.GetBrokerId())
	lost := 0
	for _, t := range req.GetLostReplicas() {
		lost += 1 + len(t.GetPartitions())
	}
	if b, ok := v.Image.Broker(id); ok && lost == 0 {
		if incarnation, err := image.UUIDFrom(req.GetIncarnationId()); err == nil && b.IncarnationID == incarnation {
			return Extent{}
		}
	}
	x := departureExtent(v.Image, id)
	x.Items += lost
	return x
}

// UnregisterBrokerExtent estimates UnregisterBroker.
func UnregisterBrokerExtent(v View, req *controllerpb.UnregisterBrokerRequest) Extent {
	return departureExtent(v.Image, image.BrokerID(req.GetBrokerId()))
}

// BrokerHeartbeatExtent estimates BrokerHeartbeat: one that unfences the broker looks at its partitions without a leader, one
// that takes it out of service at those whose ISR it is in; all others look at none.
func BrokerHeartbeatExtent(v View, req *controllerpb.BrokerHeartbeatRequest) Extent {
	b, err := checkHeartbeat(v, req)
	if err != nil {
		return Extent{}
	}
	current, next := stateOf(b), nextState(v, b, req)
	switch {
	case next == current, current == stateFenced && next != stateUnfenced:
		return Extent{}
	case next == stateUnfenced:
		return Extent{Items: min(v.Image.LeaderlessCount(), v.Image.ReplicaCount(b.ID)), Brokers: []image.BrokerID{b.ID}}
	}
	return departureExtent(v.Image, b.ID)
}

// FenceStaleBrokersExtent estimates FenceStaleBrokers.
func FenceStaleBrokersExtent(v View) Extent {
	next, _ := nextToFence(v, fencedMembershipsMax)
	x := Extent{Brokers: next}
	for _, id := range next {
		x.Items += v.Image.ISRCount(id)
	}
	return x
}

// ActivateExtent estimates Activate, which looks at the same partitions as ApplyConfigs does when everything is concerned.
func ActivateExtent(v View) Extent { return ApplyConfigsExtent(v, Concern{Everything: true}) }

// ApplyConfigsExtent estimates ApplyConfigs.
func ApplyConfigsExtent(v View, concern Concern) Extent {
	if concern.Everything {
		return Extent{Items: v.Image.LeaderlessCount() + v.Image.ELRMemberships()}
	}
	n := len(concern.Topics)
	if n > lookupsMax {
		return Extent{Items: n * itemsBeyondLookups}
	}
	for _, name := range concern.Topics {
		if t, ok := v.Image.TopicByName(name); ok {
			n += t.Len()
		}
	}
	return Extent{Items: n}
}

// AlterConfigsExtent estimates AlterConfigs. One that is only validated decides ApplyConfigs as well; what that concerns is not
// known yet.
func AlterConfigsExtent(v View, req *controllerpb.AlterConfigsRequest) Extent {
	x := Extent{Items: countChanges(req)}
	if req.GetValidateOnly() {
		x.Items += ApplyConfigsExtent(v, Concern{Everything: true}).Items
	}
	return x
}

// UpdateFeaturesExtent estimates UpdateFeatures: only turning eligible leader replicas off looks at partitions.
func UpdateFeaturesExtent(v View, req *controllerpb.UpdateFeaturesRequest) Extent {
	for _, u := range req.GetUpdates() {
		if u.GetName() == image.FeatureEligibleLeaderReplicas && u.GetLevel() == 0 && v.Image.Feature(u.GetName()) > 0 {
			return ActivateExtent(v)
		}
	}
	return Extent{}
}

// BalanceLeadersExtent estimates BalanceLeaders, which looks at every partition that its preferred replica does not lead.
func BalanceLeadersExtent(v View) Extent { return Extent{Items: v.Image.NotPreferredCount()} }

// ElectUncleanExtent estimates ElectUnclean, which looks at every partition without a leader.
func ElectUncleanExtent(v View) Extent { return Extent{Items: v.Image.LeaderlessCount()} }

// ElectLeadersExtent estimates ElectLeaders.
func ElectLeadersExtent(v View, req *controllerpb.ElectLeadersRequest) Extent {
	switch {
	case !req.GetAllPartitions():
		return Extent{Items: len(req.GetPartitions())}
	case req.GetType() == electionPreferred:
		return Extent{Items: v.Image.NotPreferredCount() + v.Image.LeaderlessCount()}
	}
	return Extent{Items: v.Image.LeaderlessCount()}
}

// AlterPartitionExtent estimates AlterPartition.
func AlterPartitionExtent(_ View, req *controllerpb.AlterPartitionRequest) Extent {
	return Extent{Items: countItems(req)}
}

// AlterPartitionReassignmentsExtent estimates AlterPartitionReassignments.
func AlterPartitionReassignmentsExtent(_ View, req *controllerpb.AlterPartitionReassignmentsRequest) Extent {
	return Extent{Items: len(req.GetPartitions())}
}

// ReportDeletionsExtent estimates ReportDeletions.
func ReportDeletionsExtent(_ View, req *controllerpb.ReportDeletionsRequest) Extent {
	return Extent{Items: len(req.GetDeleted()) + len(req.GetFailed())}
}

// CreateTopicsExtent estimates CreateTopics.
func CreateTopicsExtent(v View, req *controllerpb.CreateTopicsRequest) Extent {
	return Extent{Items: countCreated(v, req)}
}

// CreatePartitionsExtent estimates CreatePartitions.
func CreatePartitionsExtent(v View, req *controllerpb.CreatePartitionsRequest) Extent {
	if n := len(req.GetTopics()); n > lookupsMax {
		return Extent{Items: n * itemsBeyondLookups}
	}
	return Extent{Items: countGrowth(v.Image, req)}
}

// DeleteTopicsExtent estimates DeleteTopics, whose replay looks at every partition that goes.
func DeleteTopicsExtent(v View, req *controllerpb.DeleteTopicsRequest) Extent {
	n := len(req.GetTopics())
	if n > lookupsMax {
		return Extent{Items: n * itemsBeyondLookups}
	}
	for _, t := range req.GetTopics() {
		if topic, err := findDeletable(v.Image, t); err == nil {
			n += topic.Len()
		}
	}
	return Extent{Items: n}
}
