package main

import (
	"testing"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicDescribe(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = func(r *controllerpb.DescribeTopicsRequest, s grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error {
			topic := orders()
			if r.GetStates() {
				topic = withStates(topic)
			}
			return describing(topic)(r, s)
		}
	})
	w.standby.SetHandlers(func(h *clienttest.Handlers) { h.DescribeTopics = describing() })
	w.golden(t, "topic_describe.txt", nil)
}

// withStates adds the derived states: broker 3 is fenced.
func withStates(d *controllerpb.TopicDescription) *controllerpb.TopicDescription {
	for _, p := range d.GetPartitions() {
		p.PartitionState = controllerpb.PartitionState_PARTITION_STATE_ONLINE
		if p.GetState().Leader == nil {
			p.PartitionState = controllerpb.PartitionState_PARTITION_STATE_OFFLINE
		}
		p.ReplicaStates = []*controllerpb.ReplicaStatus{
			{BrokerId: 1, State: controllerpb.ReplicaState_REPLICA_STATE_ONLINE}, {BrokerId: 2, State: controllerpb.ReplicaState_REPLICA_STATE_NEW},
			{BrokerId: 3, State: controllerpb.ReplicaState_REPLICA_STATE_OFFLINE, Reason: "is fenced"},
		}
	}
	return d
}
