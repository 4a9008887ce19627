package reader

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

var replicaStates = map[image.ReplicaState]controllerpb.ReplicaState{
	image.ReplicaNew:                controllerpb.ReplicaState_REPLICA_STATE_NEW,
	image.ReplicaOnline:             controllerpb.ReplicaState_REPLICA_STATE_ONLINE,
	image.ReplicaOffline:            controllerpb.ReplicaState_REPLICA_STATE_OFFLINE,
	image.ReplicaDeletionStarted:    controllerpb.ReplicaState_REPLICA_STATE_DELETION_STARTED,
	image.ReplicaDeletionSuccessful: controllerpb.ReplicaState_REPLICA_STATE_DELETION_SUCCESSFUL,
	image.ReplicaDeletionIneligible: controllerpb.ReplicaState_REPLICA_STATE_DELETION_INELIGIBLE,
}

// addStates adds the derived states of a partition and its replicas.
func addStates(im *image.Image, p image.Partition, d *controllerpb.PartitionDescription) {
	d.PartitionState = controllerpb.PartitionState_PARTITION_STATE_ONLINE
	if p.State() == image.PartitionOffline {
		d.PartitionState = controllerpb.PartitionState_PARTITION_STATE_OFFLINE
	}
	for _, id := range p.Replicas {
		state, reason := im.ReplicaState(p, id)
		d.ReplicaStates = append(d.ReplicaStates, &controllerpb.ReplicaStatus{BrokerId: int32(id), State: replicaStates[state], Reason: reason})
	}
}

// ListDeletions returns the deleted topics whose data is not gone everywhere, by name and id.
func (s *Server) ListDeletions(ctx context.Context, r *controllerpb.ListDeletionsRequest) (*controllerpb.ListDeletionsResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.ListDeletionsResponse{MetadataOffset: int64(im.Offset())}
	for pending := range im.PendingDeletions() {
		t := &controllerpb.DeletingTopic{Name: pending.Name, TopicId: pending.TopicID.Bytes()}
		for _, replica := range pending.Replicas {
			state, reason := im.DeletionState(replica)
			t.Replicas = append(t.Replicas, &controllerpb.ReplicaStatus{BrokerId: int32(replica.Broker), State: replicaStates[state], Reason: reason})
		}
		response.Topics = append(response.Topics, t)
	}
	slices.SortStableFunc(response.Topics, func(a, b *controllerpb.DeletingTopic) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return response, nil
}
