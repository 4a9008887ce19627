package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// alterPartitionReassignments forwards moves of replicas to the active controller (KIP-455), which judges each partition;
// a null list of replicas cancels. No answer in time, or none that is certain, is REQUEST_TIMED_OUT, which means "perhaps
// done", at the top and on each partition. The answer waits as that of createTopics does; it does not wait for data.
//
// From version 1 on a request may insist on the number of replicas (KIP-860).
func (s *Server) alterPartitionReassignments(r *request) {
	req := r.body.(*kmsg.AlterPartitionAssignmentsRequest)
	ask := &controllerpb.AlterPartitionReassignmentsRequest{
		RequestId:             newRequestID(s.backend.Metadata.BrokerID()),
		KeepReplicationFactor: r.version >= 1 && !req.AllowReplicationFactorChange,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			out := &controllerpb.ReassignablePartition{Topic: t.Topic, Partition: p.Partition}
			if p.Replicas != nil {
				out.Replicas = &metadatapb.BrokerIds{Ids: p.Replicas}
			}
			ask.Partitions = append(ask.Partitions, out)
		}
	}
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		r.reply(s.reassignVia(ctx, r, req, ask))
	})
}

func (s *Server) reassignVia(ctx context.Context, r *request, req *kmsg.AlterPartitionAssignmentsRequest, ask *controllerpb.AlterPartitionReassignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := response[*kmsg.AlterPartitionAssignmentsResponse](r)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	var answer *controllerpb.AlterPartitionReassignmentsResponse
	var failure error
	if len(ask.GetPartitions()) > 0 {
		var err error
		answer, err = s.backend.Admin.AlterPartitionReassignments(ctx, r.caller, ask)
		failure = s.outcome(ctx, answer, err, false, anyDone(answer.GetResults()))
	}
	resp.ErrorCode, resp.ErrorMessage = codeOf(failure), messageOf(failure)
	resp.Topics = make([]kmsg.AlterPartitionAssignmentsResponseTopic, 0, len(req.Topics))
	i := 0
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic, topic.Partitions = t.Topic, []kmsg.AlterPartitionAssignmentsResponseTopicPartition{}
		for _, p := range t.Partitions {
			err := itemOutcome(i, answer.GetResults(), failure)
			i++
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition, out.ErrorCode, out.ErrorMessage = p.Partition, codeOf(err), messageOf(err)
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
