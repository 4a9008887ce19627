package main

import (
	"context"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicList(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "audit", TopicId: id16(65)}, orders())
	})
	w.handle(func(h *clienttest.Handlers) {
		h.ListDeletions = func(context.Context, *controllerpb.ListDeletionsRequest) (*controllerpb.ListDeletionsResponse, error) {
			return &controllerpb.ListDeletionsResponse{MetadataOffset: 20, Topics: []*controllerpb.DeletingTopic{{Name: "old", TopicId: id16(66), Replicas: []*controllerpb.ReplicaStatus{
				{BrokerId: 1, State: controllerpb.ReplicaState_REPLICA_STATE_DELETION_STARTED},
				{BrokerId: 2, State: controllerpb.ReplicaState_REPLICA_STATE_DELETION_SUCCESSFUL},
				{BrokerId: 3, State: controllerpb.ReplicaState_REPLICA_STATE_DELETION_INELIGIBLE, Reason: "is fenced"},
			}}}}, nil
		}
	})
	w.golden(t, "topic_list.txt", func(t *testing.T, what string) {
		w.handle(func(h *clienttest.Handlers) { h.DescribeTopics = describing() })
	})
}
