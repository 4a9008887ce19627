package controller

import (
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
	// changed holds partitions that the same decision has changed before; nil if there can be none.
	changed map[image.PartitionID]image.Partition
}

// records returns the partition changes: the partitions that the broker leads first, then its other ISR memberships,
// then those in whose ELR or last-known ELR it is. Each is complete in itself, so the list may be cut anywhere.
func (d *departure) records() []*metadatapb.Record {
	var led, followed []*metadatapb.Record
	for id, p := range d.electorate.im.PartitionsWithISR(d.broker) {
		if p = d.current(id, p); image.Contains(p.ISR, d.broker) {
			r := d.change(id, p)
			if r != nil && p.Leader == d.broker {
				led = append(led, r)
			} else if r != nil {
				followed = append(followed, r)
			}
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

func (d *departure) current(id image.PartitionID, p image.Partition) image.Partition {
	if changed, ok := d.changed[id]; ok {
		return changed
	}
	return p
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
	if d.changed != nil && record != nil {
		d.changed[id] = after
	}
	return record
}

// electLeaders tries to give a leader to each partition without one.
func (e *electorate) electLeaders(reason metadatapb.ChangeReason) []*metadatapb.Record {
	var records []*metadatapb.Record
	for id, p := range e.im.Leaderless() {
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
