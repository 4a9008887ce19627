package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// spoilt are worlds, made by hand out of one in peace, in which a promise is broken.
var spoilt = map[string]func(w *World){
	"LeaderCandidateCompleteness": func(w *World) {
		w.edit(1).parts[0].log.append(entry{0, 0})
		w.promises = []promise{{committed: []entry{{0, 0}}}}
	},
	"LeaderCompleteness": func(w *World) {
		w.promises = []promise{{committed: []entry{{0, 0}}}}
		for _, id := range brokerIDs {
			w.edit(id).short = true // so that no candidate is looked at
		}
	},
	"OneLeaderPerLeaderEpoch": func(w *World) { w.edit(2).parts[0].Role = partition.RoleLeader },
	"ReplicationQuorumSuperset": func(w *World) {
		w.edit(1).parts[0].ISR.Maximal = []image.BrokerID{1, 2}
	},
	"AtMostOnePendingChange": func(w *World) {
		for n := range uint64(2) {
			w.send(message{from: 1, life: 1, proposal: &partition.Proposal{Number: n, Kind: partition.Shrink}})
		}
	},
	"LogMatching": func(w *World) {
		w.edit(1).parts[0].log.append(entry{0, 0})
		w.edit(2).parts[0].log.append(entry{0, 1})
	},
	"NoCommittedRecordLost": func(w *World) {
		b := w.edit(1)
		b.parts[0].log.append(entry{0, 1})
		b.parts[0].HighWatermark = 1
		w.promises = []promise{{committed: []entry{{0, 0}}}}
		w.commit(b, 0)
	},
	"AcknowledgedIsCommitted": func(w *World) {
		b := w.edit(1)
		b.parts[0].log.append(entry{0, 0})
		b.parts[0].HighWatermark = 1
		b.parts[0].waiting = []wait{{entry{0, 0}, 1}}
		w.completeWaiting(b, 0)
	},
	"EpochsMonotonic": func(w *World) {
		b := w.edit(1)
		b.parts[0].log.assign(partition.EpochStart{Epoch: 7})
		w.bad = w.produce(1, 0).bad
	},
	"MetadataLogMatching": func(w *World) {
		e := w.newest.entry(nil, w.newest.live)
		e.sequence--
		w.standing([]*node{e})
	},
	"CommittedRecordReplays": func(w *World) {
		w.bad = w.newest.entry([]*metadatapb.Record{{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{Partition: 9}}}}, w.newest.live).bad
	},
	"Converges": func(w *World) {
		w.send(message{from: 1, life: 9, proposal: &partition.Proposal{}})
		w.bad = w.converged()
	},
}

// Each promise about a world finds what it is there for. What a planted bug has found is found again from a world that is made
// by hand, so that a promise that another always outruns is tried as well.
func TestPredicatesFail(t *testing.T) {
	elsewhere := []string{"LastMemberStays", "CancelRestoresReplicas", "UncleanOnlyIfNobodyCanLead", "PendingEqualsCommittedAtCommit"}
	for _, p := range Predicates {
		if spoilt[p.Name] == nil {
			t.Errorf("no world breaks %s", p.Name)
		}
	}
	for _, name := range promisedOnTheWay {
		if spoilt[name] == nil && !slices.Contains(elsewhere, name) {
			t.Errorf("nothing breaks %s", name)
		}
	}
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			w := peaceful(t, Worlds()[0])
			spoil(w)
			if err := w.check(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("found %v", err)
			}
		})
	}
}

// peaceful is the first world of a search.
func peaceful(t *testing.T, cfg Config) *World {
	t.Helper()
	w := newModel(&cfg, NoBug).genesis().fork()
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	if w.values != 0 || w.promises[0].committed != nil {
		t.Fatalf("not at the beginning: %v", w)
	}
	return w
}

