package controller

import (
	"iter"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// fate says what became of one replica of a broker that goes out of service.
type fate int

const (
	// fateKept: the log is whole. The replica leaves the ISR and may enter the ELR.
	fateKept fate = iota
	// fateCrashed: the machine stopped, an unsynced tail may be gone. The replica leaves ISR and ELR and may stay last known.
	fateCrashed
	// fateLost: the log is gone. The replica leaves ISR, ELR and last-known ELR.
	fateLost
)

// departure takes one broker out of the ISRs that hold it, and moves leadership away.
type departure struct {
	electorate *electorate
	broker     image.BrokerID
	reason     metadatapb.ChangeReason
	// leavesISR is false for a broker that is fenced already: it stays where it is the frozen last member.
	leavesISR bool
	// fate is nil if every log is whole.
	fate func(image.PartitionID) fate
	// before is what the same decision has changed before; nil if there can be nothing.
	before *changedPartitions
}

// changedPartitions are what one decision has made of partitions so far, so that later parts of it build on that.
type changedPartitions struct {
	state map[image.PartitionID]image.Partition
	// joined holds, by broker, the partitions whose ISR it entered by being elected.
	joined map[image.BrokerID][]image.PartitionID
}

func newChangedPartitions() *changedPartitions {
	return &changedPartitions{
		state: make(map[image.PartitionID]image.Partition), joined: make(map[image.BrokerID][]image.PartitionID),
	}
}

func (c *changedPartitions) note(id image.PartitionID, old, after image.Partition) {
	c.state[id] = after
	if after.Leader != image.NoBroker && !image.Contains(old.ISR, after.Leader) {
		c.joined[after.Leader] = append(c.joined[after.Leader], id)
	}
}

// records returns the partition changes: the partitions that the broker leads first, then its other ISR memberships,
// then those in whose ELR or last-known ELR it is. Each is complete in itself, so the list may be cut anywhere.
func (d *departure) records() []*metadatapb.Record {
	var led, followed []*metadatapb.Record
	for id, p := range d.memberships() {
		r := d.change(id, p)
		if r != nil && p.Leader == d.broker {
			led = append(led, r)
		} else if r != nil {
			followed = append(followed, r)
		}
	}
	records := append(led, followed...)
	if d.fate == nil {
		return records
	}
	for id, p := range d.electorate.im.PartitionsWithELR(d.broker) {
		if image.Contains(p.ISR, d.broker) {
			continue
		}
		if r := d.change(id, p); r != nil {
			records = append(records, r)
		}
	}
	return records
}

// memberships are the partitions whose ISR holds the broker, as they are at this point of the decision.
func (d *departure) memberships() iter.Seq2[image.PartitionID, image.Partition] {
	im := d.electorate.im
	if d.before == nil {
		return im.PartitionsWithISR(d.broker)
	}
	return func(yield func(image.PartitionID, image.Partition) bool) {
		seen := make(map[image.PartitionID]bool)
		for id, p := range im.PartitionsWithISR(d.broker) {
			if changed, ok := d.before.state[id]; ok {
				p = changed
			}
			seen[id] = true
			if image.Contains(p.ISR, d.broker) && !yield(id, p) {
				return
			}
		}
		for _, id := range d.before.joined[d.broker] {
			if p := d.before.state[id]; !seen[id] && image.Contains(p.ISR, d.broker) && !yield(id, p) {
				return
			}
		}
	}
}

func (d *departure) change(id image.PartitionID, p image.Partition) *metadatapb.Record {
	c := d.electorate.changePartition(id, p, d.reason)
	what := fateKept
	if d.fate != nil {
		what = d.fate(id)
	}
	if what == fateKept && !d.leavesISR {
		return nil
	}
	switch what {
	case fateCrashed:
		c.crashed = d.broker
	case fateLost:
		c.lost = d.broker
		c.reason = metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG
	}
	if image.Contains(p.ISR, d.broker) {
		c.isr = image.Without(p.ISR, d.broker)
	}
	record, after := c.build()
	if d.before != nil && record != nil {
		d.before.note(id, p, after)
	}
	return record
}

// electLeaders tries to give a leader to each of the partitions, which have none.
func (e *electorate) electLeaders(leaderless iter.Seq2[image.PartitionID, image.Partition], reason metadatapb.ChangeReason) []*metadatapb.Record {
	var records []*metadatapb.Record
	for id, p := range leaderless {
		c := e.changePartition(id, p, reason)
		if record, after := c.build(); record != nil && after.Leader != image.NoBroker {
			records = append(records, record)
		}
	}
	return records
}

func registrationChange(change *metadatapb.BrokerRegistrationChange) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: change}}
}

// fencing returns what fencing a broker writes: it leaves every ISR, and its own record comes last.
func (d *departure) fencing(b image.Broker, nowMs int64) []*metadatapb.Record {
	fenced := true
	return append(d.records(), registrationChange(&metadatapb.BrokerRegistrationChange{
		BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), Fenced: &fenced, StateSinceMs: nowMs, Reason: d.reason,
	}))
}
