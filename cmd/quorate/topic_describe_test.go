package main

import (
	"testing"

	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestTopicDescribe(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) { h.DescribeTopics = describing(orders()) })
	w.standby.SetHandlers(func(h *clienttest.Handlers) { h.DescribeTopics = describing() })
	w.golden(t, "topic_describe.txt", nil)
}
