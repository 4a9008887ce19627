package invariant

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Predicate is a promise about one image.
type Predicate struct {
	Name string
	// Holds returns what is wrong, nil if nothing is.
	Holds func(*image.Image) error
}

// Always are the predicates that hold at every offset, also between the parts of a decision that is cut.
var Always = []Predicate{
	{"LeaderInISR", eachPartition(leaderInISR)},
	{"LeaderIsActive", eachPartition(leaderIsActive)},
	{"ISRWithinReplicas", eachPartition(isrWithinReplicas)},
	{"FencedInISROnlyIfLast", eachPartition(fencedInISROnlyIfLast)},
	{"ELRDisjointFromISR", eachPartition(elrDisjointFromISR)},
	{"ELRWithinReplicas", eachPartition(elrWithinReplicas)},
	{"LastKnownOnlyIfLeaderless", eachPartition(lastKnownOnlyIfLeaderless)},
	{"RecoveringAlone", eachPartition(recoveringAlone)},
	{"ReassignmentSetsWithinReplicas", eachPartition(reassignmentSetsWithinReplicas)},
	{"DirectoryOfOneBroker", directoryOfOneBroker},
	{"IndexesEqualRecomputation", IndexesEqualRecomputation},
	{"SnapshotRoundTrip", SnapshotRoundTrip},
}

// AtRest are the predicates that hold after a whole decision, but not between the parts of one, nor between a change of configs
// and what follows from it.
var AtRest = []Predicate{
	{"ELREmptyAtMinISR", elrEmptyAtMinISR},
	{"LeaderlessOnlyIfNoneCanLead", eachPartition(leaderlessOnlyIfNoneCanLead)},
}

// Image checks what must hold at every offset.
func Image(im *image.Image) error { return check(im, Always) }

// Rest checks what must hold after a whole decision, besides what always must.
func Rest(im *image.Image) error { return errors.Join(check(im, Always), check(im, AtRest)) }

