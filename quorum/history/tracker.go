package history

import (
	"bytes"
	"slices"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Tracker follows one partition through the log.
type Tracker struct {
	topic     image.TopicID
	partition int32
	now       fields
	existence existence
	// Changes and Elections count since the last gap, touched are the fields that were set since then.
	changes, elections int64
	touched            [fieldCount]bool
	created            bool
	// world is nil where the states of brokers are not known.
	world *world
}

// existence is what is known of whether a partition is there.
type existence int

const (
	existenceUnknown existence = iota
	existenceYes
	existenceNo
)

// NewTracker follows a partition from the beginning of the log.
func NewTracker(topic image.TopicID, partition int32) *Tracker {
	return &Tracker{topic: topic, partition: partition, existence: existenceNo, world: &world{topic: topic, im: image.Empty()}}
}

// NewTrackerBehind follows a partition that is created later than a gap.
func NewTrackerBehind(topic image.TopicID, partition int32) *Tracker {
	return &Tracker{topic: topic, partition: partition, existence: existenceNo}
}

// Gap forgets what is not known any more.
func (t *Tracker) Gap() {
	*t = Tracker{topic: t.topic, partition: t.partition}
}

// Created tells whether the partition was created since the last gap.
func (t *Tracker) Created() bool { return t.created }

// Seed gives what is known of the state before all that t has followed since its last gap, from the state at its end: the
// fields that nothing has set, and the epochs, which each change raises by one.
func (t *Tracker) Seed(end image.Partition) *Tracker {
	seeded := &Tracker{topic: t.topic, partition: t.partition, existence: existenceYes, now: fieldsOf(end)}
	for i := range seeded.now {
		if t.touched[i] {
			seeded.now[i] = nil
		}
	}
	seeded.now[fieldLeaderEpoch] = number(int64(end.LeaderEpoch) - t.elections)
	seeded.now[fieldPartitionEpoch] = number(int64(end.PartitionEpoch) - t.changes)
	return seeded
}

// Entry hands over what an entry says about the partition.
func (t *Tracker) Entry(e *fsm.Entry, take func(*controllerpb.PartitionEvent) error) error {
	if !bytes.Contains(e.Bytes, t.topic[:]) && (t.world == nil || !namesBroker(e)) {
		return nil
	}
	entry, err := record.DecodeEntry(e.Bytes)
	if err != nil {
		return err
	}
	offset := e.BaseOffset
	for _, d := range entry.GetDecisions() {
		for _, r := range d.GetRecords() {
			event := t.record(r)
			event = t.cross(offset, r, event)
			if event != nil {
				event.MetadataOffset, event.TimeMs, event.ControllerEpoch = int64(offset), e.TimeMs, e.Term
				event.Cause = d.GetCause()
				event.Text = words(event, fencedBy(d), t.now[fieldRemovingReplicas].GetIds().GetIds())
				if err := take(event); err != nil {
					return err
				}
			}
			offset++
		}
	}
	return nil
}

// fencedBy are the brokers that a decision fences.
func fencedBy(d *metadatapb.Decision) (ids []int32) {
	for _, r := range d.GetRecords() {
		if c := r.GetBrokerRegistrationChange(); c.GetFenced() {
			ids = append(ids, c.GetBrokerId())
		}
	}
	return ids
}

// record is nil if the record is not about the partition.
func (t *Tracker) record(r *metadatapb.Record) *controllerpb.PartitionEvent {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_Partition:
		if t.is(k.Partition.GetTopicId(), k.Partition.GetPartition()) {
			return t.create(k.Partition)
		}
	case *metadatapb.Record_PartitionChange:
		if t.is(k.PartitionChange.GetTopicId(), k.PartitionChange.GetPartition()) {
			return t.change(k.PartitionChange)
		}
	case *metadatapb.Record_RemoveTopic:
		if t.existence != existenceNo && bytes.Equal(k.RemoveTopic.GetTopicId(), t.topic[:]) {
			return t.remove()
		}
	case *metadatapb.Record_ReplicasDeleted:
		if t.holds(k.ReplicasDeleted.GetBrokerId()) && slices.ContainsFunc(k.ReplicasDeleted.GetTopicIds(), func(id []byte) bool { return bytes.Equal(id, t.topic[:]) }) {
			return &controllerpb.PartitionEvent{Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETED, Changes: brokerOf(k.ReplicasDeleted.GetBrokerId())}
		}
	case *metadatapb.Record_ReplicaDeletionFailed:
		f := k.ReplicaDeletionFailed
		if t.holds(f.GetBrokerId()) && bytes.Equal(f.GetTopicId(), t.topic[:]) {
			return &controllerpb.PartitionEvent{
				Kind:    controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETION_FAILED,
				Changes: append(brokerOf(f.GetBrokerId()), &controllerpb.FieldChange{Field: "failure", New: text(f.GetFailure())}),
			}
		}
	}
	return nil
}

