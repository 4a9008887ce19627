package image

import (
	"iter"

	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Records returns the image as records in canonical order: features, lineage, brokers, controllers, removed controllers,
// topics by name each with its partitions, configs, producer ids, pending deletions. Replayed into [Load] they give an equal image.
// Each record is new and belongs to the receiver.
func (im *Image) Records() iter.Seq[*metadatapb.Record] {
	return func(yield func(*metadatapb.Record) bool) {
		_ = im.clusterRecords(yield) && im.topicRecords(yield) && im.otherRecords(yield)
	}
}

func (im *Image) clusterRecords(yield func(*metadatapb.Record) bool) bool {
	for name, level := range im.features.all() {
		r := &metadatapb.FeatureLevel{Name: name, Level: level}
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: r}}) {
			return false
		}
	}
	for _, r := range im.lineage.records() {
		if !yield(r) {
			return false
		}
	}
	for _, b := range im.brokers.all() {
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: b.Record()}}) {
			return false
		}
	}
	for _, c := range im.controllers.all() {
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_RegisterController{RegisterController: c.Record()}}) {
			return false
		}
	}
	for _, c := range im.removedControllers.all() {
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_RemovedController{RemovedController: c.Record()}}) {
			return false
		}
	}
	return true
}

func (im *Image) topicRecords(yield func(*metadatapb.Record) bool) bool {
	for t := range im.Topics() {
		r := &metadatapb.Topic{Name: t.Name(), TopicId: t.entry.id.Bytes()}
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: r}}) {
			return false
		}
		for i, p := range t.Partitions() {
			r := p.Record(PartitionID{t.entry.id, i})
			if !yield(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: r}}) {
				return false
			}
		}
	}
	return true
}

func (im *Image) otherRecords(yield func(*metadatapb.Record) bool) bool {
	for k, v := range im.configs.all() {
		r := &metadatapb.Config{ResourceType: k.resourceType, ResourceName: k.resource, Key: k.key, Value: &v}
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_Config{Config: r}}) {
			return false
		}
	}
	if im.nextProducerID > 0 {
		r := &metadatapb.ProducerIds{BrokerId: int32(NoBroker), BrokerEpoch: int64(NoBrokerEpoch), NextProducerId: im.nextProducerID}
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_ProducerIds{ProducerIds: r}}) {
			return false
		}
	}
	for _, p := range im.pending.all() {
		if !yield(&metadatapb.Record{Kind: &metadatapb.Record_PendingDeletion{PendingDeletion: p.Record()}}) {
			return false
		}
	}
	return true
}

// EncodedRecords returns the bytes of [Image.Records]. Each slice is valid until the next one.
func (im *Image) EncodedRecords() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buf []byte
		encoded := func(r *metadatapb.Record) bool {
			var err error
			if buf, err = record.Append(buf[:0], r); err != nil {
				panic("image: encode own record: " + err.Error()) // the image holds nothing but what was decoded
			}
			return yield(buf)
		}
		_ = im.clusterRecords(encoded) && im.encodedTopics(encoded, yield) && im.otherRecords(encoded)
	}
}

func (im *Image) encodedTopics(encoded func(*metadatapb.Record) bool, yield func([]byte) bool) bool {
	var buf []byte
	var p Partition
	var room [unpackRoom]BrokerID
	m := new(metadatapb.Partition)
	var leader int32
	for t := range im.Topics() {
		r := &metadatapb.Topic{Name: t.Name(), TopicId: t.entry.id.Bytes()}
		if !encoded(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: r}}) {
			return false
		}
		m.TopicId = t.entry.id[:]
		for i := range t.entry.count {
			ordinal, _ := t.entry.partitionOrdinal(i)
			im.load(ordinal, &p, room[:])
			m.Partition, m.Leader = i, nil
			if p.Leader != NoBroker {
				leader = int32(p.Leader)
				m.Leader = &leader
			}
			m.LeaderEpoch, m.PartitionEpoch = int32(p.LeaderEpoch), int32(p.PartitionEpoch)
			m.LeaderRecoveryState = p.recoveryState()
			p.fill(m)
			buf = record.AppendPartition(buf[:0], m)
			if !yield(buf) {
				return false
			}
		}
	}
	return true
}

