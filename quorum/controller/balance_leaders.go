package controller

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ElectionsPerRoundMax bounds what one round of a background election writes.
const ElectionsPerRoundMax = 1000

// BackgroundElections is the response of a background round.
type BackgroundElections struct {
	// Elected is the number of partitions with a new leader.
	Elected int
	// More tells that the round ended at [ElectionsPerRoundMax] and another one has work.
	More bool
}

// BalanceLeaders makes preferred replicas leaders where they can lead (auto.leader.rebalance.enable). A partition whose
// preferred replica cannot costs nothing. A broker that was unfenced less than settle ago is left alone: it has just come
// back, and leaderships that it gets at once would find cold caches and clients that are still on their way. That is counted
// from when this controller saw it, by its monotonic clock: the time of day in the log is another controller's.
func BalanceLeaders(v View, settle time.Duration) (Decision[BackgroundElections], error) {
	e := newElectorate(v)
	for b := range v.Image.Brokers() {
		if state, ok := v.Liveness.HeartbeatState(b.ID); ok && v.Now.Sub(state.UnfencedSince) < settle {
			e.bar(b.ID)
		}
	}
	return background(v.Image.NotPreferred(), func(id image.PartitionID, p image.Partition) *metadatapb.Record {
		if e.fitness(p.Replicas[0]) != fit || !image.Contains(p.ISR, p.Replicas[0]) {
			return nil
		}
		record, _ := e.electPreferred(id, p)
		return record
	}), nil
}

// ElectUnclean gives leaders to partitions without one, where the topic allows unclean elections. It is how turning
// unclean.leader.election.enable on takes effect on partitions that are leaderless already.
func ElectUnclean(v View) (Decision[BackgroundElections], error) {
	e := newElectorate(v)
	return background(v.Image.Leaderless(), func(id image.PartitionID, p image.Partition) *metadatapb.Record {
		if e.mode(id.Topic) != electUnclean {
			return nil
		}
		c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION)
		record, after := c.build()
		if after.Leader == image.NoBroker {
			return nil
		}
		return record
	}), nil
}

func background(partitions func(func(image.PartitionID, image.Partition) bool), elect func(image.PartitionID, image.Partition) *metadatapb.Record) Decision[BackgroundElections] {
	var d Decision[BackgroundElections]
	for id, p := range partitions {
		record := elect(id, p)
		if record == nil {
			continue
		}
		if len(d.Records) == ElectionsPerRoundMax {
			d.Response.More = true
			break
		}
		d.Records = append(d.Records, record)
	}
	d.Response.Elected = len(d.Records)
	return d
}
