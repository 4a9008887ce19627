package image

import (
	"strconv"

	"github.com/quorate/quorate/fsm/record"
)

// Partition is the committed state of a partition. It is a value; its slices must not be changed by the receiver.
type Partition struct {
	// Replicas in order of preference: the first is the preferred leader.
	Replicas []BrokerID
	// ISR in the order of the record that set it.
	ISR []BrokerID
	// ELR are the eligible leader replicas, LastKnownELR the last known ones (KIP-966).
	ELR, LastKnownELR []BrokerID
	// A reassignment is under way while one of AddingReplicas and RemovingReplicas is not empty (KIP-455).
	AddingReplicas, RemovingReplicas []BrokerID
	// OriginalReplicas are the replicas before the reassignment under way began, empty when none is.
	OriginalReplicas []BrokerID
	// Leader is [NoBroker] when there is none.
	Leader         BrokerID
	LeaderEpoch    LeaderEpoch
	PartitionEpoch PartitionEpoch
	// Recovering tells that the leader was elected uncleanly and has not yet reported itself recovered (KIP-704).
	Recovering bool
}

// IsReassigning tells whether replicas are being added or removed.
func (p Partition) IsReassigning() bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

// PreferredLeader returns the first replica, [NoBroker] without replicas.
func (p Partition) PreferredLeader() BrokerID {
	if len(p.Replicas) == 0 {
		return NoBroker
	}
	return p.Replicas[0]
}

// Equal tells whether both hold the same state, orders included.
func (p Partition) Equal(q Partition) bool {
	return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.PartitionEpoch == q.PartitionEpoch &&
		p.Recovering == q.Recovering && Equal(p.Replicas, q.Replicas) && Equal(p.ISR, q.ISR) &&
		Equal(p.ELR, q.ELR) && Equal(p.LastKnownELR, q.LastKnownELR) &&
		Equal(p.AddingReplicas, q.AddingReplicas) && Equal(p.RemovingReplicas, q.RemovingReplicas) &&
		Equal(p.OriginalReplicas, q.OriginalReplicas)
}

// String returns one canonical line; what is empty and usually empty is left out.
func (p Partition) String() string { return string(p.appendString(make([]byte, 0, 128))) }

func (p Partition) appendString(b []byte) []byte {
	b = append(b, "replicas="...)
	b = record.AppendIDs(b, p.Replicas)
	b = append(b, " leader="...)
	if p.Leader == NoBroker {
		b = append(b, "none"...)
	} else {
		b = strconv.AppendInt(b, int64(p.Leader), 10)
	}
	b = append(b, " isr="...)
	b = record.AppendIDs(b, p.ISR)
	b = append(b, " le="...)
	b = strconv.AppendInt(b, int64(p.LeaderEpoch), 10)
	b = append(b, " pe="...)
	b = strconv.AppendInt(b, int64(p.PartitionEpoch), 10)
	for _, l := range []struct {
		name string
		ids  []BrokerID
	}{
		{" elr=", p.ELR}, {" last-known-elr=", p.LastKnownELR}, {" adding=", p.AddingReplicas},
		{" removing=", p.RemovingReplicas}, {" original=", p.OriginalReplicas},
	} {
		if len(l.ids) > 0 {
			b = append(b, l.name...)
			b = record.AppendIDs(b, l.ids)
		}
	}
	if p.Recovering {
		b = append(b, " recovering"...)
	}
	return b
}
