package broker

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// controllerStatusMax bounds the question to one controller: one that does not answer is told as unknown.
const controllerStatusMax = time.Second

// DescribeQuorum asks the active controller for the quorum and for what it hears of brokers, and then every other
// controller for itself.
func (ad *admin) DescribeQuorum(ctx context.Context) (kafka.Quorum, error) {
	status, err := ad.reader.NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
	if err != nil {
		return kafka.Quorum{}, err
	}
	brokers, err := ad.reader.ListBrokers(ctx, &controllerpb.ListBrokersRequest{Options: &controllerpb.ReadOptions{Local: true}})
	if err != nil {
		return kafka.Quorum{}, err
	}
	nowMs := ad.now().UnixMilli()
	members := status.GetMembers()
	replicas := make([]kafka.QuorumReplica, len(members))
	var g errgroup.Group
	for i, m := range members {
		replicas[i] = quorumReplica(m.GetNodeId(), m.GetDirectoryId())
		if m.GetNodeId() == status.GetNodeId() {
			replicas[i].MetadataOffset, replicas[i].HeardMs = image.MetadataOffset(status.GetMetadataOffset()), nowMs
			continue
		}
		g.Go(func() error {
			if offset, ok := ad.controllerOffset(ctx, m.GetGrpcAddress()); ok {
				replicas[i].MetadataOffset, replicas[i].HeardMs = offset, nowMs
			}
			return nil
		})
	}
	_ = g.Wait()
	q := kafka.Quorum{
		Leader: image.BrokerID(status.GetNodeId()), ControllerEpoch: image.ControllerEpoch(status.GetActiveController().GetControllerEpoch()),
		MetadataOffset: image.MetadataOffset(status.GetMetadataOffset()),
	}
	for i, m := range members {
		if m.GetVoter() {
			q.Voters = append(q.Voters, replicas[i])
		} else {
			q.Observers = append(q.Observers, replicas[i])
		}
	}
	for _, b := range brokers.GetBrokers() {
		r := quorumReplica(b.GetRegistration().GetBrokerId(), b.GetRegistration().GetDirectoryId())
		if b.GetLastHeartbeatMs() >= 0 {
			r.MetadataOffset, r.HeardMs = image.MetadataOffset(b.GetMetadataOffset()), nowMs-b.GetLastHeartbeatMs()
		}
		q.Observers = append(q.Observers, r)
	}
	return q, nil
}

func quorumReplica(id int32, directory []byte) kafka.QuorumReplica {
	r := kafka.QuorumReplica{ID: image.BrokerID(id), MetadataOffset: image.NoOffset, HeardMs: -1}
	if d, err := image.UUIDFrom(directory); err == nil {
		r.DirectoryID = d
	}
	return r
}

// controllerOffset asks one controller how far it is.
func (ad *admin) controllerOffset(ctx context.Context, address string) (image.MetadataOffset, bool) {
	if address == "" {
		return image.NoOffset, false
	}
	conn, err := ad.connect(address)
	if err != nil {
		return image.NoOffset, false
	}
	ctx, cancel := context.WithTimeout(ctx, controllerStatusMax)
	defer cancel()
	status, err := controllerpb.NewReaderApiClient(conn).NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
	return image.MetadataOffset(status.GetMetadataOffset()), err == nil
}
