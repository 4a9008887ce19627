package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// Special timestamps that a log without tiers answers by others, and the versions that know each.
const (
	earliestLocalTimestamp int64 = -4
	latestTieredTimestamp  int64 = -5

	listMaxTimestampMin    = 7
	listEarliestLocalMin   = 8
	listLatestTieredMin    = 9
	listNotAvailableMin    = 5 // OFFSET_NOT_AVAILABLE; LEADER_NOT_AVAILABLE before (KIP-207)
	listReplicaDebug       = -2
	listOffsetsReplicaNone = -1
)

// listOffsets finds offsets by timestamp at the leader. Refusals, in order, each on its partition:
//   - the partition is named twice, or a replica asks: INVALID_REQUEST
//   - unknown: UNKNOWN_TOPIC_OR_PARTITION; not hosted: NOT_LEADER_OR_FOLLOWER
//   - a special timestamp that the version does not know: UNSUPPORTED_VERSION
//   - epoch and leadership, watermark below the epoch's start: see [Partition].ListOffset
//
// An offset that does not exist is -1 without an error. Without tiers, earliest-local is earliest, and latest-tiered
// does not exist.
func (s *Server) listOffsets(r *request) {
	req := r.body.(*kmsg.ListOffsetsRequest)
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.ListOffsetsResponse](r)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, 0, len(req.Topics))
	type named struct {
		topic     string
		partition int32
	}
	count := map[named]int{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			count[named{t.Topic, p.Partition}]++
		}
	}
	for _, t := range req.Topics {
		topic, terr := findTopic(im, false, t.Topic, image.TopicID{})
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(t.Partitions))
		for _, p := range t.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition = p.Partition
			found, err := TimestampedOffset{}, terr
			switch {
			case count[named{t.Topic, p.Partition}] > 1, req.ReplicaID != listOffsetsReplicaNone && req.ReplicaID != listReplicaDebug:
				err = kerr.InvalidRequest
			case err == nil:
				found, err = s.listOffset(topic, r.version, Isolation(min(max(req.IsolationLevel, 0), 1)), p)
			}
			if errors.Is(err, kerr.OffsetNotAvailable) && r.version < listNotAvailableMin {
				err = kerr.LeaderNotAvailable
			}
			if err != nil {
				part.ErrorCode = codeOf(err)
			} else {
				part.Offset, part.Timestamp, part.LeaderEpoch = found.Offset, found.TimestampMs, int32(found.LeaderEpoch)
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	r.reply(resp)
}

func (s *Server) listOffset(t image.Topic, version int16, isolation Isolation, p kmsg.ListOffsetsRequestTopicPartition) (TimestampedOffset, error) {
	partition, err := s.findPartition(t, p.Partition)
	if err != nil {
		return TimestampedOffset{}, err
	}
	ask := ListOffsetRequest{Timestamp: p.Timestamp, CurrentLeaderEpoch: image.LeaderEpoch(p.CurrentLeaderEpoch), Isolation: isolation}
	switch ts := p.Timestamp; {
	case ts == MaxTimestamp && version < listMaxTimestampMin,
		ts == earliestLocalTimestamp && version < listEarliestLocalMin,
		ts == latestTieredTimestamp && version < listLatestTieredMin,
		ts < latestTieredTimestamp:
		return TimestampedOffset{}, kerr.UnsupportedVersion
	case ts == earliestLocalTimestamp:
		ask.Timestamp = EarliestTimestamp
	case ts == latestTieredTimestamp:
		ask.Timestamp = EarliestTimestamp // for its checks
		_, err := partition.ListOffset(ask)
		return TimestampedOffset{-1, -1, NoEpoch}, err
	}
	return partition.ListOffset(ask)
}
