package image

import (
	"errors"
	"fmt"
	"math"
	"slices"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// addPartition opens the next partition of a topic, with the absolute state of the record.
func (d *Delta) addPartition(r *metadatapb.Partition) error {
	e, err := d.findTopic(r.TopicId)
	if err != nil {
		return fmt.Errorf("Partition: %w", err)
	}
	if r.Partition == e.count && d.addPacked(e, r) {
		return nil
	}
	p := &d.after
	room := d.room2[:0]
	p.Replicas, room = cut(r.Replicas, room)
	p.ISR, room = cut(r.Isr, room)
	p.ELR, room = cut(r.Elr, room)
	p.LastKnownELR, room = cut(r.LastKnownElr, room)
	p.AddingReplicas, room = cut(r.AddingReplicas, room)
	p.RemovingReplicas, room = cut(r.RemovingReplicas, room)
	p.OriginalReplicas, _ = cut(r.OriginalReplicas, room)
	p.Leader = NoBroker
	if r.Leader != nil {
		p.Leader = BrokerID(*r.Leader)
	}
	p.LeaderEpoch, p.PartitionEpoch = LeaderEpoch(r.LeaderEpoch), PartitionEpoch(r.PartitionEpoch)
	if p.Recovering, err = isRecovering(r.LeaderRecoveryState); err == nil {
		err = p.check()
	}
	if err == nil && r.Partition != e.count {
		err = fmt.Errorf("the topic has %d partitions, so the next is %d", e.count, e.count)
	}
	if err == nil && r.Leader != nil && *r.Leader < 0 {
		err = fmt.Errorf("leader %d is no broker", *r.Leader)
	}
	if err != nil {
		return fmt.Errorf("Partition %s-%d: %w", e.name, r.Partition, err)
	}
	e, ordinal := d.growTopic(e)
	d.partitionCount++
	rec := d.editPacked(ordinal)
	rec.topic, rec.partition = e.ordinal, r.Partition
	d.store(ordinal, rec, p)
	d.sum += d.hashAt(ordinal, e.id, rec)
	d.reindex(ordinal, nil, p)
	d.notePartition(PartitionID{e.id, r.Partition})
	return nil
}

// addPacked is addPartition for a record that fits a page as it is; it tells whether it did.
func (d *Delta) addPacked(e *topicEntry, r *metadatapb.Partition) bool {
	var rec packed
	isr, elr, ok := rec.packRecord(r)
	if !ok {
		return false
	}
	e, ordinal := d.growTopic(e)
	rec.topic = e.ordinal
	*d.editPacked(ordinal) = rec
	d.partitionCount++
	d.sum += hashPacked(e.id, &rec)
	d.indexNew(ordinal, r, isr, elr)
	d.notePartition(PartitionID{e.id, r.Partition})
	return true
}

// editPacked returns a record for writing. The page of the last one is kept at hand.
func (d *Delta) editPacked(ordinal uint32) *packed {
	if page := ordinal / pageLen; d.lastPage == nil || d.lastPageNumber != page {
		d.lastPage, d.lastPageNumber = d.partitions.editFrom(d.pageSlab, d.gen, page), page
	}
	return &d.lastPage[ordinal%pageLen]
}

// changePartition merges the fields that are present into a partition. The partition epoch rises by one always,
// the leader epoch if and only if the record bears a leader change.
func (d *Delta) changePartition(r *metadatapb.PartitionChange) error {
	e, err := d.findTopic(r.TopicId)
	if err != nil {
		return fmt.Errorf("PartitionChange: %w", err)
	}
	ordinal, ok := e.partitionOrdinal(r.Partition)
	if !ok {
		return fmt.Errorf("PartitionChange %s-%d: the partition is unknown", e.name, r.Partition)
	}
	d.load(ordinal, &d.before, d.room1[:])
	p := &d.after
	*p = d.before
	if err := d.merge(p, r); err != nil {
		return fmt.Errorf("PartitionChange %s-%d: %w", e.name, r.Partition, err)
	}
	rec := d.editPacked(ordinal)
	d.sum -= d.hashAt(ordinal, e.id, rec)
	d.store(ordinal, rec, p)
	d.sum += d.hashAt(ordinal, e.id, rec)
	d.reindex(ordinal, &d.before, p)
	d.notePartition(PartitionID{e.id, r.Partition})
	return nil
}

func (d *Delta) merge(p *Partition, r *metadatapb.PartitionChange) error {
	room := d.room2[:0]
	for _, f := range [...]struct {
		to   *[]BrokerID
		from *metadatapb.BrokerIds
	}{
		{&p.Replicas, r.Replicas}, {&p.ISR, r.Isr}, {&p.ELR, r.Elr}, {&p.LastKnownELR, r.LastKnownElr},
		{&p.AddingReplicas, r.AddingReplicas}, {&p.RemovingReplicas, r.RemovingReplicas},
		{&p.OriginalReplicas, r.OriginalReplicas},
	} {
		if f.from != nil {
			*f.to, room = cut(f.from.Ids, room)
		}
	}
	if p.PartitionEpoch == math.MaxInt32 || p.LeaderEpoch == math.MaxInt32 {
		return errors.New("the epochs are used up")
	}
	p.PartitionEpoch++
	if r.Leader != nil {
		p.LeaderEpoch++
		p.Leader = NoBroker
		if l := r.Leader.Leader; l != nil {
			if *l < 0 {
				return fmt.Errorf("leader %d is no broker", *l)
			}
			p.Leader = BrokerID(*l)
		}
	}
	if r.LeaderRecoveryState != nil {
		var err error
		if p.Recovering, err = isRecovering(*r.LeaderRecoveryState); err != nil {
			return err
		}
	}
	return p.check()
}

// store writes p to its place in a page, or beside it if it does not fit.
func (d *Delta) store(ordinal uint32, rec *packed, p *Partition) {
	was := rec.spilled()
	if rec.pack(p) {
		if was {
			d.spill.delete(d.gen, ordinal)
		}
		return
	}
	*rec = packed{topic: rec.topic, partition: rec.partition, bits: bitPresent | bitSpilled}
	d.spill.set(d.gen, ordinal, p.clone())
}

func (d *Delta) hashAt(ordinal uint32, topic TopicID, rec *packed) uint64 {
	if !rec.spilled() {
		return hashPacked(topic, rec)
	}
	p, _ := d.spill.get(ordinal)
	return hashSpilled(topic, rec.partition, p)
}

func (d *Delta) notePartition(id PartitionID) {
	if d.snapshot {
		return
	}
	if n := len(d.partitionsChanged); n == 0 || d.partitionsChanged[n-1] != id {
		d.partitionsChanged = append(d.partitionsChanged, id)
	}
}

// cut converts a list into room, or into new memory when the room is too small.
func cut(ids []int32, room []BrokerID) (list, rest []BrokerID) {
	n := len(ids)
	if n == 0 {
		return nil, room
	}
	if cap(room) < n {
		return BrokerIDs(ids), room
	}
	list = room[:n:n]
	for i, id := range ids {
		list[i] = BrokerID(id)
	}
	return list, room[n:n:cap(room)]
}

func isRecovering(s metadatapb.LeaderRecoveryState) (bool, error) {
	switch s {
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_UNSPECIFIED,
		metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED:
		return false, nil
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING:
		return true, nil
	}
	return false, fmt.Errorf("unknown leader recovery state %d", s)
}

// check tells what the storage and the indexes rely on; which states are wise is not its business.
func (p *Partition) check() error {
	if len(p.Replicas) == 0 {
		return errors.New("no replicas")
	}
	for _, l := range [...]struct {
		name string
		ids  []BrokerID
	}{
		{"replicas", p.Replicas}, {"isr", p.ISR}, {"elr", p.ELR}, {"last known elr", p.LastKnownELR},
		{"adding replicas", p.AddingReplicas}, {"removing replicas", p.RemovingReplicas},
		{"original replicas", p.OriginalReplicas},
	} {
		if HasDuplicates(l.ids) {
			return fmt.Errorf("%s %s name a broker twice", l.name, FormatReplicas(l.ids))
		}
		if slices.ContainsFunc(l.ids, func(id BrokerID) bool { return id < 0 }) {
			return fmt.Errorf("%s %s: a broker id must not be below zero", l.name, FormatReplicas(l.ids))
		}
	}
	if !ContainsAll(p.Replicas, p.ISR) {
		return fmt.Errorf("isr %s is not within replicas %s", FormatReplicas(p.ISR), FormatReplicas(p.Replicas))
	}
	if p.Leader != NoBroker && !Contains(p.Replicas, p.Leader) {
		return fmt.Errorf("leader %d is not within replicas %s", p.Leader, FormatReplicas(p.Replicas))
	}
	if p.LeaderEpoch < 0 || p.PartitionEpoch < 0 {
		return errors.New("an epoch is below zero")
	}
	return nil
}

// clone returns a copy that shares no list.
func (p *Partition) clone() *Partition {
	c := *p
	for _, l := range [...]*[]BrokerID{
		&c.Replicas, &c.ISR, &c.ELR, &c.LastKnownELR, &c.AddingReplicas, &c.RemovingReplicas, &c.OriginalReplicas,
	} {
		*l = slices.Clone(*l)
	}
	return &c
}
