package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// describeReplicasMax bounds the partitions of one DescribeReplicas.
const describeReplicasMax = 1000

// replicaStatus answers ReplicaStatusApi from the logs that are open.
type replicaStatus struct {
	brokerpb.UnimplementedReplicaStatusApiServer
	b *Broker
}

// DescribeReplicas tells what this broker holds of partitions, at once. A partition that it does not have, or has not
// opened yet, or cannot read, has an error. A request for more than 1000 partitions is refused.
func (s replicaStatus) DescribeReplicas(_ context.Context, r *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error) {
	if n := len(r.GetPartitions()); n > describeReplicasMax {
		return nil, refusedRequest("%d partitions are asked for, at most %d are answered at once: ask in parts", n, describeReplicasMax)
	}
	b := s.b
	a := &brokerpb.DescribeReplicasResponse{
		BrokerId: int32(b.cfg.ID), BrokerEpoch: int64(b.epoch()), MetadataOffset: int64(b.applied.image().Offset()),
	}
	for _, p := range r.GetPartitions() {
		topic, err := image.UUIDFrom(p.GetTopicId())
		if err != nil {
			return nil, refusedRequest("topic id: %v", err)
		}
		a.Replicas = append(a.Replicas, b.replicas.describe(image.PartitionID{Topic: topic, Partition: p.GetPartition()}))
	}
	return a, nil
}

func refusedRequest(format string, args ...any) error {
	return client.RefusalStatus(codes.InvalidArgument, &controllerpb.RefusalDetail{
		Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, format, args...),
	}).Err()
}

// describe tells what is held of one partition.
func (rs *replicas) describe(id image.PartitionID) *brokerpb.HeldReplica {
	h := &brokerpb.HeldReplica{TopicId: id.Topic.Bytes(), Partition: id.Partition}
	r, err := rs.get(id)
	switch {
	case errors.Is(err, kerr.KafkaStorageError):
		h.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, "%v", err)
	case err != nil:
		h.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER,
			"broker %v has no log of it open: it is not assigned to this broker, or the broker has not come that far", rs.self)
	default:
		r.describe(h)
	}
	return h
}

// describe fills in role and log. Log bounds are of one moment; the rest may be younger.
func (r *hostedReplica) describe(h *brokerpb.HeldReplica) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	h.Role = brokerpb.ReplicaRole_REPLICA_ROLE_FOLLOWER
	if r.st.Role == partition.RoleLeader {
		h.Role = brokerpb.ReplicaRole_REPLICA_ROLE_LEADER
	}
	h.LeaderEpoch = int32(r.st.LeaderEpoch)
	h.LogStartOffset, h.HighWatermark, h.LogEndOffset = r.log.Offsets()
	if epoch, ok := r.log.LastRecordEpoch(); ok {
		last := int32(epoch)
		h.LastEpoch = &last
	}
	h.SizeBytes = r.log.Size()
	grown := r.log.LastGrown()
	h.IdleMs, h.LastGrownMs = r.deps.now().Sub(grown).Milliseconds(), grown.UnixMilli()
}
