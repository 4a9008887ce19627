package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/invariant"
)

type ids = []image.BrokerID

const (
	none    = image.NoBroker
	online  = controller.ModeOnline
	prefers = controller.ModePreferred
	unclean = controller.ModeUnclean
)

// A partition as the tables write it.
func part(replicas, isr ids, leader image.BrokerID, le image.LeaderEpoch, pe image.PartitionEpoch) image.Partition {
	return image.Partition{Replicas: replicas, ISR: isr, Leader: leader, LeaderEpoch: le, PartitionEpoch: pe}
}

func withELR(p image.Partition, elr, known ids) image.Partition {
	p.ELR, p.LastKnownELR = elr, known
	return p
}

func recovering(p image.Partition) image.Partition { p.Recovering = true; return p }

func isr(list ...image.BrokerID) controller.ChangeSpec {
	return controller.ChangeSpec{SetISR: true, ISR: list}
}

type changeCase struct {
	name  string
	old   image.Partition
	alive ids
	spec  controller.ChangeSpec
	mode  int
	// want is the partition afterwards; nothing for no record.
	want *image.Partition
}

func want(p image.Partition) *image.Partition { return &p }

// TestPartitionChangeElection holds the rows of Kafka's PartitionChangeBuilderTest that do not depend on older levels.
func TestPartitionChangeElection(t *testing.T) {
	e1 := part(ids{2, 1, 3}, ids{2, 1, 3}, 1, 100, 200)
	cases := []changeCase{
		{name: "E1 preferred", old: e1, alive: ids{1, 2, 4}, mode: 1, want: want(part(ids{2, 1, 3}, ids{2, 1, 3}, 2, 101, 201))},
		{name: "E2 online, nothing to do", old: e1, alive: ids{1, 2, 4}},
		{name: "E2 unclean, nothing to do", old: e1, alive: ids{1, 2, 4}, mode: 2},
		{name: "E3 shrink keeps the leader epoch (KAFKA-15021)", old: e1, alive: ids{1, 2, 4}, spec: isr(2, 1), want: want(part(ids{2, 1, 3}, ids{2, 1}, 1, 100, 201))},
		{name: "E5 expand", old: part(ids{2, 1, 3}, ids{2, 1}, 1, 100, 200), alive: ids{1, 2, 3}, spec: isr(2, 1, 3), want: want(part(ids{2, 1, 3}, ids{2, 1, 3}, 1, 100, 201))},
		{name: "E6 the leader left", old: e1, alive: ids{1, 2, 4}, spec: isr(2, 3), want: want(part(ids{2, 1, 3}, ids{2, 3}, 2, 101, 201))},
		{name: "E7 only a dead one is left", old: e1, alive: ids{1, 2, 4}, spec: isr(3), want: want(part(ids{2, 1, 3}, ids{3}, none, 101, 201))},
		{name: "E8 unclean: first live replica", old: e1, alive: ids{1, 2, 4}, spec: isr(3), mode: 2, want: want(recovering(part(ids{2, 1, 3}, ids{2}, 2, 101, 201)))},
		{name: "E9 preferred is out of the ISR", old: part(ids{2, 1, 3}, ids{1, 3}, 3, 100, 200), alive: ids{1, 2, 3}, mode: 1},
		{name: "E10 reorder", old: e1, alive: ids{1, 2, 4}, spec: controller.ChangeSpec{Replicas: ids{3, 2, 1}}, want: want(part(ids{3, 2, 1}, ids{2, 1, 3}, 1, 100, 201))},
		{name: "E11 a replica replaced by one that is not in sync", old: e1, alive: ids{1, 2, 4}, spec: controller.ChangeSpec{SetISR: true, ISR: ids{2, 1}, Replicas: ids{2, 1, 4}}, want: want(part(ids{2, 1, 4}, ids{2, 1}, 1, 101, 201))},
		{name: "E12 unclean on a leaderless partition", old: part(ids{2, 1, 3}, ids{3}, none, 100, 200), alive: ids{1}, mode: 2, want: want(recovering(part(ids{2, 1, 3}, ids{1}, 1, 101, 201)))},
		{name: "E13 recovering stays without a leader", old: recovering(part(ids{1, 2, 3}, ids{1}, 1, 7, 9)), spec: isr(), want: want(recovering(part(ids{1, 2, 3}, ids{1}, none, 8, 10)))},
		{name: "E13 and after it has one again", old: recovering(part(ids{1, 2, 3}, ids{1}, none, 8, 10)), alive: ids{1}, want: want(recovering(part(ids{1, 2, 3}, ids{1}, 1, 9, 11)))},
		{name: "E15 unclean marks recovering", old: part(ids{1, 2, 3}, ids{2, 3}, none, 1, 2), alive: ids{1}, mode: 2, want: want(recovering(part(ids{1, 2, 3}, ids{1}, 1, 2, 3)))},
		{name: "unclean elects cleanly if it can", old: part(ids{1, 2, 3}, ids{3}, none, 1, 2), alive: ids{1, 3}, mode: 2, want: want(part(ids{1, 2, 3}, ids{3}, 3, 2, 3))},
		{name: "unclean while recovering writes no state", old: recovering(part(ids{1, 2}, ids{1}, none, 1, 2)), alive: ids{2}, mode: 2, want: want(recovering(part(ids{1, 2}, ids{2}, 2, 2, 3)))},
		{name: "B7 preferred on a leaderless partition takes an ISR member", old: part(ids{1, 2, 3}, ids{2, 3}, none, 1, 2), alive: ids{3}, mode: 1, want: want(part(ids{1, 2, 3}, ids{2, 3}, 3, 2, 3))},
		{name: "B4 preferred never leaves the ISR", old: part(ids{1, 2, 3}, ids{1}, none, 1, 2), alive: ids{2}, mode: 1},
		{name: "nobody alive", old: part(ids{1, 2, 3}, ids{1}, none, 1, 2), mode: 2},
		{name: "lost last member, no ELR", old: part(ids{1, 2}, ids{1}, none, 1, 2), alive: ids{2}, spec: controller.ChangeSpec{SetISR: true, Lost: 1}, want: want(part(ids{1, 2}, nil, none, 1, 3))},
		{name: "crashed last member stays frozen, no ELR", old: part(ids{1, 2}, ids{1}, none, 1, 2), alive: ids{2}, spec: controller.ChangeSpec{SetISR: true, Crashed: 1}},
	}
	runChangeCases(t, cases, 0, 1)
}

