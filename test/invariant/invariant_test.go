package invariant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/test/invariant"
)

func uuid(name string) []byte {
	var id image.UUID
	copy(id[:], name)
	return id[:]
}

func ptr[T any](v T) *T { return &v }

func list(ids ...int32) *metadatapb.BrokerIds { return &metadatapb.BrokerIds{Ids: ids} }

func broker(id int32, fenced bool, epoch int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
		BrokerId: id, IncarnationId: uuid(fmt.Sprintf("i%d-%d", id, epoch)), DirectoryId: uuid(fmt.Sprintf("d%d", id)),
		BrokerEpoch: epoch, RegistrationOffset: epoch, Fenced: fenced,
	}}}
}

func partition(p *metadatapb.Partition) *metadatapb.Record {
	p.TopicId = uuid("t")
	return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: p}}
}

func change(c *metadatapb.PartitionChange) *metadatapb.Record {
	c.TopicId = uuid("t")
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

func feature(name string, level int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: name, Level: level}}}
}

// base has ELR on, brokers 1 and 2 unfenced, 3 fenced, and a topic t without partitions.
func base(t *testing.T) *image.Image {
	return after(t, image.Empty(), feature(image.FeatureEligibleLeaderReplicas, 1), broker(1, false, 1), broker(2, false, 2), broker(3, true, 3),
		&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "t", TopicId: uuid("t")}}})
}

func after(t *testing.T, im *image.Image, records ...*metadatapb.Record) *image.Image {
	t.Helper()
	d := im.Fork()
	offset := im.Offset()
	for _, r := range records {
		offset++
		if err := d.Replay(offset, r); err != nil {
			t.Fatal(err)
		}
	}
	return d.Seal(offset, 0)
}

// Each predicate of one image finds what it is there for.
func TestImagePredicatesFail(t *testing.T) {
	spoilt := map[string]*metadatapb.Partition{
		"LeaderInISR":                    {Replicas: []int32{1, 2}, Isr: []int32{2}, Leader: ptr(int32(1))},
		"LeaderIsActive":                 {Replicas: []int32{3, 2}, Isr: []int32{3}, Leader: ptr(int32(3))},
		"FencedInISROnlyIfLast":          {Replicas: []int32{1, 3}, Isr: []int32{1, 3}, Leader: ptr(int32(1))},
		"ELRDisjointFromISR":             {Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1)), Elr: []int32{1}},
		"ELRWithinReplicas":              {Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1)), Elr: []int32{3}},
		"ELREmptyAtMinISR":               {Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1)), Elr: []int32{2}},
		"LastKnownOnlyIfLeaderless":      {Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1)), LastKnownElr: []int32{2}},
		"RecoveringAlone":                {Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: ptr(int32(1)), LeaderRecoveryState: 2},
		"ReassignmentSetsWithinReplicas": {Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1)), AddingReplicas: []int32{3}},
		"LeaderlessOnlyIfNoneCanLead":    {Replicas: []int32{1, 2}, Isr: []int32{1}},
	}
	elsewhere := []string{"ISRWithinReplicas", "DirectoryOfOneBroker", "IndexesEqualRecomputation", "SnapshotRoundTrip"}
	for _, p := range slices.Concat(invariant.Always, invariant.AtRest) {
		if spoilt[p.Name] == nil && !slices.Contains(elsewhere, p.Name) {
			t.Errorf("no image breaks %s", p.Name)
		}
	}
	for name, p := range spoilt {
		t.Run(name, func(t *testing.T) {
			wantBroken(t, name, invariant.Rest(after(t, base(t), partition(p))))
		})
	}
	t.Run("last known", func(t *testing.T) {
		im := after(t, base(t), partition(&metadatapb.Partition{Replicas: []int32{1, 2}, LastKnownElr: []int32{1}}))
		wantBroken(t, "LeaderlessOnlyIfNoneCanLead", invariant.Rest(im))
	})
	t.Run("DirectoryOfOneBroker", func(t *testing.T) {
		twin := broker(4, true, 9)
		twin.GetRegisterBroker().DirectoryId = uuid("d1")
		wantBroken(t, "DirectoryOfOneBroker", invariant.Image(after(t, base(t), twin)))
	})
}

// A sound image breaks nothing.
func TestSoundImageHolds(t *testing.T) {
	im := after(t, base(t), partition(&metadatapb.Partition{Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2}, Leader: ptr(int32(1))}))
	if err := invariant.Rest(im); err != nil {
		t.Error(err)
	}
	next := after(t, im, change(&metadatapb.PartitionChange{Isr: list(1)}))
	if err := invariant.Step(im, next); err != nil {
		t.Error(err)
	}
}

// Each predicate of a step finds what it is there for.
func TestStepPredicatesFail(t *testing.T) {
	one := func(t *testing.T, p *metadatapb.Partition) *image.Image { return after(t, base(t), partition(p)) }
	whole := &metadatapb.Partition{Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: ptr(int32(1))}
	for _, c := range []struct {
		name string
		old  *metadatapb.Partition
		then []*metadatapb.Record
	}{
		{"PartitionEpochBumpsOnEveryChange", whole, []*metadatapb.Record{change(&metadatapb.PartitionChange{Isr: list(1)}), change(&metadatapb.PartitionChange{Isr: list(1, 2)})}},
		{"PartitionEpochBumpsOnEveryChange", whole, []*metadatapb.Record{change(&metadatapb.PartitionChange{Isr: list(1, 2)})}},
		{"LeaderEpochBumpsOnEveryElection", &metadatapb.Partition{Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2}, Leader: ptr(int32(1))}, []*metadatapb.Record{change(&metadatapb.PartitionChange{Replicas: list(1, 2)})}},
		{"LeaderFromISROrELR", &metadatapb.Partition{Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: ptr(int32(1))}, []*metadatapb.Record{change(&metadatapb.PartitionChange{Isr: list(2), Leader: &metadatapb.LeaderChange{Leader: ptr(int32(2))}})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := one(t, c.old)
			wantBroken(t, c.name, invariant.Step(old, after(t, old, c.then...)))
		})
	}
	t.Run("EpochsMonotonic", func(t *testing.T) {
		old := one(t, whole)
		wantBroken(t, "EpochsMonotonic", invariant.Step(after(t, old, change(&metadatapb.PartitionChange{Isr: list(1)})), old))
		wantBroken(t, "EpochsMonotonic", invariant.EpochsMonotonic(after(t, old, broker(3, true, 8)), old), "")
	})
}

// The predicate of a record finds a cancel that drops the only eligible replica, and lets a lost log go.
func TestRecordPredicateFails(t *testing.T) {
	old := after(t, base(t), partition(&metadatapb.Partition{Replicas: []int32{2, 1}, Elr: []int32{2}, AddingReplicas: []int32{2}}))
	cancel := change(&metadatapb.PartitionChange{
		Replicas: list(1), AddingReplicas: list(), Elr: list(), Leader: &metadatapb.LeaderChange{},
		Reason: metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED,
	})
	wantBroken(t, "CandidatesStay", invariant.Record(old, after(t, old, cancel), cancel))
	lost := change(&metadatapb.PartitionChange{Elr: list(), Reason: metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG})
	if err := invariant.Record(old, after(t, old, lost), lost); err != nil {
		t.Error(err)
	}
}

func wantBroken(t *testing.T, name string, err error, prefix ...string) {
	t.Helper()
	if err == nil || len(prefix) == 0 && !strings.Contains(err.Error(), name+": ") {
		t.Errorf("%s found nothing: %v", name, err)
	}
}
