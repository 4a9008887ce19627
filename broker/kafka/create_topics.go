package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// metadataTopic is the name of Kafka's own metadata log, which clients cannot create.
const metadataTopic = "__cluster_metadata"

// createTopics forwards creates to the active controller, which judges everything but the following, each on its topic:
//   - a name that occurs twice in the request, or that of the metadata log: INVALID_REQUEST
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// The answer waits until this broker has applied the topics, and for a bounded time until the other live ones have.
// From version 5 on it carries counts and effective configs, each with its source: Java's tools fail without.
func (s *Server) createTopics(r *request) {
	req := r.body.(*kmsg.CreateTopicsRequest)
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		r.reply(s.createTopicsVia(ctx, r, req))
	})
}

func (s *Server) createTopicsVia(ctx context.Context, r *request, req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	count := map[string]int{}
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	ask := &controllerpb.CreateTopicsRequest{ValidateOnly: req.ValidateOnly, RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for i := range req.Topics {
		if t := &req.Topics[i]; count[t.Topic] == 1 && t.Topic != metadataTopic {
			ask.Topics = append(ask.Topics, creatable(t))
		}
	}
	answer := &controllerpb.CreateTopicsResponse{MetadataOffset: int64(image.NoOffset)}
	var failure error
	if len(ask.Topics) > 0 {
		var err error
		if answer, err = s.backend.Admin.CreateTopics(ctx, r.caller, ask); err != nil {
			failure = forwardError(err)
		}
	}
	made := map[string]*controllerpb.CreatableTopicResult{}
	done := false
	for _, t := range answer.GetTopics() {
		made[t.GetName()] = t
		done = done || t.GetError().GetCode() == 0
	}
	var unseen error
	if failure == nil && done && !req.ValidateOnly {
		unseen = s.settle(ctx, answer.GetMetadataOffset(), answer.GetUnfencedBrokers())
	}
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.CreateTopicsResponse](r)
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		if count[t.Topic] == 0 {
			continue // answered at its first occurrence
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = t.Topic
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		err := failure
		switch {
		case count[t.Topic] > 1:
			err = refused(kerr.InvalidRequest.Code, "the request names the topic twice: name it once")
			count[t.Topic] = 0
		case t.Topic == metadataTopic:
			err = refused(kerr.InvalidRequest.Code, "the name of the metadata log is reserved: choose another one")
		case err == nil:
			err = s.created(&out, made[t.Topic], im)
		}
		if err == nil {
			err = unseen
		}
		out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// creatable is the controller's form of one topic. Kafka's -1 is an absent field.
func creatable(t *kmsg.CreateTopicsRequestTopic) *controllerpb.CreatableTopic {
	id := newTopicID()
	out := &controllerpb.CreatableTopic{Name: t.Topic, TopicId: id[:]}
	if t.NumPartitions != -1 {
		out.Partitions = &t.NumPartitions
	}
	if t.ReplicationFactor != -1 {
		rf := int32(t.ReplicationFactor)
		out.ReplicationFactor = &rf
	}
	for _, a := range t.ReplicaAssignment {
		out.Assignments = append(out.Assignments, &controllerpb.ReplicaAssignment{Partition: a.Partition, BrokerIds: a.Replicas})
	}
	for _, c := range t.Configs {
		out.Configs = append(out.Configs, &controllerpb.ConfigEntry{Name: c.Name, Value: c.Value})
	}
	return out
}

// created fills in what the controller has answered for one topic.
func (s *Server) created(out *kmsg.CreateTopicsResponseTopic, res *controllerpb.CreatableTopicResult, im *image.Image) error {
	if res == nil {
		return forwardError(errors.New("the controller did not answer for this topic"))
	}
	if err := itemError(res.GetError()); err != nil {
		return err
	}
	copy(out.TopicID[:], res.GetTopicId())
	out.NumPartitions = res.GetPartitions()
	out.ReplicationFactor = int16(res.GetReplicationFactor())
	own := map[string]string{}
	for _, c := range res.GetConfigs() {
		if c.Value != nil {
			own[c.GetName()] = c.GetValue()
		}
	}
	for _, v := range s.topicConfigs(im, own) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source, c.IsSensitive = v.def.name, v.shown(), int8(v.source()), v.def.sensitive
		out.Configs = append(out.Configs, c)
	}
	return nil
}
