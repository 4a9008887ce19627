package invariant

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Record checks what a record may do to the image, given the reason that it states.
func Record(old, new *image.Image, r *metadatapb.Record) error {
	if err := candidatesStay(old, new, r); err != nil {
		return fmt.Errorf("CandidatesStay: %w", err)
	}
	return nil
}

// candidatesStay: as long as somebody can be elected without loss, somebody can after the change, unless logs are gone, or
// whose they are is no longer known, or there are no eligible leader replicas any more.
func candidatesStay(old, new *image.Image, r *metadatapb.Record) error {
	switch r.GetPartitionChange().GetReason() {
	case metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG, metadatapb.ChangeReason_CHANGE_REASON_NEW_INCARNATION,
		metadatapb.ChangeReason_CHANGE_REASON_UNREGISTER, metadatapb.ChangeReason_CHANGE_REASON_FEATURE:
		return nil
	}
	return eachChange(func(o, n image.Partition) error {
		if before := Candidates(o); len(before) > 0 && len(Candidates(n)) == 0 {
			return fmt.Errorf("%s could be elected without loss, now nobody can", image.FormatReplicas(before))
		}
		return nil
	})(old, new)
}

// Candidates are who an election without loss may choose from, if they are active.
func Candidates(p image.Partition) []image.BrokerID {
	if len(p.ISR) > 0 {
		return p.ISR
	}
	return p.ELR
}
