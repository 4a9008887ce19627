package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// metadata answers from this broker's image. Behaviour, in order:
//   - brokers: unfenced ones with an address on this listener; controller id: a live broker; cluster id: always
//   - topics null, or empty in version 0: all, by name
//   - topics named by id below version 12: INVALID_REQUEST for each
//   - unknown id: UNKNOWN_TOPIC_ID with a null name; bad name: INVALID_TOPIC_EXCEPTION; unknown name:
//     UNKNOWN_TOPIC_OR_PARTITION
//   - unknown name, with auto.create.topics.enable and a request that allows it: the topic is created with the cluster's
//     defaults; LEADER_NOT_AVAILABLE if it is not there in time, the controller's refusal if it is refused. Names that
//     Kafka keeps for itself are not created like that
//   - partition without leader, or whose leader is not live: LEADER_NOT_AVAILABLE on the partition; whose leader is
//     live and has no address on this listener: LISTENER_NOT_FOUND from version 6
//   - replicas on brokers that are not listed: kept in the replica list, named as offline
func (s *Server) metadata(r *request) {
	req := r.body.(*kmsg.MetadataRequest)
	if names := s.toCreate(r, req); len(names) > 0 {
		s.forward(r, autoCreateWaitMillis, func(ctx context.Context) {
			errs := s.autoCreate(ctx, r.caller, names)
			r.replyBy(func() kmsg.Response { return s.buildMetadata(r, req, errs) }, nil)
		})
		return
	}
	// The image is taken when the answer's turn has come; building it there keeps large answers one a connection.
	r.replyBy(func() kmsg.Response { return s.buildMetadata(r, req, nil) }, nil)
}

// buildMetadata answers with missing for topics of that name that are not there.
func (s *Server) buildMetadata(r *request, req *kmsg.MetadataRequest, missing map[string]*kerr.Error) *kmsg.MetadataResponse {
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.MetadataResponse](r)
	nodes := s.nodes(im, false)
	resp.Brokers = make([]kmsg.MetadataResponseBroker, 0, len(nodes))
	for _, n := range nodes {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.id), n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	clusterID := s.backend.Metadata.ClusterID()
	resp.ClusterID = &clusterID
	resp.ControllerID = s.controllerOf(nodes)
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}

	b := &metadataBuilder{s: s, im: im, version: r.version, operations: req.IncludeTopicAuthorizedOperations,
		missing: missing, live: map[image.BrokerID]bool{}, slab: make([]int32, 0, 64)}
	for _, n := range nodes {
		b.live[n.id] = true
	}
	resp.Topics = []kmsg.MetadataResponseTopic{}
	if req.Topics == nil || r.version == 0 && len(req.Topics) == 0 {
		for t := range im.Topics() {
			resp.Topics = append(resp.Topics, b.topic(t))
		}
		return resp
	}
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic == nil || t.TopicID != [16]byte{} })
	seen := make(map[metadataKey]bool, len(req.Topics))
	for _, t := range req.Topics {
		key := metadataKey{id: t.TopicID}
		if t.Topic != nil {
			key.name = *t.Topic
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if byID && r.version < 12 {
			resp.Topics = append(resp.Topics, b.failed(t.Topic, t.TopicID, kerr.InvalidRequest))
			continue
		}
		resp.Topics = append(resp.Topics, b.named(t))
	}
	return resp
}

type metadataKey struct {
	name string
	id   image.TopicID
}

// metadataBuilder makes the topics of one answer from one image.
type metadataBuilder struct {
	s          *Server
	im         *image.Image
	version    int16
	operations bool
	missing    map[string]*kerr.Error
	live       map[image.BrokerID]bool // listed in the answer
	slab       []int32                 // what the partitions' lists are cut from
}

func (b *metadataBuilder) failed(name *string, id image.TopicID, ke *kerr.Error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode = name, id, ke.Code
	if name == nil && b.version < 12 {
		t.Topic = new(string)
	}
	t.Partitions = []kmsg.MetadataResponseTopicPartition{}
	return t
}

// named answers for one topic of the request; an id goes before a name, as in Kafka.
func (b *metadataBuilder) named(t kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	if t.TopicID != [16]byte{} || t.Topic == nil {
		topic, err := findTopic(b.im, true, "", t.TopicID)
		if err != nil {
			return b.failed(nil, t.TopicID, kerr.UnknownTopicID)
		}
		return b.topic(topic)
	}
	topic, err := findTopic(b.im, false, *t.Topic, image.TopicID{})
	switch {
	case err == nil:
		return b.topic(topic)
	case !validTopicName(*t.Topic):
		return b.failed(t.Topic, image.TopicID{}, kerr.InvalidTopicException)
	case b.missing[*t.Topic] != nil:
		return b.failed(t.Topic, image.TopicID{}, b.missing[*t.Topic])
	default:
		return b.failed(t.Topic, image.TopicID{}, kerr.UnknownTopicOrPartition)
	}
}

func (b *metadataBuilder) topic(t image.Topic) kmsg.MetadataResponseTopic {
	name := t.Name()
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = &name, t.ID()
	if b.operations {
		out.AuthorizedOperations = topicOperations
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, t.Len())
	for i, p := range t.Partitions() {
		out.Partitions = append(out.Partitions, b.partition(i, p))
	}
	return out
}

func (b *metadataBuilder) partition(index int32, p image.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition, out.Leader, out.LeaderEpoch = index, int32(p.Leader), int32(p.LeaderEpoch)
	out.Replicas, out.ISR, out.OfflineReplicas = b.ints(p.Replicas, false), b.ints(p.ISR, false), b.ints(p.Replicas, true)
	if !b.live[p.Leader] {
		out.Leader = int32(image.NoBroker)
		out.ErrorCode = kerr.LeaderNotAvailable.Code
		if leader, ok := b.im.Broker(p.Leader); ok && !leader.Fenced && b.version >= 6 {
			out.ErrorCode = kerr.ListenerNotFound.Code
		}
	}
	if b.version == 0 && len(out.OfflineReplicas) > 0 {
		// Version 0 has no offline list: its clients look every replica up among the brokers.
		out.Replicas = slices.DeleteFunc(out.Replicas, func(id int32) bool { return !b.live[image.BrokerID(id)] })
		out.ISR = slices.DeleteFunc(out.ISR, func(id int32) bool { return !b.live[image.BrokerID(id)] })
		if out.ErrorCode == 0 {
			out.ErrorCode = kerr.ReplicaNotAvailable.Code
		}
	}
	return out
}

// ints copies broker ids, all or those that are not listed, into the slab.
func (b *metadataBuilder) ints(ids []image.BrokerID, offlineOnly bool) []int32 {
	start := len(b.slab)
	for _, id := range ids {
		if !offlineOnly || !b.live[id] {
			b.slab = append(b.slab, int32(id))
		}
	}
	return b.slab[start:len(b.slab):len(b.slab)]
}

// topicNameMax is the length of the longest topic name.
const topicNameMax = 249

// validTopicName tells whether Kafka allows a name (Topic.validate).
func validTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > topicNameMax {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
