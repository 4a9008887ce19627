package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// lifecycleInputs ties the lifecycle to the rest.
func (b *Broker) lifecycleInputs() lifecycleInputs {
	return lifecycleInputs{
		calls:        b,
		registration: b.registration,
		position:     b.position,
		registered:   b.registered,
		isForgotten:  b.isForgotten,
		answered:     b.answered,
		entered:      b.entered,
	}
}

// RegisterBroker implements controllerCalls.
func (b *Broker) RegisterBroker(ctx context.Context, r *controllerpb.RegisterBrokerRequest) (*controllerpb.RegisterBrokerResponse, error) {
	return b.grpc.broker.RegisterBroker(ctx, r)
}

// BrokerHeartbeat implements controllerCalls.
func (b *Broker) BrokerHeartbeat(ctx context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
	return b.grpc.broker.BrokerHeartbeat(ctx, r)
}

// registration judges by the newest image which logs are gone: those that are not on disk, but for those that were never
// used. Each attempt judges anew: the controller refuses a judgement that is older than the broker's own last change. No log has
// been made or deleted by this life, which registers at its start only.
func (b *Broker) registration() (*controllerpb.RegisterBrokerRequest, error) {
	im := b.newest.image()
	b.judgedIn.Store(int32(im.Lineage().Number))
	return b.registrationBy(im, func(id image.PartitionID) bool {
		_, ok := b.onDisk[id]
		return ok || b.used.neverUsed(im.Lineage().Number, id)
	}), nil
}

// isForgotten tells that the metadata is of a lineage that began after this broker registered, and does not hold the
// registration. Within one lineage a registration goes only on purpose.
func (b *Broker) isForgotten(epoch image.BrokerEpoch) bool {
	im := b.newest.image()
	if int32(im.Lineage().Number) <= b.registeredIn.Load() {
		return false
	}
	r, ok := im.Broker(b.cfg.ID)
	return !ok || r.IncarnationID != b.incarnation || r.Epoch != epoch
}

// liveLogs are the logs of a directory that are in use, with a topic id.
func liveLogs(list []log.OnDisk) map[image.PartitionID]struct{} {
	out := make(map[image.PartitionID]struct{}, len(list))
	for _, d := range list {
		if d.State == log.DirLive && !d.TopicID.IsZero() {
			out[idOf(d)] = struct{}{}
		}
	}
	return out
}

// registrationBy names as lost what the image relies on and is not whole.
func (b *Broker) registrationBy(im *image.Image, isWhole func(image.PartitionID) bool) *controllerpb.RegisterBrokerRequest {
	r := &controllerpb.RegisterBrokerRequest{
		ClusterId: b.cfg.ClusterID, BrokerId: int32(b.cfg.ID),
		IncarnationId: b.incarnation.Bytes(), DirectoryId: b.cfg.DirectoryID.Bytes(),
		Rack: b.cfg.Rack, Features: image.DeclaredFeatures(), StopKind: b.stopped.Kind,
		JudgedOffset: int64(im.Offset()), Lineage: int32(im.Lineage().Number),
		LostReplicas: lostReplicas(im, b.cfg.ID, isWhole),
	}
	for _, l := range b.cfg.Listeners {
		r.Listeners = append(r.Listeners, &metadatapb.Listener{Name: l.Name, Host: l.Host, Port: uint32(l.Port)})
	}
	if e := b.stopped.PreviousBrokerEpoch; e != image.NoBrokerEpoch {
		epoch := int64(e)
		r.PreviousBrokerEpoch = &epoch
	}
	return r
}

// present is the image that the broker stands for: what was acted on, and before there is anything to act with, what was
// followed.
func (b *Broker) present() *image.Image {
	if b.serving.Load() {
		return b.applied.image()
	}
	return b.newest.image()
}

// position is what heartbeats carry.
func (b *Broker) position() image.Position { return b.present().Position() }

// registered notes that a controller knows how the former life ended, and the epoch of this one.
func (b *Broker) registered(epoch image.BrokerEpoch, _ image.MetadataOffset) error {
	b.metrics.epoch.Set(float64(epoch))
	b.registeredIn.Store(b.judgedIn.Load())
	if b.reported == epoch {
		return nil
	}
	b.env.At("broker.registered.before-stop-reported")
	if err := b.logs.StopReported(epoch); err != nil {
		b.fail("note the registration", err)
		return err
	}
	b.reported = epoch
	return nil
}

// answered hands on what a heartbeat's answer tells of the quorum.
func (b *Broker) answered(a *controllerpb.BrokerHeartbeatResponse) {
	b.follower.heard.note(image.LineageNumber(a.Lineage), image.MetadataOffset(a.CommittedOffset), a.ActiveController)
	fenced := 0.0
	if a.IsFenced {
		fenced = 1
	}
	b.metrics.fenced.Set(fenced)
}

// entered acts on a new state.
func (b *Broker) entered(s State) {
	b.metrics.state.Set(float64(s))
	switch s {
	case StateRecovery:
		b.recovery.fire()
	case StatePendingControlledShutdown, StateShuttingDown:
		b.replicas.stopping.Store(true)
	}
	b.server.setReady(s == StateRunning)
}

// callTimeout bounds a call of the broker to the controller that has no deadline of its own.
const callTimeout = 5 * time.Second

func (b *Broker) allocateProducerIDs(ctx context.Context) (idBlock, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := b.grpc.broker.AllocateProducerIds(ctx, &controllerpb.AllocateProducerIdsRequest{
		BrokerId: int32(b.cfg.ID), BrokerEpoch: int64(b.epoch()),
	})
	if err != nil {
		return idBlock{}, err
	}
	return idBlock{first: a.FirstProducerId, end: a.FirstProducerId + int64(a.Count)}, nil
}

func (b *Broker) reportDeletions(ctx context.Context, r *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error) {
	return b.grpc.broker.ReportDeletions(ctx, r)
}
