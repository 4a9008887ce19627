package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// describedPartitionsMax bounds the partitions of one answer (max.request.partition.size.limit).
const describedPartitionsMax = 2000

// describeTopicPartitions describes topics from this broker's image, page by page, with eligible leader replicas
// (KIP-966). Behaviour, in order:
//   - a cursor with a negative partition: the connection's request is answered with INVALID_REQUEST on its topic
//   - an empty list asks for all topics; topics come by name, each name once
//   - bad name: INVALID_TOPIC_EXCEPTION; unknown name: UNKNOWN_TOPIC_OR_PARTITION
//   - topics before the cursor are left out; so are partitions of its topic before its partition
//   - the answer ends at the limit, at most 2,000 partitions, with the cursor of the next partition
//
// A partition without leader, or whose leader is not live: LEADER_NOT_AVAILABLE, as in Metadata.
func (s *Server) describeTopicPartitions(r *request) {
	req := r.body.(*kmsg.DescribeTopicPartitionsRequest)
	r.replyBy(func() kmsg.Response { return s.buildTopicPartitions(r, req) }, nil)
}

func (s *Server) buildTopicPartitions(r *request, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := response[*kmsg.DescribeTopicPartitionsResponse](r)
	resp.Topics = []kmsg.DescribeTopicPartitionsResponseTopic{}
	if req.Cursor != nil && req.Cursor.Partition < 0 {
		resp.Topics = append(resp.Topics, failedTopic(req.Cursor.Topic, kerr.InvalidRequest))
		return resp
	}
	b := &topicPartitions{s: s, im: s.backend.Metadata.Image(), resp: resp, left: describedPartitionsMax, live: map[image.BrokerID]bool{}}
	if l := int(req.ResponsePartitionLimit); l > 0 {
		b.left = min(b.left, l)
	}
	for _, n := range s.nodes(b.im, false) {
		b.live[n.id] = true
	}
	if len(req.Topics) == 0 {
		for t := range b.im.Topics() {
			if !b.page(t.Name(), req.Cursor) {
				break
			}
		}
		return resp
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		names[i] = t.Topic
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !b.page(name, req.Cursor) {
			break
		}
	}
	return resp
}

func failedTopic(name string, ke *kerr.Error) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.Partitions = &name, ke.Code, []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	return t
}

// topicPartitions makes one page.
type topicPartitions struct {
	s    *Server
	im   *image.Image
	resp *kmsg.DescribeTopicPartitionsResponse
	live map[image.BrokerID]bool
	left int // partitions that the page still has room for
}

// page adds a topic, from the cursor on; it returns false when the page is full.
func (b *topicPartitions) page(name string, cursor *kmsg.DescribeTopicPartitionsRequestCursor) bool {
	first := int32(0)
	if cursor != nil {
		if name < cursor.Topic {
			return true
		}
		if name == cursor.Topic {
			first = cursor.Partition
		}
	}
	t, ok := b.im.TopicByName(name)
	if !ok {
		ke := kerr.UnknownTopicOrPartition
		if !validTopicName(name) {
			ke = kerr.InvalidTopicException
		}
		b.resp.Topics = append(b.resp.Topics, failedTopic(name, ke))
		return true
	}
	end := min(int64(first)+int64(b.left), int64(t.Len()))
	if b.left > 0 && (int64(first) < end || first == 0) {
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.TopicID = &name, t.ID()
		out.AuthorizedOperations = topicOperations
		out.Partitions = make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, 0, max(end-int64(first), 0))
		for i := first; int64(i) < end; i++ {
			p, _ := t.Partition(i)
			out.Partitions = append(out.Partitions, b.partition(i, p))
		}
		b.left -= len(out.Partitions)
		b.resp.Topics = append(b.resp.Topics, out)
	}
	if end >= int64(t.Len()) {
		return true
	}
	next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	next.Topic, next.Partition = name, int32(end)
	b.resp.NextCursor = &next
	return false
}

func (b *topicPartitions) partition(index int32, p image.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = index, int32(p.Leader), int32(p.LeaderEpoch)
	out.Replicas, out.ISR = brokerIDs(p.Replicas), brokerIDs(p.ISR)
	out.EligibleLeaderReplicas, out.LastKnownELR = brokerIDs(p.ELR), brokerIDs(p.LastKnownELR)
	out.OfflineReplicas = []int32{}
	for _, id := range p.Replicas {
		if !b.live[id] {
			out.OfflineReplicas = append(out.OfflineReplicas, int32(id))
		}
	}
	if !b.live[p.Leader] {
		out.LeaderID, out.ErrorCode = int32(image.NoBroker), kerr.LeaderNotAvailable.Code
		if leader, ok := b.im.Broker(p.Leader); ok && !leader.Fenced {
			out.ErrorCode = kerr.ListenerNotFound.Code
		}
	}
	return out
}
