package model

import (
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Bug is a mistake planted in the model's wrappers around the real functions. The functions themselves stay as they are.
type Bug uint8

// The bugs.
const (
	NoBug Bug = iota
	// WatermarkByCommitted: a replica about to enter the ISR does not hold the watermark.
	WatermarkByCommitted
	// ShrinkWhenProposed: a proposed shrink counts before the controller has agreed.
	ShrinkWhenProposed
	// AdmissionByWatermark: a replica may enter the ISR at the watermark, though the leader epoch starts later.
	AdmissionByWatermark
	// NoBrokerEpoch: a proposal does not say which life of a member it rests on.
	NoBrokerEpoch
	// DivergingFetchNoted: the position of a fetch counts though the logs part.
	DivergingFetchNoted
	// CutToOwnWatermark: a follower cuts its log to what it knows to be committed.
	CutToOwnWatermark
	// EntryFenceDropped: the term and the claim of an entry are not looked at, so that one of the controller before may count after
	// the claim, where it fits in all else.
	EntryFenceDropped
	// ElectionOutsideISR: a partition whose candidates are gone gets another leader.
	ElectionOutsideISR
	// NoEpochRiseWithoutLeader: the leader epoch stays when the leader becomes none.
	NoEpochRiseWithoutLeader
	// AnswerBeforeCommit: a proposal is answered when it is decided.
	AnswerBeforeCommit
	// LastMemberRemoved: the last member of the ISR leaves it.
	LastMemberRemoved
	// ServingBeforeClaimApplied: a controller decides before it has applied what was committed before its claim.
	ServingBeforeClaimApplied
	// NeverRepeated: a proposal whose answer was lost is not sent again.
	NeverRepeated
	// MinISRNotTold: the answer to a proposal does not say by which min.insync.replicas it was decided.
	MinISRNotTold
	bugs
)

// Bugs are all of them.
func Bugs() []Bug {
	var list []Bug
	for b := NoBug + 1; b < bugs; b++ {
		list = append(list, b)
	}
	return list
}

// String returns the bug's name.
func (g Bug) String() string {
	return [...]string{
		"NoBug", "WatermarkByCommitted", "ShrinkWhenProposed", "AdmissionByWatermark", "NoBrokerEpoch", "DivergingFetchNoted",
		"CutToOwnWatermark", "EntryFenceDropped", "ElectionOutsideISR", "NoEpochRiseWithoutLeader", "AnswerBeforeCommit",
		"LastMemberRemoved", "ServingBeforeClaimApplied", "NeverRepeated", "MinISRNotTold",
	}[g]
}

// step is [partition.State.Step], or what becomes of it.
func (g Bug) step(s partition.State, f partition.Facts, e partition.Event) (partition.State, partition.Effects) {
	switch g {
	case WatermarkByCommitted:
		s.ISR.Maximal = s.ISR.Committed
	case AdmissionByWatermark:
		if _, ok := e.(partition.FollowerFetched); ok && s.Role == partition.RoleLeader {
			start := s.EpochStartOffset
			s.EpochStartOffset = 0
			next, fx := s.Step(f, e)
			next.EpochStartOffset = start
			return next, fx
		}
	case ShrinkWhenProposed:
		next, fx := s.Step(f, e)
		if p := next.ISR.Pending; fx.Submit != nil && p.Kind == partition.Shrink {
			var isr []image.BrokerID
			for _, m := range p.ISR {
				isr = append(isr, m.ID)
			}
			next.ISR.Committed, next.ISR.Maximal = isr, isr
			moved := partition.Effects{}
			next, moved = next.Step(f, partition.MetadataChanged{MinISR: next.MinISR, Now: begin.Add(lagTimeMax + time.Millisecond)})
			fx.HighWatermarkMoved = fx.HighWatermarkMoved || moved.HighWatermarkMoved
		}
		return next, fx
	}
	return s.Step(f, e)
}

// decided is a decision as it goes into the log.
func (g Bug) decided(n *node, d decided) decided {
	if g != ElectionOutsideISR && g != LastMemberRemoved {
		return d
	}
	leaving := map[int32]bool{}
	for _, r := range d.records {
		if c := r.GetBrokerRegistrationChange(); c.GetFenced() {
			leaving[c.BrokerId] = true
		}
	}
	for _, r := range d.records {
		c := r.GetPartitionChange()
		if c == nil || c.Leader == nil || c.Leader.Leader != nil {
			continue
		}
		if g == LastMemberRemoved {
			c.Isr = &metadatapb.BrokerIds{}
			continue
		}
		p, _ := n.im.Partition(n.m.ids[c.Partition])
		for _, id := range p.Replicas {
			if b, ok := n.im.Broker(id); ok && b.IsActive() && !leaving[int32(id)] {
				other := int32(id)
				c.Leader.Leader, c.Isr = &other, &metadatapb.BrokerIds{Ids: []int32{other}}
				c.Elr, c.LastKnownElr = nil, nil
				break
			}
		}
	}
	return d
}

// base is the entry that the active controller decides on.
func (g Bug) base(w *World) *node {
	if n := w.newest; g == ServingBeforeClaimApplied && n == w.tip && n.parent != nil && n.parent.parent != nil && n.claim > n.parent.claim {
		return n.parent.parent
	}
	if n := w.newest; n.stray {
		return n.parent // it is what this controller does not know
	}
	return w.newest
}

// replay is one record's step, by package image.
func (m *model) replay(im *image.Image, r *metadatapb.Record) (*image.Image, error) {
	d := im.Fork()
	offset := im.Offset() + 1
	if err := d.Replay(offset, r); err != nil {
		return nil, err
	}
	next := d.Seal(offset, 0)
	if c := r.GetPartitionChange(); m.bug == NoEpochRiseWithoutLeader && c != nil && c.Leader != nil && c.Leader.Leader == nil {
		return lowered(next, c.Partition)
	}
	return next, nil
}

// lowered is the same image with a lower leader epoch of one partition.
func lowered(im *image.Image, part int32) (*image.Image, error) {
	d := image.Load()
	i := image.MetadataOffset(0)
	for r := range im.Records() {
		if p := r.GetPartition(); p != nil && p.Partition == part {
			p.LeaderEpoch--
		}
		if err := d.Replay(i, r); err != nil {
			return nil, err
		}
		i++
	}
	return d.Seal(im.Offset(), im.Chain()), nil
}
