package controller

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// partitionChange is the only builder of PartitionChange records. It is told what shall become of a partition and finds
// out what else follows: the end of a reassignment, ELR, leader, last known leader (Kafka: PartitionChangeBuilder).
//
// build goes in this order, each step on the results of those before:
//
//  1. Finish the reassignment, if every final replica is in the ISR.
//  2. ELR: empty if the ISR has min.insync.replicas members; else what left the ISR and has lost nothing.
//  3. Elect. A leader from outside the ISR becomes its only member; if it was not in the ELR either, the partition
//     recovers until its leader says otherwise (KIP-704).
//  4. Losing a replica begins a new leadership even under the same leader.
//  5. After an unclean election, or with ELR off, the ELR is empty.
//  6. The ISR becomes empty only with ELR on, or if its last member has lost its log.
//  7. Last known leader: kept from the moment the ISR empties to the next leader.
//
// A change that changes nothing is not written. The partition epoch rises by one with each record, the leader epoch
// when the record names a leader (or none).
type partitionChange struct {
	electorate *electorate
	id         image.PartitionID
	old        image.Partition
	mode       electionMode
	reason     metadatapb.ChangeReason

	// Targets; they begin as they are.
	isr, replicas, adding, removing, original []image.BrokerID
	recovering                                bool
	// crashed may have lost its unsynced tail: it does not enter the ELR, but may stay last known.
	// lost has no log any more: it is in neither, and it may leave an ISR empty.
	crashed, lost image.BrokerID
	// candidate is the only one that an unclean election may take; NoBroker for the first that can lead.
	candidate image.BrokerID

	elr []image.BrokerID
}

// changePartition begins a change; the caller sets targets and then builds.
func (e *electorate) changePartition(id image.PartitionID, old image.Partition, reason metadatapb.ChangeReason) partitionChange {
	return partitionChange{
		electorate: e, id: id, old: old, mode: e.mode(id.Topic), reason: reason,
		isr: old.ISR, replicas: old.Replicas, adding: old.AddingReplicas, removing: old.RemovingReplicas,
		original: old.OriginalReplicas, recovering: old.Recovering,
		crashed: image.NoBroker, lost: image.NoBroker, candidate: image.NoBroker,
	}
}

// build returns the record, or nil if nothing changes, and the partition after it.
func (c *partitionChange) build() (*metadatapb.Record, image.Partition) {
	c.completeReassignment()
	c.updateELR()
	leader, unclean := c.elect()
	if leader != image.NoBroker && !image.Contains(c.isr, leader) {
		c.elr = image.Without(c.elr, leader)
		c.isr = []image.BrokerID{leader}
	}
	if unclean {
		c.recovering = true
	}
	if unclean || !c.electorate.elr || len(c.isr) >= c.minInsyncReplicas() {
		c.elr = nil
	}
	if len(c.isr) == 0 && !c.electorate.elr && !image.Contains(c.old.ISR, c.lost) {
		c.isr = image.Intersect(c.old.ISR, c.replicas)
	}
	after := c.after(leader, unclean)
	record := c.diff(after)
	if record == nil {
		return nil, c.old
	}
	return record, after
}

// changeRecord holds the parts of a record together: a broker event makes one for each of its partitions.
type changeRecord struct {
	record metadatapb.Record
	kind   metadatapb.Record_PartitionChange
	change metadatapb.PartitionChange
}

func (c *partitionChange) minInsyncReplicas() int {
	return min(c.electorate.rulesOf(c.id.Topic).minInsyncReplicas, len(c.replicas))
}

// updateELR keeps what left the ISR while that is below min.insync.replicas (KIP-966), within the replicas.
func (c *partitionChange) updateELR() {
	c.elr = nil
	if !c.electorate.elr || len(c.isr) >= c.minInsyncReplicas() {
		return
	}
	for _, list := range [][]image.BrokerID{c.old.ELR, c.old.ISR} {
		for _, id := range list {
			if id != c.crashed && id != c.lost && image.Contains(c.replicas, id) &&
				!image.Contains(c.isr, id) && !image.Contains(c.elr, id) {
				c.elr = append(c.elr, id)
			}
		}
	}
	slices.Sort(c.elr)
}

// lastKnownELR is the last leader while there is none: set when the ISR empties, cleared by the next leader.
// A partition that was without a leader before its ISR emptied keeps the last member of that.
func (c *partitionChange) lastKnownELR(leader image.BrokerID) []image.BrokerID {
	known := c.old.LastKnownELR
	switch {
	case !c.electorate.elr:
		known = nil
	case leader != image.NoBroker:
		known = nil
	case len(c.isr) == 0 && len(c.old.ISR) > 0 && c.old.Leader != image.NoBroker:
		known = []image.BrokerID{c.old.Leader}
	case len(c.isr) == 0 && len(c.old.ISR) == 1 && len(known) == 0:
		known = c.old.ISR
	}
	if image.Contains(known, c.lost) || !image.ContainsAll(c.replicas, known) {
		known = image.Intersect(image.Without(known, c.lost), c.replicas)
	}
	return known
}

func (c *partitionChange) after(leader image.BrokerID, unclean bool) image.Partition {
	after := c.old
	after.Replicas, after.ISR, after.ELR = c.replicas, c.isr, c.elr
	after.LastKnownELR = c.lastKnownELR(leader)
	after.AddingReplicas, after.RemovingReplicas, after.OriginalReplicas = c.adding, c.removing, c.original
	after.Leader, after.Recovering = leader, c.recovering
	if leader != c.old.Leader || unclean || !image.ContainsAll(c.replicas, c.old.Replicas) {
		after.LeaderEpoch++
	}
	after.PartitionEpoch++
	return after
}

// diff names what is different; nil if nothing is.
func (c *partitionChange) diff(after image.Partition) *metadatapb.Record {
	same := c.old
	same.PartitionEpoch++
	if after.Equal(same) {
		return nil
	}
	old := c.old
	made := &changeRecord{}
	made.record.Kind, made.kind.PartitionChange = &made.kind, &made.change
	change := &made.change
	change.TopicId, change.Partition, change.Reason = c.electorate.rulesOf(c.id.Topic).idBytes, c.id.Partition, c.reason
	change.Isr, change.Elr = idsIfChanged(old.ISR, after.ISR), idsIfChanged(old.ELR, after.ELR)
	change.LastKnownElr = idsIfChanged(old.LastKnownELR, after.LastKnownELR)
	change.Replicas = idsIfChanged(old.Replicas, after.Replicas)
	change.AddingReplicas = idsIfChanged(old.AddingReplicas, after.AddingReplicas)
	change.RemovingReplicas = idsIfChanged(old.RemovingReplicas, after.RemovingReplicas)
	change.OriginalReplicas = idsIfChanged(old.OriginalReplicas, after.OriginalReplicas)
	if after.LeaderEpoch != old.LeaderEpoch {
		change.Leader = leaderOf(after.Leader)
	}
	if after.Recovering != old.Recovering {
		state := recoveryState(after.Recovering)
		change.LeaderRecoveryState = &state
	}
	return &made.record
}

func idsIfChanged(old, new []image.BrokerID) *metadatapb.BrokerIds {
	if image.Equal(old, new) {
		return nil
	}
	return &metadatapb.BrokerIds{Ids: image.Int32s(new)}
}

func recoveryState(recovering bool) metadatapb.LeaderRecoveryState {
	if recovering {
		return metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	}
	return metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
}