// TestPartitionChangeReassignment holds the rows in which an ISR change meets a reassignment.
func TestPartitionChangeReassignment(t *testing.T) {
	one := moving(part(ids{0, 1, 3, 2}, ids{0, 1, 2}, 0, 4, 9), ids{3}, ids{2}, ids{0, 1, 2})
	runChangeCases(t, []changeCase{
		{name: "A25 nobody can lead when it ends", old: moving(part(ids{2, 3, 0, 1}, ids{0, 1}, 0, 4, 9), ids{2, 3}, ids{0, 1}, ids{0, 1}), spec: isr(0, 1, 2, 3), want: want(part(ids{2, 3}, ids{2, 3}, none, 5, 10))},
		{name: "R4 one is missing", old: moving(part(ids{3, 4, 5, 0, 1, 2}, ids{0, 1, 2}, 0, 4, 9), ids{3, 4, 5}, ids{0, 1, 2}, ids{0, 1, 2}), alive: ids{0, 1, 2, 3, 4, 5}, spec: isr(0, 1, 2, 3, 4), want: want(moving(part(ids{3, 4, 5, 0, 1, 2}, ids{0, 1, 2, 3, 4}, 0, 4, 10), ids{3, 4, 5}, ids{0, 1, 2}, ids{0, 1, 2}))},
		{name: "R4 all are there", old: moving(part(ids{3, 4, 5, 0, 1, 2}, ids{0, 1, 2}, 0, 4, 9), ids{3, 4, 5}, ids{0, 1, 2}, ids{0, 1, 2}), alive: ids{0, 1, 2, 3, 4, 5}, spec: isr(0, 1, 2, 3, 4, 5), want: want(part(ids{3, 4, 5}, ids{3, 4, 5}, 3, 5, 10))},
		{name: "R6 ends", old: one, alive: ids{0, 1, 2, 3}, spec: isr(0, 1, 2, 3), want: want(part(ids{0, 1, 3}, ids{0, 1, 3}, 0, 5, 10))},
		{name: "R6 the new one alone ends nothing", old: moving(part(ids{0, 1, 3, 2}, ids{0, 3}, 0, 4, 9), ids{3}, ids{2}, ids{0, 1, 2}), alive: ids{0, 1, 2, 3}, spec: isr(3), want: want(moving(part(ids{0, 1, 3, 2}, ids{3}, 3, 5, 10), ids{3}, ids{2}, ids{0, 1, 2}))},
		{name: "R24 a final replica that cannot lead counts all the same", old: moving(part(ids{1, 2, 3, 4}, ids{1, 2, 3}, 1, 4, 9), ids{4}, ids{1}, ids{1, 2, 3}), alive: ids{1, 2, 4}, spec: isr(1, 2, 3, 4), want: want(part(ids{2, 3, 4}, ids{2, 3, 4}, 2, 5, 10))},
	}, 0, 1)
}

