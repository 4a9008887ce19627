package main

import (
	"encoding/base64"
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// uuid is an id in Kafka's 22 characters.
func uuid(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// chain is a chain in 16 hex digits.
func chain(c uint64) string { return image.Chain(c).String() }

// partitionOf is a partition's state as the image holds it, for its canonical line.
func partitionOf(p *metadatapb.Partition) image.Partition {
	out := image.Partition{
		Replicas: ids(p.GetReplicas()), ISR: ids(p.GetIsr()), ELR: ids(p.GetElr()), LastKnownELR: ids(p.GetLastKnownElr()),
		AddingReplicas: ids(p.GetAddingReplicas()), RemovingReplicas: ids(p.GetRemovingReplicas()), OriginalReplicas: ids(p.GetOriginalReplicas()),
		Leader: image.NoBroker, LeaderEpoch: image.LeaderEpoch(p.GetLeaderEpoch()), PartitionEpoch: image.PartitionEpoch(p.GetPartitionEpoch()),
		Recovering: p.GetLeaderRecoveryState() == metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING,
	}
	if p.Leader != nil {
		out.Leader = image.BrokerID(p.GetLeader())
	}
	return out
}

func ids(in []int32) []image.BrokerID {
	out := make([]image.BrokerID, len(in))
	for i, id := range in {
		out[i] = image.BrokerID(id)
	}
	return out
}

// numbers makes a list of ids one that is never null in JSON.
func numbers(in []int32) []int32 {
	if in == nil {
		return []int32{}
	}
	return in
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
