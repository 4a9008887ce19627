package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// DeleteTopics removes topics with everything keyed by them: partitions, configs, reassignments, index entries. Their
// names are free at once. What brokers still hold of them is a pending deletion, which the replay of the record makes.
// Nothing blocks a deletion: neither dead replicas nor a reassignment.
//
// Refusals of one topic, in this order:
//
//	INVALID_REQUEST             neither a name nor an id, or both
//	INVALID_REQUEST             the topic stands in the request twice, by name, by id, or once by each: no copy is deleted
//	UNKNOWN_TOPIC_OR_PARTITION  no topic has the name
//	UNKNOWN_TOPIC_ID            no topic has the id (or has it no longer)
//
// Refusal of the whole request:
//
//	POLICY_VIOLATION            more records or bytes than one batch may have; nothing is deleted
func DeleteTopics(v View, req *controllerpb.DeleteTopicsRequest) (Decision[*controllerpb.DeleteTopicsResponse], error) {
	d := Decision[*controllerpb.DeleteTopicsResponse]{Atomic: true}
	if err := v.Limits.CheckAtomic(len(req.GetTopics()), 0); err != nil {
		return d, err
	}
	resp := &controllerpb.DeleteTopicsResponse{UnfencedBrokers: unfencedBrokers(v.Image)}
	copies := countDeletions(v.Image, req.GetTopics())
	var records []*metadatapb.Record
	for _, t := range req.GetTopics() {
		topic, err := findDeletable(v.Image, t)
		if err == nil && copies[topic.ID()] > 1 {
			err = topicRepeated(topic.Name(), copies[topic.ID()])
		}
		result := &controllerpb.DeletableTopicResult{Name: t.Name, TopicId: t.GetTopicId(), Error: err}
		if err == nil {
			name := topic.Name()
			result.Name, result.TopicId = &name, topic.ID().Bytes()
			records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topic.ID().Bytes()}}})
		}
		resp.Topics = append(resp.Topics, result)
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*controllerpb.DeleteTopicsResponse]{}, err
	}
	resp.MetadataOffset = int64(v.lastOffset())
	if req.GetValidateOnly() {
		resp.Records = records
	} else {
		d.Records = records
		resp.MetadataOffset += int64(len(records))
	}
	d.Response = resp
	return d, nil
}

func findDeletable(im *image.Image, t *controllerpb.DeletableTopic) (image.Topic, *controllerpb.Error) {
	var none image.Topic
	switch {
	case t.Name == nil && len(t.GetTopicId()) == 0:
		return none, controllerpb.NewError(codeInvalidRequest, "neither a topic name nor a topic id is given: give one")
	case t.Name != nil && len(t.GetTopicId()) != 0:
		return none, controllerpb.NewError(codeInvalidRequest, "both a topic name and a topic id are given: leave one out")
	case t.Name != nil:
		if topic, ok := im.TopicByName(t.GetName()); ok {
			return topic, nil
		}
		return none, noTopicNamed(t.GetName())
	}
	id, err := image.UUIDFrom(t.GetTopicId())
	if err != nil {
		return none, controllerpb.NewError(codeUnknownTopicID, "%v", err)
	}
	if topic, ok := im.TopicByID(id); ok {
		return topic, nil
	}
	return none, controllerpb.NewError(codeUnknownTopicID, "no topic has the id %v: `quorate topic list` shows all", id)
}

func countDeletions(im *image.Image, topics []*controllerpb.DeletableTopic) map[image.TopicID]int {
	copies := make(map[image.TopicID]int, len(topics))
	for _, t := range topics {
		if topic, err := findDeletable(im, t); err == nil {
			copies[topic.ID()]++
		}
	}
	return copies
}
