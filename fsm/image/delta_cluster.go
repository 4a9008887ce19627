package image

import (
	"errors"
	"fmt"
	"slices"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func (d *Delta) registerBroker(r *metadatapb.RegisterBroker) error {
	b, err := d.brokerOf(r)
	if err != nil {
		return fmt.Errorf("RegisterBroker %d: %w", r.BrokerId, err)
	}
	old, ok := d.brokers.get(b.ID)
	if ok && (b.Epoch < old.Epoch || b.Epoch == old.Epoch && b.IncarnationID != old.IncarnationID) {
		return fmt.Errorf("RegisterBroker %d: epoch %d of incarnation %v does not follow epoch %d of %v",
			b.ID, b.Epoch, b.IncarnationID, old.Epoch, old.IncarnationID)
	}
	if ok && b.DirectoryID != old.DirectoryID {
		// What the id held before is out of reach for the new directory.
		d.leavePending(b.ID)
	}
	d.setBroker(b)
	return nil
}

// brokerOf converts a record. In the log the registration offset is the record's own offset unless the field says
// otherwise; in a snapshot the field always counts. The same holds for the offset of the controlled shutdown.
func (d *Delta) brokerOf(r *metadatapb.RegisterBroker) (*Broker, error) {
	incarnation, err1 := UUIDFrom(r.IncarnationId)
	directory, err2 := UUIDFrom(r.DirectoryId)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if r.BrokerId < 0 || r.BrokerEpoch < 0 {
		return nil, fmt.Errorf("id and epoch %d must not be below zero", r.BrokerEpoch)
	}
	b := &Broker{
		ID: BrokerID(r.BrokerId), IncarnationID: incarnation, DirectoryID: directory,
		Epoch: BrokerEpoch(r.BrokerEpoch), RegistrationOffset: MetadataOffset(r.RegistrationOffset),
		Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
		ControlledShutdownOffset: NoOffset, StopKind: r.StopKind, PreviousEpoch: NoBrokerEpoch,
		LostReplicas: r.LostReplicas, StateSinceMs: r.StateSinceMs,
	}
	if b.RegistrationOffset == 0 && !d.snapshot {
		b.RegistrationOffset = d.offset
	}
	if r.InControlledShutdown {
		b.ControlledShutdownOffset = d.offset
		if r.ControlledShutdownOffset != nil {
			b.ControlledShutdownOffset = MetadataOffset(*r.ControlledShutdownOffset)
		}
	}
	if r.PreviousBrokerEpoch != nil {
		b.PreviousEpoch = BrokerEpoch(*r.PreviousBrokerEpoch)
	}
	if r.Rack != nil {
		rack := *r.Rack
		b.Rack = &rack
	}
	var err error
	b.Listeners, err = listenersOf(r.Listeners)
	b.Features = featuresOf(r.Features)
	return b, err
}

func listenersOf(list []*metadatapb.Listener) ([]Listener, error) {
	var out []Listener
	for _, l := range list {
		if l.Port > 65535 {
			return nil, fmt.Errorf("listener %s: port %d is above 65535", l.Name, l.Port)
		}
		out = append(out, Listener{l.Name, l.Host, uint16(l.Port)})
	}
	return out, nil
}

func featuresOf(list []*metadatapb.FeatureRange) []FeatureRange {
	var out []FeatureRange
	for _, f := range list {
		out = append(out, FeatureRange{f.Name, f.Min, f.Max})
	}
	return out
}

func (d *Delta) setBroker(b *Broker) {
	if old, ok := d.brokers.get(b.ID); ok {
		d.sum -= hashBroker(old)
	}
	d.brokers.set(d.gen, b.ID, b)
	d.sum += hashBroker(b)
	d.noteBroker(b.ID)
}

// registered returns the registration of that very epoch.
func (d *Delta) registered(id int32, epoch int64) (*Broker, error) {
	b, ok := d.brokers.get(BrokerID(id))
	if !ok {
		return nil, errors.New("the broker is not registered")
	}
	if b.Epoch != BrokerEpoch(epoch) {
		return nil, fmt.Errorf("epoch %d is not the broker's epoch %d", epoch, b.Epoch)
	}
	return b, nil
}

func (d *Delta) changeBroker(r *metadatapb.BrokerRegistrationChange) error {
	old, err := d.registered(r.BrokerId, r.BrokerEpoch)
	if err == nil && r.InControlledShutdown != nil && !*r.InControlledShutdown {
		err = errors.New("only a new incarnation ends a controlled shutdown")
	}
	if err != nil {
		return fmt.Errorf("BrokerRegistrationChange %d: %w", r.BrokerId, err)
	}
	b := *old
	if r.Fenced != nil {
		b.Fenced = *r.Fenced
	}
	if r.InControlledShutdown != nil && !b.InControlledShutdown {
		b.InControlledShutdown = true
		b.ControlledShutdownOffset = d.offset
	}
	if r.StateSinceMs != 0 {
		b.StateSinceMs = r.StateSinceMs
	}
	d.setBroker(&b)
	return nil
}

func (d *Delta) unregisterBroker(r *metadatapb.UnregisterBroker) error {
	b, err := d.registered(r.BrokerId, r.BrokerEpoch)
	if err != nil {
		return fmt.Errorf("UnregisterBroker %d: %w", r.BrokerId, err)
	}
	d.sum -= hashBroker(b)
	d.brokers.delete(d.gen, b.ID)
	d.leavePending(b.ID)
	d.noteBroker(b.ID)
	return nil
}

func (d *Delta) registerController(r *metadatapb.RegisterController) error {
	incarnation, err1 := UUIDFrom(r.IncarnationId)
	directory, err2 := UUIDFrom(r.DirectoryId)
	listeners, err3 := listenersOf(r.Listeners)
	err := errors.Join(err1, err2, err3)
	if err == nil && r.ControllerId < 0 {
		err = errors.New("the id must not be below zero")
	}
	if err == nil && d.removedControllers.has(removedKey{BrokerID(r.ControllerId), directory}) {
		err = fmt.Errorf("directory %v was removed from the quorum", directory)
	}
	if err != nil {
		return fmt.Errorf("RegisterController %d: %w", r.ControllerId, err)
	}
	c := &Controller{
		ID: BrokerID(r.ControllerId), IncarnationID: incarnation, DirectoryID: directory,
		Listeners: listeners, Features: featuresOf(r.Features),
	}
	if old, ok := d.controllers.get(c.ID); ok {
		d.sum -= hashController(old)
	}
	d.controllers.set(d.gen, c.ID, c)
	d.sum += hashController(c)
	return nil
}

// add notes one replica of a broker.
func (p *PendingDeletion) add(id BrokerID) {
	i, found := p.find(id)
	if !found {
		p.Replicas = insertAt(p.Replicas, i, PendingReplica{Broker: id})
	}
	p.Replicas[i].Partitions++
}

func (p *PendingDeletion) find(id BrokerID) (int, bool) {
	return slices.BinarySearchFunc(p.Replicas, id, func(r PendingReplica, id BrokerID) int { return int(r.Broker) - int(id) })
}

// setPending keeps a pending deletion, unless it is over.
func (d *Delta) setPending(p *PendingDeletion) {
	if old, ok := d.pending.get(p.TopicID); ok {
		d.sum -= hashPending(old)
		d.countPending(old, -1)
	}
	if p.isOver() {
		d.pending.delete(d.gen, p.TopicID)
		return
	}
	d.pending.set(d.gen, p.TopicID, p)
	d.sum += hashPending(p)
	d.countPending(p, 1)
}

func (d *Delta) addPending(r *metadatapb.PendingDeletion) error {
	id, err := UUIDFrom(r.TopicId)
	if err == nil && (d.pending.has(id) || d.topicByID.has(id)) {
		err = fmt.Errorf("topic %v is there already", id)
	}
	p := &PendingDeletion{TopicID: id, Name: r.Name, Partitions: max(r.Partitions, 1)}
	for i, pr := range r.Replicas {
		if pr.BrokerId < 0 || i > 0 && pr.BrokerId <= r.Replicas[i-1].BrokerId {
			return fmt.Errorf("PendingDeletion %v: broker %d is out of order", id, pr.BrokerId)
		}
		p.Replicas = append(p.Replicas, PendingReplica{
			Broker: BrokerID(pr.BrokerId), Partitions: max(pr.Partitions, 1), Deleted: pr.Deleted,
			Failure: pr.GetFailure(), FailureSinceMs: pr.FailureSinceMs,
		})
	}
	if err == nil && p.isOver() {
		err = errors.New("no broker is waited for")
	}
	if err != nil {
		return fmt.Errorf("PendingDeletion %q: %w", r.Name, err)
	}
	d.setPending(p)
	return nil
}

// pendingOf returns the pending deletion and the place in it of a broker that is waited for.
func (d *Delta) pendingOf(topic []byte, broker int32) (*PendingDeletion, int, error) {
	id, err := UUIDFrom(topic)
	if err != nil {
		return nil, 0, err
	}
	p, ok := d.pending.get(id)
	if !ok {
		return nil, 0, fmt.Errorf("no deletion of topic %v is pending", id)
	}
	i, ok := p.find(BrokerID(broker))
	if !ok || p.Replicas[i].Deleted {
		return nil, 0, fmt.Errorf("the deletion of topic %v is not pending there", id)
	}
	return p, i, nil
}

func (d *Delta) replicasDeleted(r *metadatapb.ReplicasDeleted) error {
	for _, topic := range r.TopicIds {
		p, i, err := d.pendingOf(topic, r.BrokerId)
		if err != nil {
			return fmt.Errorf("ReplicasDeleted %d: %w", r.BrokerId, err)
		}
		n := *p
		n.Replicas = slices.Clone(p.Replicas)
		n.Replicas[i] = PendingReplica{Broker: BrokerID(r.BrokerId), Partitions: n.Replicas[i].Partitions, Deleted: true}
		d.setPending(&n)
	}
	return nil
}

func (d *Delta) replicaDeletionFailed(r *metadatapb.ReplicaDeletionFailed) error {
	p, i, err := d.pendingOf(r.TopicId, r.BrokerId)
	if err == nil && r.Failure == "" {
		err = errors.New("without a reason")
	}
	if err != nil {
		return fmt.Errorf("ReplicaDeletionFailed %d: %w", r.BrokerId, err)
	}
	n := *p
	n.Replicas = slices.Clone(p.Replicas)
	n.Replicas[i].Failure, n.Replicas[i].FailureSinceMs = r.Failure, r.FailureSinceMs
	d.setPending(&n)
	return nil
}

// leavePending takes a broker off all pending deletions, of which those end that waited for nobody else.
func (d *Delta) leavePending(id BrokerID) {
	var of []*PendingDeletion
	for _, p := range d.pending.all() {
		if _, ok := p.find(id); ok {
			of = append(of, p)
		}
	}
	for _, p := range of {
		i, _ := p.find(id)
		n := *p
		n.Replicas = removeAt(slices.Clone(p.Replicas), i)
		d.setPending(&n)
	}
}
