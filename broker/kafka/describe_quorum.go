package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// quorumWaitMillis is how long a description of the quorum may take: its request bears no time-out.
const quorumWaitMillis = 10_000

// describeQuorum describes the controllers and whoever follows the metadata log (KIP-595, KIP-836, KIP-853). Behaviour, in
// order:
//   - not exactly the metadata log's partition 0: INVALID_REQUEST for more than one partition, else
//     UNKNOWN_TOPIC_OR_PARTITION on what was asked
//   - no active controller in time: REQUEST_TIMED_OUT
//   - otherwise offsets are metadata offsets: the high watermark is one above the last committed record, a log's end is
//     one above the last record that its node has applied, -1 if it could not be asked; times are -1 then too
func (s *Server) describeQuorum(r *request) {
	req := r.body.(*kmsg.DescribeQuorumRequest)
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Topic != metadataTopic || req.Topics[0].Partitions[0].Partition != 0 {
		r.reply(wrongQuorum(r, req))
		return
	}
	s.forward(r, quorumWaitMillis, func(ctx context.Context) {
		q, err := s.backend.Admin.DescribeQuorum(ctx)
		resp := response[*kmsg.DescribeQuorumResponse](r)
		resp.Topics, resp.Nodes = []kmsg.DescribeQuorumResponseTopic{}, []kmsg.DescribeQuorumResponseNode{}
		if err != nil {
			err = &wireError{code: kerr.RequestTimedOut, text: "the quorum could not be asked: " + err.Error()}
			resp.ErrorCode, resp.ErrorMessage = codeOf(err), messageOf(err)
			r.reply(resp)
			return
		}
		p := kmsg.NewDescribeQuorumResponseTopicPartition()
		p.LeaderID, p.LeaderEpoch = int32(q.Leader), int32(q.ControllerEpoch)
		p.HighWatermark = int64(q.MetadataOffset) + 1
		p.CurrentVoters, p.Observers = s.quorumReplicas(q, q.Voters), s.quorumReplicas(q, q.Observers)
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic, t.Partitions = metadataTopic, []kmsg.DescribeQuorumResponseTopicPartition{p}
		resp.Topics = append(resp.Topics, t)
		resp.Nodes = s.quorumNodes(q)
		r.reply(resp)
	})
}

// wrongQuorum answers for what is not the metadata log.
func wrongQuorum(r *request, req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	resp := response[*kmsg.DescribeQuorumResponse](r)
	resp.Topics, resp.Nodes = []kmsg.DescribeQuorumResponseTopic{}, []kmsg.DescribeQuorumResponseNode{}
	partitions := 0
	for _, t := range req.Topics {
		partitions += len(t.Partitions)
	}
	if partitions != 1 {
		err := refused(kerr.InvalidRequest.Code, "the request must name partition 0 of "+metadataTopic+" and nothing else")
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), messageOf(err)
		return resp
	}
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic, topic.Partitions = t.Topic, []kmsg.DescribeQuorumResponseTopicPartition{}
		for _, p := range t.Partitions {
			out := kmsg.NewDescribeQuorumResponseTopicPartition()
			out.Partition, out.ErrorCode, out.LeaderID = p.Partition, kerr.UnknownTopicOrPartition.Code, int32(image.NoBroker)
			out.CurrentVoters, out.Observers = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}, []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// quorumReplicas tells of each replica how far it is, when it said so, and whether it had everything then.
func (s *Server) quorumReplicas(q Quorum, replicas []QuorumReplica) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	out := []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
	for _, in := range replicas {
		state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		state.ReplicaID, state.ReplicaDirectoryID = int32(in.ID), in.DirectoryID
		state.LogEndOffset, state.LastFetchTimestamp, state.LastCaughtUpTimestamp = -1, in.HeardMs, -1
		if in.HeardMs >= 0 {
			state.LogEndOffset = int64(in.MetadataOffset) + 1
		}
		if in.HeardMs >= 0 && in.MetadataOffset >= q.MetadataOffset {
			state.LastCaughtUpTimestamp = in.HeardMs
		}
		out = append(out, state)
	}
	return out
}

// quorumNodes are the controllers' addresses, as they registered them.
func (s *Server) quorumNodes(q Quorum) []kmsg.DescribeQuorumResponseNode {
	im := s.backend.Metadata.Image()
	out := []kmsg.DescribeQuorumResponseNode{}
	for _, replicas := range [][]QuorumReplica{q.Voters, q.Observers} {
		for _, in := range replicas {
			c, ok := im.Controller(in.ID)
			if !ok {
				continue
			}
			node := kmsg.NewDescribeQuorumResponseNode()
			node.NodeID, node.Listeners = int32(in.ID), []kmsg.DescribeQuorumResponseNodeListener{}
			for _, l := range c.Listeners {
				listener := kmsg.NewDescribeQuorumResponseNodeListener()
				listener.Name, listener.Host, listener.Port = l.Name, l.Host, l.Port
				node.Listeners = append(node.Listeners, listener)
			}
			out = append(out, node)
		}
	}
	return out
}
