package invariant

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/quorate/quorate/fsm/image"
)

// IndexesEqualRecomputation: every derived index holds what a scan of all partitions finds.
func IndexesEqualRecomputation(im *image.Image) error { return indexesEqual(im, scan(im)) }

func indexesEqual(im *image.Image, want sets) error {
	ids := slices.Collect(maps.Keys(want.brokers))
	for b := range im.Brokers() {
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	withELR := make(map[image.PartitionID]bool)
	for _, w := range want.brokers {
		maps.Copy(withELR, w.elr)
	}
	if err := equalSets("WithELR", im.WithELR(), withELR); err != nil {
		return err
	}
	for id := range forgottenMax { // an index may also hold a broker that nothing else knows any more
		ids = append(ids, id)
	}
	for _, id := range slices.Compact(ids) {
		w := want.brokers[id]
		if w == nil {
			w = newBrokerSets()
		}
		for _, x := range []struct {
			name string
			got  iter.Seq2[image.PartitionID, image.Partition]
			want map[image.PartitionID]bool
		}{
			{"PartitionsWithISR", im.PartitionsWithISR(id), w.isr},
			{"PartitionsWithELR", im.PartitionsWithELR(id), w.elr},
			{"PartitionsOn", im.PartitionsOn(id), w.on},
			{"LeaderlessOn", im.LeaderlessOn(id), both(w.on, want.leaderless)},
		} {
			if err := equalSets(fmt.Sprintf("%s(%v)", x.name, id), x.got, x.want); err != nil {
				return err
			}
		}
		if got := im.LeaderCount(id); got != w.leads {
			return fmt.Errorf("LeaderCount(%v) is %d, a scan finds %d", id, got, w.leads)
		}
		if got := im.ELRCount(id); got != len(w.elr) {
			return fmt.Errorf("ELRCount(%v) is %d, a scan finds %d", id, got, len(w.elr))
		}
		if got := im.ReplicaCount(id); got != len(w.on) {
			return fmt.Errorf("ReplicaCount(%v) is %d, a scan finds %d", id, got, len(w.on))
		}
	}
	if err := equalSets("Leaderless", im.Leaderless(), want.leaderless); err != nil {
		return err
	}
	if err := equalSets("NotPreferred", im.NotPreferred(), want.notPreferred); err != nil {
		return err
	}
	if got := im.LeaderlessCount(); got != len(want.leaderless) {
		return fmt.Errorf("LeaderlessCount is %d, a scan finds %d", got, len(want.leaderless))
	}
	if err := equalSets("Reassigning", im.Reassigning(), want.reassigning); err != nil {
		return err
	}
	if got, want := im.StateCounts(), countStates(im); got != want {
		return fmt.Errorf("StateCounts is %v, a scan finds %v", got, want)
	}
	return nil
}

func both(a, b map[image.PartitionID]bool) map[image.PartitionID]bool {
	out := make(map[image.PartitionID]bool)
	for id := range a {
		if b[id] {
			out[id] = true
		}
	}
	return out
}

// countStates counts by looking at everything.
func countStates(im *image.Image) image.StateCounts {
	var c image.StateCounts
	for t := range im.Topics() {
		for _, p := range t.Partitions() {
			c.Partitions[p.State()]++
			for _, b := range p.Replicas {
				state, _ := im.ReplicaState(p, b)
				c.Replicas[state]++
			}
		}
	}
	for d := range im.PendingDeletions() {
		c.Partitions[image.PartitionOffline] += int(d.Partitions)
		for _, r := range d.Replicas {
			state, _ := im.DeletionState(r)
			c.Replicas[state] += int(r.Partitions)
		}
	}
	return c
}

// forgottenMax bounds the ids of brokers that are looked for in the indexes though no partition and no registration has them.
const forgottenMax image.BrokerID = 8

type brokerSets struct {
	isr, elr, on map[image.PartitionID]bool
	leads        int
}

func newBrokerSets() *brokerSets {
	return &brokerSets{isr: map[image.PartitionID]bool{}, elr: map[image.PartitionID]bool{}, on: map[image.PartitionID]bool{}}
}

type sets struct {
	brokers                               map[image.BrokerID]*brokerSets
	leaderless, notPreferred, reassigning map[image.PartitionID]bool
}

func scan(im *image.Image) sets {
	s := sets{
		brokers:    map[image.BrokerID]*brokerSets{},
		leaderless: map[image.PartitionID]bool{}, notPreferred: map[image.PartitionID]bool{}, reassigning: map[image.PartitionID]bool{},
	}
	of := func(id image.BrokerID) *brokerSets {
		if s.brokers[id] == nil {
			s.brokers[id] = newBrokerSets()
		}
		return s.brokers[id]
	}
	for t := range im.Topics() {
		for i, p := range t.Partitions() {
			id := image.PartitionID{Topic: t.ID(), Partition: i}
			for _, b := range p.Replicas {
				of(b).on[id] = true
			}
			for _, b := range p.ISR {
				of(b).isr[id] = true
			}
			for _, b := range slices.Concat(p.ELR, p.LastKnownELR) {
				of(b).elr[id] = true
			}
			switch {
			case p.Leader == image.NoBroker:
				s.leaderless[id] = true
			case p.Leader != p.Replicas[0]:
				s.notPreferred[id] = true
			}
			if p.Leader != image.NoBroker {
				of(p.Leader).leads++
			}
			if p.IsReassigning() {
				s.reassigning[id] = true
			}
		}
	}
	return s
}

func equalSets(name string, got iter.Seq2[image.PartitionID, image.Partition], want map[image.PartitionID]bool) error {
	n := 0
	for id := range got {
		if !want[id] {
			return fmt.Errorf("%s has %v, a scan does not", name, id)
		}
		n++
	}
	if n != len(want) {
		return fmt.Errorf("%s has %d partitions, a scan finds %d", name, n, len(want))
	}
	return nil
}
