package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Election types of KIP-460.
const (
	preferredElection = 0
	uncleanElection   = 1
)

// electLeaders forwards elections to the active controller, which judges each partition. Refusals of the whole request,
// told at the top from version 1 on and on each partition:
//   - an election type other than preferred (0) and unclean (1): INVALID_REQUEST
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// Version 0 has no type: preferred. A null list asks for all partitions; those that need no election are left out then.
// The answer waits as that of createTopics does.
func (s *Server) electLeaders(r *request) {
	req := r.body.(*kmsg.ElectLeadersRequest)
	ask := &controllerpb.ElectLeadersRequest{
		Type: controllerpb.ElectionType_ELECTION_TYPE_PREFERRED, AllPartitions: req.Topics == nil,
		RequestId: newRequestID(s.backend.Metadata.BrokerID()),
	}
	if r.version >= 1 {
		ask.Type = electionOf(req.ElectionType)
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			ask.Partitions = append(ask.Partitions, &controllerpb.ElectablePartition{Topic: t.Topic, Partition: p})
		}
	}
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		r.reply(s.electLeadersVia(ctx, r, ask))
	})
}

func electionOf(kind int8) controllerpb.ElectionType {
	switch kind {
	case preferredElection:
		return controllerpb.ElectionType_ELECTION_TYPE_PREFERRED
	case uncleanElection:
		return controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN
	}
	return controllerpb.ElectionType_ELECTION_TYPE_UNSPECIFIED
}

func (s *Server) electLeadersVia(ctx context.Context, r *request, ask *controllerpb.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := response[*kmsg.ElectLeadersResponse](r)
	resp.Topics = []kmsg.ElectLeadersResponseTopic{}
	var answer *controllerpb.ElectLeadersResponse
	var failure error
	if ask.AllPartitions || len(ask.Partitions) > 0 {
		var err error
		answer, err = s.backend.Admin.ElectLeaders(ctx, r.caller, ask)
		failure = s.outcome(ctx, answer, err, false, anyDone(answer.GetResults()))
	}
	resp.ErrorCode = codeOf(failure)
	rows := ask.Partitions
	if ask.AllPartitions {
		for _, res := range answer.GetResults() {
			rows = append(rows, &controllerpb.ElectablePartition{Topic: res.GetTopic(), Partition: res.GetPartition()})
		}
	}
	at := map[string]int{}
	for i, row := range rows {
		err := itemOutcome(i, answer.GetResults(), failure)
		place, ok := at[row.GetTopic()]
		if !ok {
			place = len(resp.Topics)
			at[row.GetTopic()] = place
			topic := kmsg.NewElectLeadersResponseTopic()
			topic.Topic, topic.Partitions = row.GetTopic(), []kmsg.ElectLeadersResponseTopicPartition{}
			resp.Topics = append(resp.Topics, topic)
		}
		out := kmsg.NewElectLeadersResponseTopicPartition()
		out.Partition, out.ErrorCode, out.ErrorMessage = row.GetPartition(), codeOf(err), messageOf(err)
		resp.Topics[place].Partitions = append(resp.Topics[place].Partitions, out)
	}
	return resp
}
