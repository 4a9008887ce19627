package history

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// world is an image of no more than one topic and all brokers: enough for the states of its partitions and replicas.
type world struct {
	topic image.TopicID
	im    *image.Image
	// deleted are the partition's replicas when its topic was deleted.
	deleted []image.BrokerID
}

// namesBroker tells whether an entry has a record about a broker's registration.
func namesBroker(e *fsm.Entry) bool {
	raw, err := record.ScanEntry(e.Bytes)
	if err != nil {
		return false // it was read before
	}
	for _, b := range raw.Records() {
		if kind, _, n := protowire.ConsumeTag(b); n > 0 && kind <= 3 { // RegisterBroker, BrokerRegistrationChange, UnregisterBroker
			return true
		}
	}
	return false
}

// replay returns what a record means for the states of one partition and its replicas.
func (w *world) replay(offset image.MetadataOffset, r *metadatapb.Record, partition int32) (image.Crossing, error) {
	if r = w.narrow(r); r == nil {
		return image.Crossing{}, nil
	}
	id := image.PartitionID{Topic: w.topic, Partition: partition}
	before := w.im
	if r.GetRemoveTopic() != nil {
		p, _ := before.Partition(id)
		w.deleted = append([]image.BrokerID{}, p.Replicas...)
	}
	d := before.Fork()
	if err := d.Replay(offset, r); err != nil {
		return image.Crossing{}, err
	}
	w.im = d.Seal(offset, 0)
	return image.Crossed(before, w.im, id, w.deleted), nil
}

// narrow is nil for a record that is not about this world.
func (w *world) narrow(r *metadatapb.Record) *metadatapb.Record {
	about := func(id []byte) *metadatapb.Record {
		if bytes.Equal(id, w.topic[:]) {
			return r
		}
		return nil
	}
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_RegisterBroker, *metadatapb.Record_BrokerRegistrationChange, *metadatapb.Record_UnregisterBroker:
		return r
	case *metadatapb.Record_Topic:
		return about(k.Topic.GetTopicId())
	case *metadatapb.Record_Partition:
		return about(k.Partition.GetTopicId())
	case *metadatapb.Record_PartitionChange:
		return about(k.PartitionChange.GetTopicId())
	case *metadatapb.Record_RemoveTopic:
		return about(k.RemoveTopic.GetTopicId())
	case *metadatapb.Record_ReplicaDeletionFailed:
		return about(k.ReplicaDeletionFailed.GetTopicId())
	case *metadatapb.Record_ReplicasDeleted:
		for _, id := range k.ReplicasDeleted.GetTopicIds() {
			if bytes.Equal(id, w.topic[:]) {
				return &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
					BrokerId: k.ReplicasDeleted.GetBrokerId(), TopicIds: [][]byte{id},
				}}}
			}
		}
	}
	return nil
}

// cross adds to an event the states that the record crosses. A record that changes a replica's state and not the partition
// makes an event of its own.
func (t *Tracker) cross(offset image.MetadataOffset, r *metadatapb.Record, event *controllerpb.PartitionEvent) *controllerpb.PartitionEvent {
	if t.world == nil {
		return event
	}
	crossing, err := t.world.replay(offset, r, t.partition)
	if err != nil {
		t.world = nil // what it rests on is not known after all
		return event
	}
	if event == nil {
		if len(crossing.Replicas) == 0 && len(crossing.Partition) == 0 {
			return nil
		}
		event = &controllerpb.PartitionEvent{
			Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_STATE, Reason: r.GetBrokerRegistrationChange().GetReason(),
		}
	}
	event.States = nil
	for _, s := range crossing.Partition {
		event.States = append(event.States, s.String())
	}
	for _, c := range crossing.Replicas {
		way := &controllerpb.ReplicaTransition{BrokerId: int32(c.Broker), Reason: c.Reason}
		for _, s := range c.States {
			way.States = append(way.States, s.String())
		}
		event.ReplicaStates = append(event.ReplicaStates, way)
	}
	return event
}
