package main

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicCreate(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "orders", Partitions: orders().GetPartitions()[:2]})
		h.CreateTopics = func(_ context.Context, r *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
			return created(r), nil
		}
	})
	w.golden(t, "topic_create.txt", func(t *testing.T, what string) {
		switch what {
		case "broker 2 late":
			stuck := func(ctx context.Context, _ *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			w.brokers[1].Set(&controllerpb.NodeStatusResponse{NodeId: 2, MetadataOffset: 790})
			w.brokers[1].SetHandlers(func(h *clienttest.Handlers) { h.WaitMetadata = stuck })
		case "broker 2 fenced":
			w.fenced[2] = true
			w.handle(func(h *clienttest.Handlers) {
				h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "orders", Partitions: orders().GetPartitions()[:1]})
			})
		case "answer lost":
			w.handle(func(h *clienttest.Handlers) {
				h.CreateTopics = func(context.Context, *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
					return nil, client.RefusalStatus(9, &controllerpb.RefusalDetail{OutcomeUnknown: true, Error: &controllerpb.Error{
						Code: controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, Message: "leadership was lost while the change was in flight"}}).Err()
				}
			})
		case "no leader":
			w.handle(func(h *clienttest.Handlers) { h.CreateTopics = nil })
			for _, c := range []*clienttest.Controller{w.active, w.standby} {
				c.Set(&controllerpb.NodeStatusResponse{NodeId: 1001, State: "candidate"})
			}
		default:
			t.Fatal(what)
		}
	})
}

// created answers as a controller would: the first refused name is "wide".
func created(r *controllerpb.CreateTopicsRequest) *controllerpb.CreateTopicsResponse {
	resp := &controllerpb.CreateTopicsResponse{MetadataOffset: 812, UnfencedBrokers: []int32{1, 2, 3}}
	for _, topic := range r.GetTopics() {
		result := &controllerpb.CreatableTopicResult{Name: topic.GetName(), TopicId: id16(64), Partitions: max(1, topic.GetPartitions()), ReplicationFactor: max(1, topic.GetReplicationFactor())}
		if n := len(topic.GetAssignments()); n > 0 {
			result.Partitions, result.ReplicationFactor = int32(n), int32(len(topic.GetAssignments()[0].GetBrokerIds()))
		}
		if topic.GetName() == "wide" {
			result = &controllerpb.CreatableTopicResult{Name: "wide", Error: &controllerpb.Error{
				Code:    controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR,
				Message: "replication factor 4 is larger than 3 usable brokers (1, 2, 3); start another broker or use --replication-factor 3",
			}}
		}
		resp.Topics = append(resp.Topics, result)
	}
	if r.GetValidateOnly() {
		resp.Records = []*metadatapb.Record{
			{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "orders", TopicId: id16(64)}}},
			{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: id16(64), Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: proto.Int32(1)}}},
		}
	}
	return resp
}
