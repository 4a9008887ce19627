package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// CreatePartitions adds partitions to topics, in one atomic decision. Existing partitions stay as they are.
//
//	INVALID_REQUEST              the topic stands in the request twice: no copy is carried out, one answer
//	UNKNOWN_TOPIC_OR_PARTITION   no such topic
//	INVALID_PARTITIONS           the count is not above the present one
//	INVALID_REPLICA_ASSIGNMENT   the number of assignments is not the number of new partitions
//	INVALID_REPLICA_ASSIGNMENT   an invalid list, another length than the topic's, or nobody in it active
//	INVALID_REPLICATION_FACTOR   automatic placement finds too few brokers
//	POLICY_VIOLATION             the whole request: more records or bytes than one batch may have
//
// The replication factor is that of partition 0, as it will be when a reassignment of it has ended.
func CreatePartitions(v View, req *controllerpb.CreatePartitionsRequest) (Decision[*controllerpb.CreatePartitionsResponse], error) {
	d := Decision[*controllerpb.CreatePartitionsResponse]{Atomic: true, Response: &controllerpb.CreatePartitionsResponse{}}
	if err := checkGrowth(v, req); err != nil {
		return Decision[*controllerpb.CreatePartitionsResponse]{}, err
	}
	copies := make(map[string]int)
	for _, t := range req.GetTopics() {
		copies[t.GetName()]++
	}
	e, brokers := newElectorate(v), placeableBrokers(v.Image)
	var records []*metadatapb.Record
	for _, t := range req.GetTopics() {
		n := copies[t.GetName()]
		if n < 0 {
			continue
		}
		copies[t.GetName()] = -1
		var added []*metadatapb.Record
		err := topicRepeated(t.GetName(), n)
		if n == 1 {
			added, err = e.grow(v, t, brokers)
		}
		records = append(records, added...)
		d.Response.Topics = append(d.Response.Topics, &controllerpb.CreatePartitionsTopicResult{Name: t.GetName(), Error: err})
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*controllerpb.CreatePartitionsResponse]{}, err
	}
	if req.GetValidateOnly() {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

func checkGrowth(v View, req *controllerpb.CreatePartitionsRequest) error {
	return v.Limits.CheckAtomic(countGrowth(v.Image, req), 0)
}

// countGrowth is the number of partitions that a request adds if none of it is refused, and at least that of its topics.
func countGrowth(im *image.Image, req *controllerpb.CreatePartitionsRequest) int {
	n := 0
	for _, t := range req.GetTopics() {
		if topic, ok := im.TopicByName(t.GetName()); ok {
			n += max(int(t.GetCount())-topic.Len(), 0)
		}
	}
	return max(n, len(req.GetTopics()))
}

func (e *electorate) grow(v View, t *controllerpb.CreatePartitionsTopic, brokers []placeable) ([]*metadatapb.Record, *controllerpb.Error) {
	topic, ok := v.Image.TopicByName(t.GetName())
	if !ok {
		return nil, noTopicNamed(t.GetName())
	}
	if t.GetCount() <= int32(topic.Len()) { // compared, not subtracted: the count may be any number
		return nil, controllerpb.NewError(codeInvalidPartitions, "topic %s has %d partitions, %d are asked for: partitions can only be added, so ask for %d or more",
			topic.Name(), topic.Len(), t.GetCount(), topic.Len()+1)
	}
	added := t.GetCount() - int32(topic.Len())
	if len(t.GetAssignments()) > 0 && len(t.GetAssignments()) != int(added) {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "%d partitions are added and %d are assigned: assign each new partition, and no other", added, len(t.GetAssignments()))
	}
	lists, err := e.placeMore(v, t, topic, added, brokers)
	if err != nil {
		return nil, err
	}
	var records []*metadatapb.Record
	for i, list := range lists {
		p, ok := e.newPartition(list)
		if !ok {
			code := codeInvalidReplicationFactor
			if len(t.GetAssignments()) > 0 {
				code = codeInvalidReplicaAssignment
			}
			return nil, noneActive(code, topic.Len()+i, list)
		}
		records = append(records, partitionRecord(topic.ID().Bytes(), int32(topic.Len()+i), p))
	}
	return records, nil
}

func (e *electorate) placeMore(v View, t *controllerpb.CreatePartitionsTopic, topic image.Topic, added int32, brokers []placeable) ([][]image.BrokerID, *controllerpb.Error) {
	first, _ := topic.Partition(0)
	factor := len(image.Without(first.Replicas, first.RemovingReplicas...))
	if len(t.GetAssignments()) == 0 {
		lists, err := newPlacer(brokers, v.Rand).place(added, factor)
		if err != nil {
			return nil, controllerpb.NewError(codeInvalidReplicationFactor, "%v", err)
		}
		return lists, nil
	}
	assignments := make([]*controllerpb.ReplicaAssignment, len(t.GetAssignments()))
	for i, list := range t.GetAssignments() {
		assignments[i] = &controllerpb.ReplicaAssignment{Partition: int32(topic.Len() + i), BrokerIds: list.GetIds()}
	}
	return checkAssignments(v.Image, assignments, int32(topic.Len()), factor)
}