func check(im *image.Image, predicates []Predicate) error {
	var errs []error
	for _, p := range predicates {
		if err := p.Holds(im); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func eachPartition(holds func(*image.Image, image.Partition) error) func(*image.Image) error {
	return func(im *image.Image) error {
		for t := range im.Topics() {
			for i, p := range t.Partitions() {
				if err := holds(im, p); err != nil {
					return fmt.Errorf("%s-%d (%v): %w", t.Name(), i, p, err)
				}
			}
		}
		return nil
	}
}

func leaderInISR(_ *image.Image, p image.Partition) error {
	if p.Leader != image.NoBroker && !image.Contains(p.ISR, p.Leader) {
		return fmt.Errorf("leader %v is not in the ISR", p.Leader)
	}
	return nil
}

func leaderIsActive(im *image.Image, p image.Partition) error {
	if p.Leader == image.NoBroker {
		return nil
	}
	if b, ok := im.Broker(p.Leader); !ok || !b.IsActive() {
		return fmt.Errorf("leader %v is fenced, shutting down or not registered", p.Leader)
	}
	return nil
}

func isrWithinReplicas(_ *image.Image, p image.Partition) error {
	if !image.ContainsAll(p.Replicas, p.ISR) || image.HasDuplicates(p.ISR) || image.HasDuplicates(p.Replicas) {
		return errors.New("the ISR is no set within the replicas")
	}
	return nil
}

func fencedInISROnlyIfLast(im *image.Image, p image.Partition) error {
	for _, id := range p.ISR {
		if b, ok := im.Broker(id); (!ok || !b.IsActive()) && (len(p.ISR) > 1 || p.Leader != image.NoBroker) {
			return fmt.Errorf("broker %v is out of service and in the ISR", id)
		}
	}
	return nil
}

func elrDisjointFromISR(_ *image.Image, p image.Partition) error {
	if both := image.Intersect(p.ELR, p.ISR); len(both) > 0 {
		return fmt.Errorf("%s are in ISR and ELR", image.FormatReplicas(both))
	}
	return nil
}

func elrWithinReplicas(_ *image.Image, p image.Partition) error {
	if !image.ContainsAll(p.Replicas, p.ELR) || !image.ContainsAll(p.Replicas, p.LastKnownELR) ||
		image.HasDuplicates(p.ELR) || len(p.LastKnownELR) > 1 {
		return errors.New("ELR or last known leader is not within the replicas")
	}
	return nil
}

func elrEmptyAtMinISR(im *image.Image) error {
	on := im.Feature(image.FeatureEligibleLeaderReplicas) > 0
	for t := range im.Topics() {
		for i, p := range t.Partitions() {
			if len(p.ELR) > 0 && (!on || len(p.ISR) >= im.MinInsyncReplicas(t.Name(), len(p.Replicas))) {
				return fmt.Errorf("%s-%d (%v): the ISR has its members and the ELR is not empty", t.Name(), i, p)
			}
		}
	}
	return nil
}

func lastKnownOnlyIfLeaderless(_ *image.Image, p image.Partition) error {
	if p.Leader != image.NoBroker && len(p.LastKnownELR) > 0 {
		return errors.New("a last known leader beside a leader")
	}
	return nil
}

func recoveringAlone(_ *image.Image, p image.Partition) error {
	if p.Recovering && len(p.ISR) > 1 {
		return errors.New("recovering with company")
	}
	return nil
}

func reassignmentSetsWithinReplicas(_ *image.Image, p image.Partition) error {
	switch {
	case !image.ContainsAll(p.Replicas, p.AddingReplicas), !image.ContainsAll(p.Replicas, p.RemovingReplicas):
		return errors.New("adding or removing replicas are not within the replicas")
	case len(image.Intersect(p.AddingReplicas, p.RemovingReplicas)) > 0:
		return errors.New("a replica is added and removed")
	case !p.IsReassigning() && len(p.OriginalReplicas) > 0:
		return errors.New("original replicas without a reassignment")
	}
	return nil
}

// leaderlessOnlyIfNoneCanLead: an election that nobody asked for would find nobody: none in the ISR, else in the ELR, else the last
// known leader.
func leaderlessOnlyIfNoneCanLead(im *image.Image, p image.Partition) error {
	if p.Leader != image.NoBroker {
		return nil
	}
	can := Candidates(p)
	if len(can) == 0 && len(p.LastKnownELR) == 1 {
		can = p.LastKnownELR
	}
	for _, id := range can {
		if b, ok := im.Broker(id); ok && b.IsActive() {
			return fmt.Errorf("no leader though broker %v can lead", id)
		}
	}
	return nil
}

func directoryOfOneBroker(im *image.Image) error {
	owners := make(map[image.UUID]image.BrokerID)
	for b := range im.Brokers() {
		if other, ok := owners[b.DirectoryID]; ok {
			return fmt.Errorf("directory %v belongs to brokers %v and %v", b.DirectoryID, other, b.ID)
		}
		owners[b.DirectoryID] = b.ID
	}
	return nil
}

// SnapshotRoundTrip: the image loaded from its own records is equal.
func SnapshotRoundTrip(im *image.Image) error { return loadsFrom(im, im.Records()) }

// loadsFrom tells whether the image is what the records of a snapshot load.
func loadsFrom(im *image.Image, records iter.Seq[*metadatapb.Record]) error {
	d := image.Load()
	i := image.MetadataOffset(0)
	for r := range records {
		if err := d.Replay(i, r); err != nil {
			return err
		}
		i++
	}
	loaded := d.Seal(im.Offset(), im.Chain())
	if loaded.Fingerprint() != im.Fingerprint() {
		return errors.New("the loaded image has another fingerprint")
	}
	var a, b bytes.Buffer
	if err := errors.Join(im.WriteJSON(&a), loaded.WriteJSON(&b)); err != nil {
		return err
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		return errors.New("the loaded image has another JSON")
	}
	return nil
}
