package alterpartition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

const (
	recovered  = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
	unreadable = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_UNSPECIFIED
)

func items() []Item {
	a, b := image.UUID{1}, image.UUID{2}
	expand := &partition.Proposal{
		Kind: partition.Expand, LeaderEpoch: 5, PartitionEpoch: 7, Changed: []image.BrokerID{3},
		ISR: []partition.Member{{ID: 1, Epoch: 101}, {ID: 2, Epoch: image.NoBrokerEpoch}, {ID: 3, Epoch: 103}},
	}
	shrink := &partition.Proposal{Kind: partition.Shrink, LeaderEpoch: 1, ISR: []partition.Member{{ID: 1, Epoch: 101}}}
	return []Item{
		{Partition: image.PartitionID{Topic: b, Partition: 4}, Proposal: expand},
		{Partition: image.PartitionID{Topic: a, Partition: 0}, Proposal: shrink},
		{Partition: image.PartitionID{Topic: b, Partition: 1}, Proposal: shrink},
	}
}

func TestBuildRequest(t *testing.T) {
	epoch := func(e int64) *int64 { return &e }
	shrink := func(p int32) *controllerpb.AlterPartitionItem {
		return &controllerpb.AlterPartitionItem{
			Partition: p, LeaderEpoch: 1, LeaderRecoveryState: recovered, Reason: metadatapb.ChangeReason_CHANGE_REASON_LAG,
			Isr: []*controllerpb.IsrMember{{BrokerId: 1, BrokerEpoch: epoch(101)}},
		}
	}
	want := &controllerpb.AlterPartitionRequest{BrokerId: 1, BrokerEpoch: 101, Topics: []*controllerpb.AlterPartitionTopic{
		{TopicId: image.UUID{2}.Bytes(), Partitions: []*controllerpb.AlterPartitionItem{{
			Partition: 4, LeaderEpoch: 5, PartitionEpoch: 7, LeaderRecoveryState: recovered, Reason: metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP,
			Isr: []*controllerpb.IsrMember{{BrokerId: 1, BrokerEpoch: epoch(101)}, {BrokerId: 2}, {BrokerId: 3, BrokerEpoch: epoch(103)}},
		}, shrink(1)}},
		{TopicId: image.UUID{1}.Bytes(), Partitions: []*controllerpb.AlterPartitionItem{shrink(0)}},
	}}
	if diff := cmp.Diff(want, buildRequest(1, 101, items()), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestReadResponse(t *testing.T) {
	accepted := func(p int32, state metadatapb.LeaderRecoveryState) *controllerpb.AlterPartitionResult {
		return &controllerpb.AlterPartitionResult{Partition: p, LeaderEpoch: 5, PartitionEpoch: 8, Isr: []int32{1, 2}, LeaderRecoveryState: state, MinInsyncReplicas: 2}
	}
	in := items()
	got := readResponse(in, &controllerpb.AlterPartitionResponse{MetadataOffset: 9, Topics: []*controllerpb.AlterPartitionTopicResult{
		{TopicId: []byte("short"), Partitions: []*controllerpb.AlterPartitionResult{accepted(0, recovered)}},
		{TopicId: image.UUID{2}.Bytes(), Partitions: []*controllerpb.AlterPartitionResult{
			accepted(99, recovered), // not asked for
			accepted(4, recovered),
			{Partition: 4, Error: controllerpb.NewError(codeUnknownServerError, "a second answer")},
			accepted(1, unreadable),
		}},
	}})
	want := []*partition.AlterPartitionAnswered{
		{Proposal: in[0].Proposal, LeaderEpoch: 5, PartitionEpoch: 8, ISR: []image.BrokerID{1, 2}, MinISR: 2, MetadataOffset: 9},
		nil,
		{Proposal: in[2].Proposal, Code: codeUnknownServerError, LeaderEpoch: 5, PartitionEpoch: 8, ISR: []image.BrokerID{1, 2}, MinISR: 2, MetadataOffset: 9},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyISRIsUnreadable(t *testing.T) {
	a := readResult(items()[0].Proposal, &controllerpb.AlterPartitionResult{LeaderRecoveryState: recovered}, 9)
	if a.Code != codeUnknownServerError {
		t.Errorf("an accepted change without an ISR was read as %v", a.Code)
	}
}
