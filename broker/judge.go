package broker

import (
	"iter"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// lostReplicas lists, by topic and partition, the replicas whose log the metadata relies on and which are not on
// disk: this broker is in their ISR, ELR or last-known ELR. A log that is gone must not be taken for an empty one
// (KIP-966). onDisk tells whether a log of that topic id is there.
func lostReplicas(im *image.Image, b image.BrokerID, onDisk func(image.PartitionID) bool) []*controllerpb.LostReplica {
	lost := make(map[image.TopicID][]int32)
	for _, member := range []iter.Seq2[image.PartitionID, image.Partition]{im.PartitionsWithISR(b), im.PartitionsWithELR(b)} {
		for id := range member {
			if !onDisk(id) {
				lost[id.Topic] = append(lost[id.Topic], id.Partition)
			}
		}
	}
	out := make([]*controllerpb.LostReplica, 0, len(lost))
	for topic, partitions := range lost {
		slices.Sort(partitions)
		out = append(out, &controllerpb.LostReplica{TopicId: topic.Bytes(), Partitions: slices.Compact(partitions)})
	}
	slices.SortFunc(out, func(a, b *controllerpb.LostReplica) int { return slices.Compare(a.TopicId, b.TopicId) })
	return out
}

// verdict is what becomes of a directory that holds a partition's log.
type verdict uint8

const (
	// verdictKeep: the log is a replica that the metadata assigns to this broker.
	verdictKeep verdict = iota
	// verdictDelete: the topic was deleted, and the metadata waits for this broker to remove its data.
	verdictDelete
	// verdictStray: the metadata knows nothing of it. It is set aside, and removed only after a delay (KAFKA-16814).
	verdictStray
)

func (v verdict) String() string { return [...]string{"keep", "delete", "stray"}[v] }

// judgeLog decides over a log on disk by its topic id; its name decides nothing. known is false if no id could be read.
// Only metadata that has reached this broker's own registration may be used.
func judgeLog(im *image.Image, b image.BrokerID, id image.PartitionID, known bool) verdict {
	if !known {
		return verdictStray
	}
	if p, ok := im.Partition(id); ok {
		if image.Contains(p.Replicas, b) {
			return verdictKeep
		}
		return verdictStray
	}
	if isPendingFor(im, id.Topic, b) {
		return verdictDelete
	}
	return verdictStray
}

// isPendingFor tells whether the metadata waits for this broker to remove what it holds of a deleted topic.
func isPendingFor(im *image.Image, topic image.TopicID, b image.BrokerID) bool {
	_, ok := pendingReplica(im, topic, b)
	return ok
}

func pendingReplica(im *image.Image, topic image.TopicID, b image.BrokerID) (image.PendingReplica, bool) {
	pending, ok := im.PendingDeletion(topic)
	if !ok {
		return image.PendingReplica{}, false
	}
	return pending.WaitsFor(b)
}

// holding is what a broker has of a deleted topic: nothing, or data that is being removed or could not be.
type holding struct {
	held    bool
	failure string // why the last attempt failed
}

// deletionReport compares what the metadata waits for with what the broker holds. It is empty when there is no news:
// what is still being removed, and a failure that the metadata knows already, are none.
func deletionReport(im *image.Image, b image.BrokerID, holds func(image.TopicID) holding) (deleted [][]byte, failed []*controllerpb.FailedDeletion) {
	for pending := range im.PendingDeletions() {
		replica, ok := pending.WaitsFor(b)
		if !ok {
			continue
		}
		switch h := holds(pending.TopicID); {
		case !h.held:
			deleted = append(deleted, pending.TopicID.Bytes())
		case h.failure != "" && h.failure != replica.Failure:
			failed = append(failed, &controllerpb.FailedDeletion{TopicId: pending.TopicID.Bytes(), Failure: h.failure})
		}
		if len(deleted)+len(failed) == reportTopicsMax {
			return deleted, failed
		}
	}
	return deleted, failed
}

// reportTopicsMax bounds one report; the rest follows a second later.
const reportTopicsMax = 1000
