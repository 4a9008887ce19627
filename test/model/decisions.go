package model

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/test/invariant"
)

// recordBreaks checks one record's step, once for all worlds that take it.
func recordBreaks(before, after *image.Image, r *metadatapb.Record) error {
	if err := invariant.Step(before, after); err != nil {
		return err
	}
	if err := lastMemberStays(before, after, r); err != nil {
		return fmt.Errorf("LastMemberStays: %w", err)
	}
	if err := cancelRestoresReplicas(before, after, r); err != nil {
		return fmt.Errorf("CancelRestoresReplicas: %w", err)
	}
	if err := invariant.Record(before, after, r); err != nil {
		return err
	}
	return invariant.Image(after)
}

// decisionBreaks checks a whole decision: the log before and after all of its entries.
func decisionBreaks(before, after *node) error {
	for i := range before.parts {
		if err := uncleanOnlyIfNobodyCanLead(before.parts[i], after.parts[i], after.im); err != nil {
			return fmt.Errorf("UncleanOnlyIfNobodyCanLead: t-%d (%v → %v): %w", i, before.parts[i], after.parts[i], err)
		}
	}
	return invariant.Rest(after.im) // what need not hold between the parts of a decision holds now
}

// lastMemberStays: the last member leaves the ISR only if eligible leader replicas are on and somebody stays eligible or
// known, or if its log is lost.
func lastMemberStays(old, new *image.Image, r *metadatapb.Record) error {
	if r.GetPartitionChange().GetReason() == metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG {
		return nil
	}
	for _, c := range image.Diff(old, new).Partitions {
		if c.Old == nil || c.New == nil || len(c.Old.ISR) == 0 || len(c.New.ISR) > 0 {
			continue
		}
		if new.Feature(image.FeatureEligibleLeaderReplicas) == 0 || len(c.New.ELR)+len(c.New.LastKnownELR) == 0 {
			return errors.New("the ISR is empty and nobody is left to lead")
		}
	}
	return nil
}

// cancelRestoresReplicas: a cancelled reassignment leaves the replicas that there were before it, in their order.
func cancelRestoresReplicas(old, new *image.Image, r *metadatapb.Record) error {
	if r.GetPartitionChange().GetReason() != metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED {
		return nil
	}
	for _, c := range image.Diff(old, new).Partitions {
		if c.Old != nil && c.New != nil && (c.New.IsReassigning() || !image.Equal(c.New.Replicas, c.Old.OriginalReplicas)) {
			return fmt.Errorf("%v was cancelled and is %v", *c.Old, *c.New)
		}
	}
	return nil
}

// uncleanOnlyIfNobodyCanLead: an election goes outside ISR and ELR only if none of those that were in them is in service after
// the decision.
func uncleanOnlyIfNobodyCanLead(old, new image.Partition, after *image.Image) error {
	if !new.Recovering || !isOutsider(old, new.Leader) {
		return nil
	}
	for _, id := range invariant.Candidates(old) {
		if b, ok := after.Broker(id); ok && b.IsActive() {
			return fmt.Errorf("broker %v could lead", id)
		}
	}
	return nil
}

// pendingEqualsCommitted: a replica of the log that has loaded the image before an entry from a snapshot, and applies the
// entry's records, has the image that the controller decided on.
func pendingEqualsCommitted(before, pending *image.Image, records []*metadatapb.Record) error {
	d := image.Load()
	offset := image.MetadataOffset(0)
	for r := range before.Records() {
		if err := d.Replay(offset, r); err != nil {
			return err
		}
		offset++
	}
	d = d.Seal(before.Offset(), before.Chain()).Fork()
	offset = before.Offset()
	for _, r := range records {
		offset++
		if err := d.Replay(offset, r); err != nil {
			return err
		}
	}
	if committed := d.Seal(offset, pending.Chain()); committed.Fingerprint() != pending.Fingerprint() {
		return errors.New("the image decided on is not the one that others have")
	}
	return nil
}
