package invariant

import (
	"iter"
	"testing"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func small(t *testing.T, change func(*metadatapb.Partition)) *image.Image {
	t.Helper()
	topic := image.UUID{1}
	one := int32(1)
	p := &metadatapb.Partition{TopicId: topic[:], Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: &one}
	change(p)
	d := image.Load()
	for i, r := range []*metadatapb.Record{
		{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "t", TopicId: topic[:]}}},
		{Kind: &metadatapb.Record_Partition{Partition: p}},
	} {
		if err := d.Replay(image.MetadataOffset(i), r); err != nil {
			t.Fatal(err)
		}
	}
	return d.Seal(1, 0)
}

// Replay refuses such a partition before an image could hold it.
func TestISRWithinReplicasFails(t *testing.T) {
	for _, p := range []image.Partition{
		{Replicas: []image.BrokerID{1, 2}, ISR: []image.BrokerID{1, 3}},
		{Replicas: []image.BrokerID{1, 2}, ISR: []image.BrokerID{1, 1}},
		{Replicas: []image.BrokerID{1, 1}, ISR: []image.BrokerID{1}},
	} {
		if err := isrWithinReplicas(nil, p); err == nil {
			t.Errorf("%v holds", p)
		}
	}
}

// An image cannot be spoilt from outside, so what it is compared with is. An index that lacks what a scan finds, or has more, is found, whichever it is.
func TestIndexesEqualRecomputationFails(t *testing.T) {
	im := small(t, func(*metadatapb.Partition) {})
	if err := IndexesEqualRecomputation(im); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*metadatapb.Partition){
		"ISR":           func(p *metadatapb.Partition) { p.Isr = []int32{1} },
		"ELR":           func(p *metadatapb.Partition) { p.Isr, p.Elr = []int32{1}, []int32{2} },
		"last known":    func(p *metadatapb.Partition) { p.LastKnownElr = []int32{2} },
		"replicas":      func(p *metadatapb.Partition) { p.Replicas = []int32{1, 2, 3} },
		"leader":        func(p *metadatapb.Partition) { two := int32(2); p.Leader = &two },
		"not preferred": func(p *metadatapb.Partition) { p.Replicas = []int32{2, 1} },
		"leaderless":    func(p *metadatapb.Partition) { p.Leader = nil },
		"reassigning":   func(p *metadatapb.Partition) { p.AddingReplicas = []int32{2} },
	} {
		other := small(t, change)
		if err := indexesEqual(im, scan(other)); err == nil {
			t.Errorf("%s: indexes that lack something hold", name)
		}
		if err := indexesEqual(other, scan(im)); err == nil {
			t.Errorf("%s: indexes with too much hold", name)
		}
	}
}

// A snapshot that lacks a record, or has another, is found.
func TestSnapshotRoundTripFails(t *testing.T) {
	im := small(t, func(*metadatapb.Partition) {})
	other := small(t, func(p *metadatapb.Partition) { p.LeaderEpoch = 1 })
	lacking := func(yield func(*metadatapb.Record) bool) {
		for r := range im.Records() {
			if r.GetPartition() == nil && !yield(r) {
				return
			}
		}
	}
	for name, records := range map[string]iter.Seq[*metadatapb.Record]{"a record too few": lacking, "another record": other.Records()} {
		if err := loadsFrom(im, records); err == nil {
			t.Errorf("%s: the snapshot holds", name)
		}
	}
}
