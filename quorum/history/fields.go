package history

import (
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// field is a field of a partition, in the order in which they are shown.
type field int

const (
	fieldLeader field = iota
	fieldLeaderEpoch
	fieldPartitionEpoch
	fieldReplicas
	fieldISR
	fieldELR
	fieldLastKnownELR
	fieldAddingReplicas
	fieldRemovingReplicas
	fieldRecovery
	fieldCount
)

// fieldNames are those of the JSON of topic describe.
var fieldNames = [fieldCount]string{
	"leader", "leaderEpoch", "partitionEpoch", "replicas", "isr", "elr", "lastKnownElr", "addingReplicas", "removingReplicas", "leaderRecoveryState",
}

// fields are the values of a partition; one that is not known is nil.
type fields [fieldCount]*controllerpb.HistoryValue

func number(v int64) *controllerpb.HistoryValue {
	return &controllerpb.HistoryValue{Kind: &controllerpb.HistoryValue_Number{Number: v}}
}

func list(ids []int32) *controllerpb.HistoryValue {
	return &controllerpb.HistoryValue{Kind: &controllerpb.HistoryValue_Ids{Ids: &metadatapb.BrokerIds{Ids: ids}}}
}

func text(s string) *controllerpb.HistoryValue {
	return &controllerpb.HistoryValue{Kind: &controllerpb.HistoryValue_Text{Text: s}}
}

// recovered is the leader recovery state of a partition whose leader was elected cleanly.
const recovered = "RECOVERED"

func recovery(s metadatapb.LeaderRecoveryState) *controllerpb.HistoryValue {
	if s == metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING {
		return text("RECOVERING")
	}
	return text(recovered)
}

func fieldsOf(p image.Partition) fields {
	return fieldsOfRecord(p.Record(image.PartitionID{}))
}

func fieldsOfRecord(r *metadatapb.Partition) fields {
	leader := int64(image.NoBroker)
	if r.Leader != nil {
		leader = int64(r.GetLeader())
	}
	return fields{
		fieldLeader: number(leader), fieldLeaderEpoch: number(int64(r.GetLeaderEpoch())), fieldPartitionEpoch: number(int64(r.GetPartitionEpoch())),
		fieldReplicas: list(r.GetReplicas()), fieldISR: list(r.GetIsr()), fieldELR: list(r.GetElr()), fieldLastKnownELR: list(r.GetLastKnownElr()),
		fieldAddingReplicas: list(r.GetAddingReplicas()), fieldRemovingReplicas: list(r.GetRemovingReplicas()),
		fieldRecovery: recovery(r.GetLeaderRecoveryState()),
	}
}

// lists are the fields of a change that hold brokers.
func lists(r *metadatapb.PartitionChange) map[field]*metadatapb.BrokerIds {
	return map[field]*metadatapb.BrokerIds{
		fieldReplicas: r.GetReplicas(), fieldISR: r.GetIsr(), fieldELR: r.GetElr(), fieldLastKnownELR: r.GetLastKnownElr(),
		fieldAddingReplicas: r.GetAddingReplicas(), fieldRemovingReplicas: r.GetRemovingReplicas(),
	}
}

// setBy tells whether a change gives a field a value.
func setBy(r *metadatapb.PartitionChange, f field) bool {
	switch f {
	case fieldLeader, fieldLeaderEpoch:
		return r.GetLeader() != nil
	case fieldPartitionEpoch:
		return true
	case fieldRecovery:
		return r.LeaderRecoveryState != nil
	}
	return lists(r)[f] != nil
}

// merge is what a change makes of the fields; an epoch that is not known stays so.
func (f *fields) merge(r *metadatapb.PartitionChange) {
	if l := r.GetLeader(); l != nil {
		leader := int64(image.NoBroker)
		if l.Leader != nil {
			leader = int64(l.GetLeader())
		}
		f[fieldLeader] = number(leader)
		f.raise(fieldLeaderEpoch)
	}
	f.raise(fieldPartitionEpoch)
	for at, ids := range lists(r) {
		if ids != nil {
			f[at] = list(ids.GetIds())
		}
	}
	if r.LeaderRecoveryState != nil {
		f[fieldRecovery] = recovery(r.GetLeaderRecoveryState())
	}
}

func (f *fields) raise(epoch field) {
	if v := f[epoch]; v != nil {
		f[epoch] = number(v.GetNumber() + 1)
	}
}

func equalValue(a, b *controllerpb.HistoryValue) bool {
	return a != nil && b != nil && proto.Equal(a, b)
}
