package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// listPartitionReassignments lists the moves in progress from this broker's image. A null list asks for all of them, an
// empty one for none; partitions that are unknown or do not move are left out.
func (s *Server) listPartitionReassignments(r *request) {
	req := r.body.(*kmsg.ListPartitionReassignmentsRequest)
	r.replyBy(func() kmsg.Response { return s.buildReassignments(r, req) }, nil)
}

func (s *Server) buildReassignments(r *request, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.ListPartitionReassignmentsResponse](r)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	if req.Topics == nil {
		moving := map[image.TopicID][]int32{}
		for id := range im.Reassigning() {
			moving[id.Topic] = append(moving[id.Topic], id.Partition)
		}
		for t := range im.Topics() {
			if len(moving[t.ID()]) > 0 {
				slices.Sort(moving[t.ID()])
				resp.Topics = append(resp.Topics, reassignmentsOf(t, moving[t.ID()]))
			}
		}
		return resp
	}
	for _, asked := range req.Topics {
		t, ok := im.TopicByName(asked.Topic)
		if !ok {
			continue
		}
		if topic := reassignmentsOf(t, asked.Partitions); len(topic.Partitions) > 0 {
			resp.Topics = append(resp.Topics, topic)
		}
	}
	return resp
}

// reassignmentsOf describes those of the partitions that move.
func reassignmentsOf(t image.Topic, partitions []int32) kmsg.ListPartitionReassignmentsResponseTopic {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic, out.Partitions = t.Name(), []kmsg.ListPartitionReassignmentsResponseTopicPartition{}
	for _, i := range partitions {
		p, ok := t.Partition(i)
		if !ok || !p.IsReassigning() {
			continue
		}
		row := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		row.Partition, row.Replicas = i, brokerIDs(p.Replicas)
		row.AddingReplicas, row.RemovingReplicas = brokerIDs(p.AddingReplicas), brokerIDs(p.RemovingReplicas)
		out.Partitions = append(out.Partitions, row)
	}
	return out
}

// brokerIDs is the wire's form of a list, empty rather than null.
func brokerIDs(ids []image.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