func moving(p image.Partition, adding, removing, original ids) image.Partition {
	p.AddingReplicas, p.RemovingReplicas, p.OriginalReplicas = adding, removing, original
	return p
}

// TestPartitionChangeELR holds the rows with eligible leader replicas on (KIP-966).
func TestPartitionChangeELR(t *testing.T) {
	all := part(ids{1, 2, 3, 4}, ids{1, 2, 3, 4}, 1, 4, 9)
	empty := part(ids{1, 2, 3, 4}, nil, none, 5, 10)
	cases := []changeCase{
		{name: "L1", old: all, alive: ids{1, 2, 3, 4}, spec: isr(1, 2), want: want(withELR(part(ids{1, 2, 3, 4}, ids{1, 2}, 1, 4, 10), ids{3, 4}, nil))},
		{name: "at min.insync.replicas nobody is eligible", old: all, alive: ids{1, 2, 3, 4}, spec: isr(1, 2, 3), want: want(part(ids{1, 2, 3, 4}, ids{1, 2, 3}, 1, 4, 10))},
		{name: "L7 an eligible replica leads cleanly", old: withELR(part(ids{1, 2, 3, 4}, ids{1}, 1, 4, 9), ids{3}, nil), alive: ids{2, 3, 4}, spec: isr(), want: want(withELR(part(ids{1, 2, 3, 4}, ids{3}, 3, 5, 10), ids{1}, nil))},
		{name: "L8 nobody alive", old: all, spec: isr(), want: want(withELR(part(ids{1, 2, 3, 4}, nil, none, 5, 10), ids{1, 2, 3, 4}, ids{1}))},
		{name: "L9 crash of an eligible one", old: withELR(empty, ids{1, 2, 3, 4}, ids{1}), spec: controller.ChangeSpec{Crashed: 2}, want: want(withELR(part(ids{1, 2, 3, 4}, nil, none, 5, 11), ids{1, 3, 4}, ids{1}))},
		{name: "L10 last known leader", old: withELR(empty, nil, ids{1}), alive: ids{1, 2, 3, 4}, want: want(recovering(part(ids{1, 2, 3, 4}, ids{1}, 1, 6, 11)))},
		{name: "L10 in every mode", old: withELR(empty, nil, ids{1}), alive: ids{1, 2}, mode: 1, want: want(recovering(part(ids{1, 2, 3, 4}, ids{1}, 1, 6, 11)))},
		{name: "a dead last known leader is not elected (KAFKA-19522)", old: withELR(empty, nil, ids{1}), alive: ids{2, 3, 4}},
		{name: "nor does it keep an unclean election back", old: withELR(empty, nil, ids{1}), alive: ids{3}, mode: 2, want: want(recovering(part(ids{1, 2, 3, 4}, ids{3}, 3, 6, 11)))},
		{name: "L11 an eligible one blocks the last known", old: withELR(empty, ids{3}, ids{1}), alive: ids{1}},
		{name: "L12 unclean", old: withELR(part(ids{2, 1, 3}, nil, none, 5, 10), ids{3}, ids{2}), alive: ids{1}, mode: 2, want: want(recovering(part(ids{2, 1, 3}, ids{1}, 1, 6, 11)))},
		{name: "L27 unclean with an eligible one alive is clean", old: withELR(part(ids{1, 2, 3}, nil, none, 5, 10), ids{2, 3}, ids{1}), alive: ids{2}, mode: 2, want: want(withELR(part(ids{1, 2, 3}, ids{2}, 2, 6, 11), ids{3}, nil))},
		{name: "an ISR full of dead brokers keeps the ELR out", old: withELR(part(ids{1, 2, 3}, ids{1}, none, 5, 10), ids{2}, nil), alive: ids{2}},
		{name: "L16 min above the replicas", old: part(ids{1, 2}, ids{1, 2}, 1, 4, 9), alive: ids{1, 2}, spec: isr(1), want: want(withELR(part(ids{1, 2}, ids{1}, 1, 4, 10), ids{2}, nil))},
		{name: "lost: neither eligible nor last known", old: part(ids{1, 2, 3}, ids{1}, 1, 4, 9), spec: controller.ChangeSpec{SetISR: true, Lost: 1}, want: want(part(ids{1, 2, 3}, nil, none, 5, 10))},
		{name: "lost last known leader", old: withELR(empty, nil, ids{1}), alive: ids{1}, spec: controller.ChangeSpec{Lost: 1}, want: want(part(ids{1, 2, 3, 4}, nil, none, 5, 11))},
		{name: "crashed last member is last known", old: part(ids{1, 2, 3}, ids{1}, 1, 4, 9), spec: controller.ChangeSpec{SetISR: true, Crashed: 1}, want: want(withELR(part(ids{1, 2, 3}, nil, none, 5, 10), nil, ids{1}))},
		{name: "crashed frozen member is last known", old: part(ids{1, 2, 3}, ids{3}, none, 4, 9), spec: controller.ChangeSpec{SetISR: true, Crashed: 3}, want: want(withELR(part(ids{1, 2, 3}, nil, none, 4, 10), nil, ids{3}))},
		{name: "ELR within the new replicas", old: withELR(part(ids{1, 2, 3}, ids{1}, 1, 4, 9), ids{2, 3}, nil), alive: ids{1, 2}, spec: controller.ChangeSpec{Replicas: ids{1, 2}}, want: want(withELR(part(ids{1, 2}, ids{1}, 1, 5, 10), ids{2}, nil))},
	}
	runChangeCases(t, cases, 1, 3)
}

