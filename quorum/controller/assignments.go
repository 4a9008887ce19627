package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// checkAssignments reads a manual assignment of the partitions from first on. All lists must be as long as factor, or,
// if that is 0, as the first of them. Everything wrong is INVALID_REPLICA_ASSIGNMENT, in this order for each list: a
// partition twice; an invalid list (see checkReplicas); another length. At the end: a gap in the numbers.
func checkAssignments(im *image.Image, assignments []*controllerpb.ReplicaAssignment, first int32, factor int) ([][]image.BrokerID, *controllerpb.Error) {
	lists := make([][]image.BrokerID, len(assignments))
	for _, a := range assignments {
		at := int64(a.GetPartition()) - int64(first)
		inRange := at >= 0 && at < int64(len(lists))
		if inRange && lists[at] != nil {
			return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "partition %d is assigned twice: assign it once", a.GetPartition())
		}
		list, err := checkReplicas(im, a.GetPartition(), a.GetBrokerIds())
		if err != nil {
			return nil, err
		}
		if factor == 0 {
			factor = len(list)
		}
		if len(list) != factor {
			return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "partition %d has %d replicas, others have %d: give all the same number", a.GetPartition(), len(list), factor)
		}
		if !inRange {
			return nil, controllerpb.NewError(codeInvalidReplicaAssignment,
				"partition %d is assigned, the numbers must be %d to %d without a gap", a.GetPartition(), first, int64(first)+int64(len(lists))-1)
		}
		lists[at] = list
	}
	return lists, nil
}

// checkReplicas refuses a list that is empty, names a broker that is not registered, or names one twice.
// A fenced broker may be named.
func checkReplicas(im *image.Image, partition int32, brokers []int32) ([]image.BrokerID, *controllerpb.Error) {
	if len(brokers) == 0 {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "partition %d has no replicas: name at least one broker", partition)
	}
	list := image.BrokerIDs(brokers)
	for i, id := range list {
		if _, ok := im.Broker(id); !ok {
			return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "partition %d names broker %v, which is not registered: name registered brokers; `quorate broker list` shows them", partition, id)
		}
		if image.Contains(list[:i], id) {
			return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "partition %d names broker %v twice: name it once", partition, id)
		}
	}
	return list, nil
}