// Nothing that is left undone once harm stops is taken for peace.
func TestConvergesFails(t *testing.T) {
	for name, spoil := range map[string]func(w *World){
		"messages are not delivered": func(w *World) { w.send(message{from: 1, proposal: &partition.Proposal{}}) },
		"waits for answers":          func(w *World) { w.edit(2).parts[0].sent = &partition.Proposal{} },
		"1 producers":                func(w *World) { w.edit(3).parts[0].waiting = []wait{{}} },
		"does not serve":             func(w *World) { w.edit(2).begun = false },
		"the ISR is not whole":       func(w *World) { w.say(func(p *image.Partition) { p.ISR = p.ISR[:2] }) },
		"no leader":                  func(w *World) { w.say(func(p *image.Partition) { p.Leader = image.NoBroker }) },
		"not at rest":                func(w *World) { w.edit(1).parts[0].PartitionEpoch++ },
		"records wait":               func(w *World) { w.edit(1).parts[0].log.append(entry{}) },
		"broker 2 has": func(w *World) {
			w.edit(1).parts[0].log.append(entry{})
			w.broker(1).parts[0].HighWatermark = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := peaceful(t, Worlds()[0])
			if err := w.converged(); err != nil {
				t.Fatal(err)
			}
			spoil(w)
			if err := w.converged(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("found %v", err)
			}
		})
	}
}

// with is a log that says something else of its first partition.
func (n *node) with(change func(*image.Partition)) *node {
	other := *n
	other.parts = slices.Clone(n.parts)
	change(&other.parts[0])
	return &other
}

// say lets the newest metadata say something else of the first partition.
func (w *World) say(change func(*image.Partition)) {
	w.tip = w.tip.with(change)
	w.newest = w.tip
}

// The promises about decisions find what they are there for.
func TestDecisionPredicatesFail(t *testing.T) {
	w := peaceful(t, Worlds()[0])
	t.Run("UncleanOnlyIfNobodyCanLead", func(t *testing.T) {
		after := w.tip.with(func(p *image.Partition) { p.Leader, p.ISR, p.Recovering = 2, []image.BrokerID{2}, true })
		before := w.tip.with(func(p *image.Partition) { p.ISR = []image.BrokerID{1} })
		wantBroken(t, "UncleanOnlyIfNobodyCanLead", decisionBreaks(before, after))
	})
	t.Run("PendingEqualsCommittedAtCommit", func(t *testing.T) {
		one := int32(1)
		records := []*metadatapb.Record{{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{
			TopicId: w.m.ids[0].Topic.Bytes(), Leader: &metadatapb.LeaderChange{Leader: &one},
		}}}}
		if err := pendingEqualsCommitted(w.tip.im, w.tip.im, nil); err != nil {
			t.Error(err)
		}
		if err := pendingEqualsCommitted(w.tip.im, w.tip.im, records); err == nil {
			t.Error("an image without the records is taken for one with them")
		}
	})
	change := func(c *metadatapb.PartitionChange) (*image.Image, *metadatapb.Record, *image.Image) {
		c.TopicId = w.m.ids[0].Topic.Bytes()
		r := &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
		after, err := w.m.replay(w.tip.im, r)
		if err != nil {
			t.Fatal(err)
		}
		return w.tip.im, r, after
	}
	t.Run("CancelRestoresReplicas", func(t *testing.T) {
		before, r, after := change(&metadatapb.PartitionChange{
			Replicas: &metadatapb.BrokerIds{Ids: []int32{1, 3, 2}}, Reason: metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED,
		})
		wantBroken(t, "CancelRestoresReplicas", recordBreaks(before, after, r))
	})
	t.Run("LastMemberStays", func(t *testing.T) {
		before, r, after := change(&metadatapb.PartitionChange{Isr: &metadatapb.BrokerIds{}, Leader: &metadatapb.LeaderChange{}})
		wantBroken(t, "LastMemberStays", recordBreaks(before, after, r))
	})
}

func wantBroken(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name+": ") {
		t.Errorf("%s found nothing: %v", name, err)
	}
}
