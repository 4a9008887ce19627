package invariant

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm/image"
)

// Transition is a promise about the step that one record makes.
type Transition struct {
	Name string
	// Holds returns what is wrong, nil if nothing is.
	Holds func(old, new *image.Image) error
}

// Steps are the promises about every step of one record.
var Steps = []Transition{
	{"PartitionEpochBumpsOnEveryChange", eachChange(partitionEpochBumpsOnEveryChange)},
	{"LeaderEpochBumpsOnEveryElection", eachChange(leaderEpochBumpsOnEveryElection)},
	{"LeaderFromISROrELR", eachChange(leaderFromISROrELR)},
	{"EpochsMonotonic", EpochsMonotonic},
}

// Step checks the step that one record makes.
func Step(old, new *image.Image) error {
	var errs []error
	for _, s := range Steps {
		if err := s.Holds(old, new); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

func eachChange(holds func(old, new image.Partition) error) func(old, new *image.Image) error {
	return func(old, new *image.Image) error {
		for _, c := range image.Diff(old, new).Partitions {
			if c.Old == nil || c.New == nil {
				continue
			}
			if err := holds(*c.Old, *c.New); err != nil {
				return fmt.Errorf("%v (%v → %v): %w", c.ID, *c.Old, *c.New, err)
			}
		}
		return nil
	}
}

func partitionEpochBumpsOnEveryChange(old, new image.Partition) error {
	if new.PartitionEpoch != old.PartitionEpoch+1 {
		return errors.New("the partition epoch did not rise by one")
	}
	same := old
	same.PartitionEpoch++
	if new.Equal(same) {
		return errors.New("nothing changed but the epoch")
	}
	return nil
}

// leaderEpochBumpsOnEveryElection: with another leader, with none, and when a replica is dropped.
func leaderEpochBumpsOnEveryElection(old, new image.Partition) error {
	must := old.Leader != new.Leader || !image.ContainsAll(new.Replicas, old.Replicas) || new.Recovering && !old.Recovering
	switch {
	case must && new.LeaderEpoch != old.LeaderEpoch+1:
		return errors.New("a new leadership did not raise the leader epoch by one")
	case new.LeaderEpoch != old.LeaderEpoch && new.LeaderEpoch != old.LeaderEpoch+1:
		return errors.New("the leader epoch jumped")
	}
	return nil
}

// leaderFromISROrELR: whoever begins to lead has every committed record, or the partition says that it recovers.
func leaderFromISROrELR(old, new image.Partition) error {
	if new.Leader == image.NoBroker || new.Leader == old.Leader || new.Recovering {
		return nil
	}
	// A reassignment may end with a leader that enters the ISR in the same change.
	joined := image.Contains(new.ISR, new.Leader) && old.IsReassigning() && !new.IsReassigning()
	if !image.Contains(old.ISR, new.Leader) && !image.Contains(old.ELR, new.Leader) && !joined {
		return fmt.Errorf("leader %v comes from outside ISR and ELR", new.Leader)
	}
	return nil
}

// EpochsMonotonic: no epoch falls, and one broker epoch belongs to one incarnation. It also holds over many records.
func EpochsMonotonic(old, new *image.Image) error {
	if new.Offset() < old.Offset() {
		return fmt.Errorf("metadata offset fell from %d to %d", old.Offset(), new.Offset())
	}
	if new.NextProducerID() < old.NextProducerID() {
		return fmt.Errorf("next producer id fell from %d to %d", old.NextProducerID(), new.NextProducerID())
	}
	for b := range old.Brokers() {
		n, ok := new.Broker(b.ID)
		switch {
		case !ok:
		case n.Epoch < b.Epoch:
			return fmt.Errorf("epoch of broker %v fell from %d to %d", b.ID, b.Epoch, n.Epoch)
		case n.Epoch == b.Epoch && n.IncarnationID != b.IncarnationID:
			return fmt.Errorf("epoch %d of broker %v belongs to two incarnations", b.Epoch, b.ID)
		case n.RegistrationOffset < b.RegistrationOffset:
			return fmt.Errorf("registration offset of broker %v fell", b.ID)
		}
	}
	return eachChange(func(o, n image.Partition) error {
		if n.LeaderEpoch < o.LeaderEpoch || n.PartitionEpoch < o.PartitionEpoch {
			return errors.New("an epoch fell")
		}
		if n.PartitionEpoch-o.PartitionEpoch < image.PartitionEpoch(n.LeaderEpoch-o.LeaderEpoch) {
			return errors.New("the partition epoch grew more slowly than the leader epoch")
		}
		return nil
	})(old, new)
}
