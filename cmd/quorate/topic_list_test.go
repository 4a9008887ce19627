package main

import (
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicList(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "audit", TopicId: id16(65)}, orders())
	})
	w.golden(t, "topic_list.txt", func(t *testing.T, what string) {
		w.handle(func(h *clienttest.Handlers) { h.DescribeTopics = describing() })
	})
}
