package image

import (
	"iter"
	"math"
)

// indexes are derived from the partitions and equal what a scan of them would find.
type indexes struct {
	brokers      tree[BrokerID, *brokerIndex]
	leaderless   bitset
	notPreferred bitset
	reassigning  bitset
}

// brokerIndex is what one broker has to do with; the writer of generation gen may change it in place.
type brokerIndex struct {
	gen uint64
	// on holds the partitions that the broker is a replica of, outside those of them whose ISR it is not in.
	// The second set is nearly empty on a healthy cluster, so both together cost little more than one bitset.
	on, outside bitset
	// elr holds the partitions that have the broker in the ELR or among the last known ELR.
	elr     bitset
	leaders int
	// adding is the number of partitions that the broker is being added to and not in sync with.
	adding int
	// Replicas of deleted topics: those waited for, those of them that failed, and those reported as gone.
	deleting, deletingFailed, deleted int
}

func (ix *brokerIndex) isEmpty() bool {
	return ix.on.n == 0 && ix.elr.n == 0 && ix.leaders == 0 && ix.deleting == 0 && ix.deleted == 0
}

func (s *state) brokerIndex(id BrokerID) *brokerIndex {
	if ix, ok := s.indexes.brokers.get(id); ok {
		return ix
	}
	return &noIndex
}

var noIndex brokerIndex

// isNotPreferred tells whether p is led, but not by its first replica.
func isNotPreferred(p *Partition) bool {
	return p.Leader != NoBroker && len(p.Replicas) > 0 && p.Leader != p.Replicas[0]
}

// PartitionsWithISR returns the partitions that have the broker in their ISR.
// This order and that of the methods below is by ordinal: the order of creation, but a new partition may take the
// place of a deleted one, and after loading a snapshot it is the order of the snapshot.
func (im *Image) PartitionsWithISR(id BrokerID) iter.Seq2[PartitionID, Partition] {
	ix := im.brokerIndex(id)
	return im.selected(&ix.on, &ix.outside)
}

// PartitionsOn returns the partitions that the broker is a replica of.
func (im *Image) PartitionsOn(id BrokerID) iter.Seq2[PartitionID, Partition] {
	return im.selected(&im.brokerIndex(id).on, nil)
}

// PartitionsWithELR returns the partitions that have the broker in their ELR or among their last known ELR (KIP-966).
func (im *Image) PartitionsWithELR(id BrokerID) iter.Seq2[PartitionID, Partition] {
	return im.selected(&im.brokerIndex(id).elr, nil)
}

// WithELR returns the partitions that have an ELR or a last known ELR, each once: with the broker of the lowest id in it.
func (im *Image) WithELR() iter.Seq2[PartitionID, Partition] {
	return func(yield func(PartitionID, Partition) bool) {
		for broker, ix := range im.indexes.brokers.all() {
			for id, p := range im.selected(&ix.elr, nil) {
				if broker == lowestELR(p) && !yield(id, p) {
					return
				}
			}
		}
	}
}

// lowestELR is the lowest id in the ELR and the last known ELR of a partition that has one of them.
func lowestELR(p Partition) BrokerID {
	lowest := BrokerID(math.MaxInt32)
	for _, id := range p.ELR {
		lowest = min(lowest, id)
	}
	for _, id := range p.LastKnownELR {
		lowest = min(lowest, id)
	}
	return lowest
}

// Leaderless returns the partitions without a leader.
func (im *Image) Leaderless() iter.Seq2[PartitionID, Partition] {
	return im.selected(&im.indexes.leaderless, nil)
}

// LeaderlessOn returns the partitions without a leader that the broker is a replica of. Others cost nothing.
func (im *Image) LeaderlessOn(id BrokerID) iter.Seq2[PartitionID, Partition] {
	return func(yield func(PartitionID, Partition) bool) {
		im.indexes.leaderless.eachBoth(&im.brokerIndex(id).on, func(ordinal uint32) bool {
			return yield(im.partitionID(im.packedAt(ordinal)), im.partition(ordinal))
		})
	}
}

// NotPreferred returns the partitions that have a leader which is not their first replica.
func (im *Image) NotPreferred() iter.Seq2[PartitionID, Partition] {
	return im.selected(&im.indexes.notPreferred, nil)
}

// Reassigning returns the partitions that have replicas to add or to remove.
func (im *Image) Reassigning() iter.Seq2[PartitionID, Partition] {
	return im.selected(&im.indexes.reassigning, nil)
}

func (im *Image) selected(set, not *bitset) iter.Seq2[PartitionID, Partition] {
	return func(yield func(PartitionID, Partition) bool) {
		set.eachWithout(not, func(ordinal uint32) bool {
			return yield(im.partitionID(im.packedAt(ordinal)), im.partition(ordinal))
		})
	}
}

// LeaderCount returns the number of partitions that the broker leads.
func (im *Image) LeaderCount(id BrokerID) int { return im.brokerIndex(id).leaders }

// ReplicaCount returns the number of partitions that the broker is a replica of.
func (im *Image) ReplicaCount(id BrokerID) int { return im.brokerIndex(id).on.n }

// ISRCount returns the number of partitions that have the broker in their ISR.
func (im *Image) ISRCount(id BrokerID) int {
	ix := im.brokerIndex(id)
	return ix.on.n - ix.outside.n
}

// ELRCount returns the number of partitions that have the broker in their ELR or among their last known ELR.
func (im *Image) ELRCount(id BrokerID) int { return im.brokerIndex(id).elr.n }

// ELRMemberships returns the sum of ELRCount over all brokers: at least the number of partitions that [Image.WithELR] returns.
func (im *Image) ELRMemberships() int {
	n := 0
	for _, ix := range im.indexes.brokers.all() {
		n += ix.elr.n
	}
	return n
}

// LeaderlessCount returns the number of partitions without a leader.
func (im *Image) LeaderlessCount() int { return im.indexes.leaderless.n }

// NotPreferredCount returns the number of partitions that have a leader which is not their first replica.
func (im *Image) NotPreferredCount() int { return im.indexes.notPreferred.n }

// ReassigningCount returns the number of partitions that have replicas to add or to remove.
func (im *Image) ReassigningCount() int { return im.indexes.reassigning.n }
