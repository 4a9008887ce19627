package controller

import (
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// CreateTopics creates topics, each with its configs and all its partitions, in one atomic decision. Topics that are
// refused do not keep the others from being created.
//
// Refusals of one topic, in this order:
//
//	INVALID_REQUEST               the name stands twice in the request: none of the copies is created, one answer
//	INVALID_REQUEST               the name is __cluster_metadata
//	INVALID_TOPIC_EXCEPTION       empty, ".", "..", over 249 characters, or a character outside [A-Za-z0-9._-]
//	TOPIC_ALREADY_EXISTS          a topic of that name exists, unless it has the topic id of the request: see below
//	INVALID_TOPIC_EXCEPTION       '.' and '_' apart, the name is that of an existing topic or of one earlier in the
//	                              request (KAFKA-2337)
//	INVALID_REQUEST               the topic id is malformed, or belongs to another topic, living or deleted
//	INVALID_CONFIG                a config without value, given twice, unknown, or with a value outside its bounds
//	INVALID_REQUEST               assignments together with a partition count or replication factor
//	INVALID_REPLICA_ASSIGNMENT    assignments that are not 0 to n-1, of one length, each of registered brokers, none twice,
//	                              at least one of them active
//	INVALID_REPLICATION_FACTOR    below 1, other than -1
//	INVALID_PARTITIONS            below 1, other than -1
//	INVALID_REPLICATION_FACTOR    more than the brokers that can be used, or none of them is unfenced
//
// Refusal of the whole request:
//
//	POLICY_VIOLATION              more records or bytes than one batch may have; nothing is created
//
// A count or factor that is absent or -1 is the controller's default (KIP-464). The sender draws the topic id, so that
// the repetition of a request finds its own topic and gets the same answer.
//
// The ISR is the active replicas in replica order and the first of them leads; both epochs begin at 0.
func CreateTopics(v View, req *controllerpb.CreateTopicsRequest) (Decision[*controllerpb.CreateTopicsResponse], error) {
	d := Decision[*controllerpb.CreateTopicsResponse]{Atomic: true}
	if err := checkCreateSize(v, req); err != nil {
		return d, err
	}
	c := creation{
		view: v, copies: make(map[string]int, len(req.GetTopics())), collisions: make(map[string]string),
		ids: make(map[image.TopicID]string), brokers: placeableBrokers(v.Image), electorate: newElectorate(v),
	}
	for _, t := range req.GetTopics() {
		c.copies[t.GetName()]++
	}
	resp := &controllerpb.CreateTopicsResponse{}
	var records []*metadatapb.Record
	for _, t := range req.GetTopics() {
		if c.copies[t.GetName()] < 0 {
			continue // a further copy of a name that was answered
		}
		written, result := c.create(t)
		records = append(records, written...)
		resp.Topics = append(resp.Topics, result)
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*controllerpb.CreateTopicsResponse]{}, err
	}
	resp.MetadataOffset, resp.UnfencedBrokers = int64(v.lastOffset()), unfencedBrokers(v.Image)
	if req.GetValidateOnly() {
		resp.Records = records
	} else {
		d.Records = records
		resp.MetadataOffset += int64(len(records))
	}
	d.Response = resp
	return d, nil
}

// checkCreateSize refuses a request that is too large before any of it is decided.
func checkCreateSize(v View, req *controllerpb.CreateTopicsRequest) error {
	return v.Limits.CheckAtomic(countCreated(v, req), 0)
}

// countCreated is the number of records that a request writes if none of it is refused.
func countCreated(v View, req *controllerpb.CreateTopicsRequest) int {
	records := 0
	for _, t := range req.GetTopics() {
		partitions := int64(len(t.GetAssignments()))
		if partitions == 0 {
			partitions = int64(orDefault(t.Partitions, v.Defaults.Partitions))
		}
		records += 1 + len(t.GetConfigs()) + int(max(partitions, 0))
	}
	return records
}

// orDefault takes Kafka's -1 as absent.
func orDefault(value *int32, otherwise int32) int32 {
	if value == nil || *value == -1 {
		return otherwise
	}
	return *value
}

func sizeOf(records []*metadatapb.Record) int {
	size := 0
	for _, r := range records {
		size += proto.Size(r)
	}
	return size
}

func unfencedBrokers(im *image.Image) []int32 {
	var ids []int32
	for b := range im.Brokers() {
		if !b.Fenced {
			ids = append(ids, int32(b.ID))
		}
	}
	return ids
}

// topicRecords returns the records of a new topic: the topic, its configs, its partitions.
func topicRecords(name string, id image.TopicID, configs []*controllerpb.ConfigEntry, partitions []image.Partition) []*metadatapb.Record {
	idBytes := id.Bytes()
	records := make([]*metadatapb.Record, 0, 1+len(configs)+len(partitions))
	records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: idBytes}}})
	for _, c := range configs {
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
			ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, ResourceName: name, Key: c.GetName(), Value: c.Value,
		}}})
	}
	for i, p := range partitions {
		records = append(records, partitionRecord(idBytes, int32(i), p))
	}
	return records
}

func partitionRecord(topic []byte, number int32, p image.Partition) *metadatapb.Record {
	leader := int32(p.Leader)
	return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
		TopicId: topic, Partition: number, Replicas: image.Int32s(p.Replicas), Isr: image.Int32s(p.ISR), Leader: &leader,
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
	}}}
}