// fill writes the lists into those of m.
func (p *Partition) fill(m *metadatapb.Partition) {
	for _, l := range [...]struct {
		to   *[]int32
		from []BrokerID
	}{
		{&m.Replicas, p.Replicas}, {&m.Isr, p.ISR}, {&m.Elr, p.ELR}, {&m.LastKnownElr, p.LastKnownELR},
		{&m.AddingReplicas, p.AddingReplicas}, {&m.RemovingReplicas, p.RemovingReplicas},
		{&m.OriginalReplicas, p.OriginalReplicas},
	} {
		*l.to = (*l.to)[:0]
		for _, id := range l.from {
			*l.to = append(*l.to, int32(id))
		}
	}
}

// RecordCount returns the number of records that [Image.Records] gives.
func (im *Image) RecordCount() int {
	n := im.features.n + im.brokers.n + im.controllers.n + im.removedControllers.n + im.TopicCount() + im.partitionCount + im.configs.n + im.pending.n
	n += len(im.lineage.records())
	if im.nextProducerID > 0 {
		n++
	}
	return n
}

// Record returns the registration as a record that restores it whole.
func (b *Broker) Record() *metadatapb.RegisterBroker {
	r := &metadatapb.RegisterBroker{
		BrokerId: int32(b.ID), IncarnationId: b.IncarnationID.Bytes(), BrokerEpoch: int64(b.Epoch),
		DirectoryId: b.DirectoryID.Bytes(), Listeners: listenerRecords(b.Listeners), Features: featureRecords(b.Features),
		Fenced: b.Fenced, InControlledShutdown: b.InControlledShutdown, StopKind: b.StopKind,
		LostReplicas: b.LostReplicas, RegistrationOffset: int64(b.RegistrationOffset), StateSinceMs: b.StateSinceMs,
	}
	if b.Rack != nil {
		rack := *b.Rack
		r.Rack = &rack
	}
	if b.PreviousEpoch != NoBrokerEpoch {
		epoch := int64(b.PreviousEpoch)
		r.PreviousBrokerEpoch = &epoch
	}
	if b.ControlledShutdownOffset != NoOffset {
		offset := int64(b.ControlledShutdownOffset)
		r.ControlledShutdownOffset = &offset
	}
	return r
}

// Record returns the record that restores the controller.
func (c *Controller) Record() *metadatapb.RegisterController {
	return &metadatapb.RegisterController{
		ControllerId: int32(c.ID), IncarnationId: c.IncarnationID.Bytes(), DirectoryId: c.DirectoryID.Bytes(),
		Listeners: listenerRecords(c.Listeners), Features: featureRecords(c.Features),
	}
}

// Record returns the record that restores the pending deletion.
func (p *PendingDeletion) Record() *metadatapb.PendingDeletion {
	r := &metadatapb.PendingDeletion{TopicId: p.TopicID.Bytes(), Name: p.Name, Partitions: p.Partitions}
	for _, pr := range p.Replicas {
		e := &metadatapb.PendingReplica{BrokerId: int32(pr.Broker), FailureSinceMs: pr.FailureSinceMs, Deleted: pr.Deleted, Partitions: pr.Partitions}
		if pr.Failure != "" {
			failure := pr.Failure
			e.Failure = &failure
		}
		r.Replicas = append(r.Replicas, e)
	}
	return r
}

// Record returns the record that restores the partition.
func (p *Partition) Record(id PartitionID) *metadatapb.Partition {
	r := &metadatapb.Partition{
		TopicId: id.Topic.Bytes(), Partition: id.Partition, Replicas: Int32s(p.Replicas), Isr: Int32s(p.ISR),
		LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
		LeaderRecoveryState: p.recoveryState(), Elr: Int32s(p.ELR), LastKnownElr: Int32s(p.LastKnownELR),
		AddingReplicas: Int32s(p.AddingReplicas), RemovingReplicas: Int32s(p.RemovingReplicas),
		OriginalReplicas: Int32s(p.OriginalReplicas),
	}
	if p.Leader != NoBroker {
		leader := int32(p.Leader)
		r.Leader = &leader
	}
	return r
}

func (p *Partition) recoveryState() metadatapb.LeaderRecoveryState {
	if p.Recovering {
		return metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	}
	return metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
}

func listenerRecords(list []Listener) []*metadatapb.Listener {
	var out []*metadatapb.Listener
	for _, l := range list {
		out = append(out, &metadatapb.Listener{Name: l.Name, Host: l.Host, Port: uint32(l.Port)})
	}
	return out
}

func featureRecords(list []FeatureRange) []*metadatapb.FeatureRange {
	var out []*metadatapb.FeatureRange
	for _, f := range list {
		out = append(out, &metadatapb.FeatureRange{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	return out
}