func runChangeCases(t *testing.T, cases []changeCase, elr int32, minISR int) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t)
			h.defaults.EligibleLeaderReplicas, h.defaults.MinInsyncReplicas = elr, minISR
			h.claim()
			for _, id := range c.alive {
				h.startBroker(int32(id), "")
			}
			id := h.place("t", c.old)
			c.spec.Mode = [...]func() controller.ChangeSpec{
				func() controller.ChangeSpec { return controller.ChangeSpec{Mode: online} },
				func() controller.ChangeSpec { return controller.ChangeSpec{Mode: prefers} },
				func() controller.ChangeSpec { return controller.ChangeSpec{Mode: unclean} },
			}[c.mode]().Mode
			if c.spec.Crashed == 0 {
				c.spec.Crashed = none
			}
			if c.spec.Lost == 0 {
				c.spec.Lost = none
			}
			record, after := controller.BuildChange(h.view(), id, c.old, c.spec)
			if c.want == nil {
				if record != nil {
					t.Fatalf("wrote %s, want no record", recordLine(h.image, record))
				}
				return
			}
			if record == nil {
				t.Fatalf("no record, want %v", *c.want)
			}
			if diff := cmp.Diff(c.want.String(), after.String()); diff != "" {
				t.Errorf("after the change (-want +got):\n%s", diff)
			}
			next, err := replay(h.image, record)
			if err != nil {
				t.Fatal(err)
			}
			if p, _ := next.Partition(id); !p.Equal(after) {
				t.Errorf("replay gives %v, the builder said %v", p, after)
			}
			if err := invariant.Step(h.image, next); err != nil {
				t.Error(err)
			}
		})
	}
}

// place writes a partition as it is given.
func (h *harness) place(name string, p image.Partition) image.PartitionID {
	h.t.Helper()
	id := uuid(name)
	r := &metadatapb.Partition{
		TopicId: id[:], Replicas: image.Int32s(p.Replicas), Isr: image.Int32s(p.ISR), Elr: image.Int32s(p.ELR),
		LastKnownElr: image.Int32s(p.LastKnownELR), LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
		AddingReplicas: image.Int32s(p.AddingReplicas), RemovingReplicas: image.Int32s(p.RemovingReplicas),
		OriginalReplicas: image.Int32s(p.OriginalReplicas),
	}
	if p.Leader != none {
		leader := int32(p.Leader)
		r.Leader = &leader
	}
	if p.Recovering {
		r.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	}
	for _, r := range []*metadatapb.Record{
		{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id[:]}}},
		{Kind: &metadatapb.Record_Partition{Partition: r}},
	} {
		next, err := replay(h.image, r)
		if err != nil {
			h.t.Fatal(err)
		}
		if h.saw != nil {
			h.saw(h.image, next, r)
		}
		h.image = next
	}
	return image.PartitionID{Topic: id}
}
