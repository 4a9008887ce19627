package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// createPartitions forwards additions to the active controller, which judges everything but the following, each on its
// topic:
//   - a name that occurs twice in the request: INVALID_REQUEST
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// The count is the new total; assignments, if any, are those of the new partitions. The answer waits as that of
// createTopics does.
func (s *Server) createPartitions(r *request) {
	req := r.body.(*kmsg.CreatePartitionsRequest)
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		r.reply(s.createPartitionsVia(ctx, r, req))
	})
}

func (s *Server) createPartitionsVia(ctx context.Context, r *request, req *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	count := map[string]int{}
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	ask := &controllerpb.CreatePartitionsRequest{ValidateOnly: req.ValidateOnly, RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for i := range req.Topics {
		if t := &req.Topics[i]; count[t.Topic] == 1 {
			ask.Topics = append(ask.Topics, growable(t))
		}
	}
	results := map[string]*controllerpb.CreatePartitionsTopicResult{}
	var failure error
	if len(ask.Topics) > 0 {
		answer, err := s.backend.Admin.CreatePartitions(ctx, r.caller, ask)
		for _, t := range answer.GetTopics() {
			results[t.GetName()] = t
		}
		failure = s.outcome(ctx, answer, err, req.ValidateOnly, anyDone(answer.GetTopics()))
	}
	resp := response[*kmsg.CreatePartitionsResponse](r)
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		if count[t.Topic] == 0 {
			continue // answered at its first occurrence
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		var err error
		switch res := results[t.Topic]; {
		case count[t.Topic] > 1:
			err = refused(kerr.InvalidRequest.Code, "the request names the topic twice: name it once")
			count[t.Topic] = 0
		case res.GetError() != nil:
			err = itemError(res.GetError())
		case failure != nil:
			err = failure
		case res == nil:
			err = forwardError(errNoAnswer)
		}
		out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func growable(t *kmsg.CreatePartitionsRequestTopic) *controllerpb.CreatePartitionsTopic {
	out := &controllerpb.CreatePartitionsTopic{Name: t.Topic, Count: t.Count}
	for _, a := range t.Assignment {
		out.Assignments = append(out.Assignments, &metadatapb.BrokerIds{Ids: a.Replicas})
	}
	return out
}

// errNoAnswer says that the controller has left an item out.
var errNoAnswer = errors.New("the controller did not answer for this item")
