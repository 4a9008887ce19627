package quorum

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// TestStateMetrics: the gauges count partitions and replicas by their visible states.
func TestStateMetrics(t *testing.T) {
	id := func(n byte) []byte { return image.UUID{n}.Bytes() }
	leader := int32(1)
	d := image.Empty().Fork()
	for i, r := range []*metadatapb.Record{
		{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{BrokerId: 1, IncarnationId: id(1), DirectoryId: id(1)}}},
		{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{BrokerId: 2, IncarnationId: id(2), DirectoryId: id(2), Fenced: true}}},
		{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{BrokerId: 3, IncarnationId: id(3), DirectoryId: id(3)}}},
		{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "a", TopicId: id(7)}}},
		{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: id(7), Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: &leader}}},
		{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: id(7), Partition: 1, Replicas: []int32{2, 3}, Isr: []int32{2},
			AddingReplicas: []int32{3}, OriginalReplicas: []int32{2}}}},
		{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "b", TopicId: id(8)}}},
		{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: id(8), Replicas: []int32{1, 2, 3}, Isr: []int32{1}, Leader: &leader}}},
		{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: id(8), Partition: 1, Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: &leader}}},
		{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: id(8)}}},
		{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{BrokerId: 1, TopicIds: [][]byte{id(8)}}}},
	} {
		if err := d.Replay(image.MetadataOffset(i), r); err != nil {
			t.Fatal(err)
		}
	}
	im := d.Seal(10, 0)
	registry := prometheus.NewRegistry()
	registry.MustRegister(newStateCollector(func() *image.Image { return im }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got = append(got, fmt.Sprintf("%s %s %v", f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
		}
	}
	slices.Sort(got)
	want := []string{
		"quorate_metadata_partition_states Offline 3", "quorate_metadata_partition_states Online 1",
		"quorate_metadata_replica_states DeletionIneligible 2", "quorate_metadata_replica_states DeletionStarted 1",
		"quorate_metadata_replica_states DeletionSuccessful 2", "quorate_metadata_replica_states New 1",
		"quorate_metadata_replica_states Offline 2", "quorate_metadata_replica_states Online 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