func brokerOf(id int32) []*controllerpb.FieldChange {
	return []*controllerpb.FieldChange{{Field: "broker", New: number(int64(id))}}
}

func (t *Tracker) is(topic []byte, partition int32) bool {
	return partition == t.partition && bytes.Equal(topic, t.topic[:])
}

// holds tells whether a broker is, or may be, one of the replicas.
func (t *Tracker) holds(broker int32) bool {
	v := t.now[fieldReplicas]
	return v == nil && t.existence != existenceNo || slices.Contains(v.GetIds().GetIds(), broker)
}

func (t *Tracker) create(r *metadatapb.Partition) *controllerpb.PartitionEvent {
	event := &controllerpb.PartitionEvent{
		Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CREATED, Reason: metadatapb.ChangeReason_CHANGE_REASON_CREATED,
		States: []string{image.PartitionNonExistent.String(), image.PartitionNew.String()},
	}
	t.now, t.existence, t.created = fieldsOfRecord(r), existenceYes, true
	t.changes, t.elections, t.touched = 0, 0, [fieldCount]bool{}
	for i, v := range t.now {
		if ids, isList := v.GetKind().(*controllerpb.HistoryValue_Ids); isList && len(ids.Ids.GetIds()) == 0 {
			continue
		}
		if field(i) == fieldRecovery && v.GetText() == recovered {
			continue // as every new partition is
		}
		event.Changes = append(event.Changes, &controllerpb.FieldChange{Field: fieldNames[i], New: v})
	}
	event.States = append(event.States, t.state())
	return event
}

func (t *Tracker) change(r *metadatapb.PartitionChange) *controllerpb.PartitionEvent {
	event := &controllerpb.PartitionEvent{Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED, Reason: r.GetReason()}
	before := t.state()
	next := t.now
	next.merge(r)
	t.changes++
	if r.GetLeader() != nil {
		t.elections++
	}
	for i := range next {
		set := setBy(r, field(i))
		t.touched[i] = t.touched[i] || set
		if set && !equalValue(t.now[i], next[i]) && (next[i] != nil || t.now[i] != nil) {
			event.Changes = append(event.Changes, &controllerpb.FieldChange{Field: fieldNames[i], Old: t.now[i], New: next[i]})
		}
	}
	t.now, t.existence = next, existenceYes
	if after := t.state(); after != before {
		event.States = knownStates(before, after)
	}
	return event
}

func (t *Tracker) remove() *controllerpb.PartitionEvent {
	event := &controllerpb.PartitionEvent{Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REMOVED}
	event.States = knownStates(t.state(), image.PartitionOffline.String()) // it is NonExistent when its data is gone
	t.existence = existenceNo
	return event
}

// state is empty if it is not known.
func (t *Tracker) state() string {
	leader := t.now[fieldLeader]
	switch {
	case t.existence == existenceNo:
		return image.PartitionNonExistent.String()
	case leader == nil:
		return ""
	case leader.GetNumber() < 0:
		return image.PartitionOffline.String()
	}
	return image.PartitionOnline.String()
}

// knownStates leaves out what is not known, and a state that follows itself.
func knownStates(states ...string) []string {
	return slices.Compact(slices.DeleteFunc(states, func(s string) bool { return s == "" }))
}
