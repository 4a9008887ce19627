package main

import (
	"context"
	"fmt"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicDelete(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DeleteTopics = func(_ context.Context, r *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
			resp := &controllerpb.DeleteTopicsResponse{MetadataOffset: 20, UnfencedBrokers: []int32{1, 2, 3}}
			for _, topic := range r.GetTopics() {
				name := topic.GetName()
				if topic.Name == nil {
					name = "orders"
				}
				result := &controllerpb.DeletableTopicResult{Name: &name, TopicId: id16(64)}
				if name == "gone" {
					result.Error = &controllerpb.Error{Code: controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, Message: "topic gone does not exist"}
				}
				resp.Topics = append(resp.Topics, result)
			}
			if r.GetValidateOnly() {
				resp.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: id16(64)}}}}
			}
			return resp, nil
		}
	})
	w.golden(t, "topic_delete.txt", func(t *testing.T, what string) {
		if what != "broker 3 holds data" {
			t.Fatal(what)
		}
		w.brokers[2].Set(&controllerpb.NodeStatusResponse{NodeId: 3, MetadataOffset: 20})
		w.brokers[2].SetHandlers(func(h *clienttest.Handlers) {
			h.WaitMetadata = func(ctx context.Context, r *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
				if len(r.GetDeletedTopics()) == 0 {
					return &controllerpb.WaitMetadataResponse{MetadataOffset: 20}, nil
				}
				<-ctx.Done()
				return nil, fmt.Errorf("still there")
			}
		})
	})
}
