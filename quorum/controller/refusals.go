package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Refusals that several requests share, each in one wording.

func noTopicNamed(name string) *controllerpb.Error {
	return controllerpb.NewError(codeUnknownTopicOrPartition, "no topic has the name %q: `quorate topic list` shows all", name)
}

func noSuchPartition(t image.Topic, partition int32) *controllerpb.Error {
	return controllerpb.NewError(codeUnknownTopicOrPartition, "topic %s has partitions 0 to %d, not %d", t.Name(), t.Len()-1, partition)
}

func notRegistered(id image.BrokerID) *controllerpb.Error {
	return controllerpb.NewError(codeBrokerIDNotRegistered, "broker %v is not registered: `quorate broker list` shows those that are", id)
}

func topicRepeated(name string, times int) *controllerpb.Error {
	return controllerpb.NewError(codeInvalidRequest, "topic %q stands in the request %d times: name it once", name, times)
}

func partitionRepeated() *controllerpb.Error {
	return controllerpb.NewError(codeInvalidRequest, "the partition stands in the request twice: name it once")
}

// noneActive refuses replicas of which none can lead; the code says whether they were assigned by hand.
func noneActive(code controllerpb.ErrorCode, partition int, replicas []image.BrokerID) *controllerpb.Error {
	return controllerpb.NewError(code, "partition %d has the replicas %s, none of them is active: start one of them, or name others",
		partition, image.FormatReplicas(replicas))
}
