package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// offsetForLeaderEpoch finds where a leader epoch ends (KIP-320). Refusals on each partition, in order:
// UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER if it is not hosted; epoch and leadership as in
// [Partition].EpochEnd. An epoch below all that the log knows gives -1 and -1 without an error.
func (s *Server) offsetForLeaderEpoch(r *request) {
	req := r.body.(*kmsg.OffsetForLeaderEpochRequest)
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.OffsetForLeaderEpochResponse](r)
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		topic, terr := findTopic(im, false, t.Topic, image.TopicID{})
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, 0, len(t.Partitions))
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition = p.Partition
			end, err := EpochEnd{NoEpoch, -1}, terr
			if err == nil {
				end, err = s.epochEnd(topic, p)
			}
			if err != nil {
				part.ErrorCode = codeOf(err)
			} else {
				part.LeaderEpoch, part.EndOffset = int32(end.Epoch), end.EndOffset
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	r.reply(resp)
}

func (s *Server) epochEnd(t image.Topic, p kmsg.OffsetForLeaderEpochRequestTopicPartition) (EpochEnd, error) {
	partition, err := s.findPartition(t, p.Partition)
	if err != nil {
		return EpochEnd{}, err
	}
	return partition.EpochEnd(image.LeaderEpoch(p.CurrentLeaderEpoch), image.LeaderEpoch(p.LeaderEpoch))
}
