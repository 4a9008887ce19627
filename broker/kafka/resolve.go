package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// findTopic finds the topic that a request names, by id where the version names topics by id.
func findTopic(im *image.Image, byID bool, name string, id [16]byte) (image.Topic, error) {
	if byID {
		if t, ok := im.TopicByID(image.TopicID(id)); ok {
			return t, nil
		}
		return image.Topic{}, kerr.UnknownTopicID
	}
	if t, ok := im.TopicByName(name); ok {
		return t, nil
	}
	return image.Topic{}, kerr.UnknownTopicOrPartition
}

// findPartition finds the hosted replica of a topic's partition. Only what the image does not know is unknown; what
// it knows and this broker does not host is somebody else's.
func (s *Server) findPartition(t image.Topic, index int32) (Partition, error) {
	if _, ok := t.Partition(index); !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	return s.backend.Partitions.Lookup(image.PartitionID{Topic: t.ID(), Partition: index})
}

// node is a broker as clients see it.
type node struct {
	id     image.BrokerID
	host   string
	port   int32
	rack   *string
	fenced bool
}

// nodeOf returns a broker's address on this listener; ok is false if it has none.
func (s *Server) nodeOf(b image.Broker) (node, bool) {
	l, ok := b.Listener(s.cfg.ListenerName)
	if !ok || l.Host == "" {
		return node{}, false
	}
	return node{id: b.ID, host: l.Host, port: int32(l.Port), rack: b.Rack, fenced: b.Fenced}, true
}

// nodes returns the brokers that clients may connect to, ascending: an address that cannot be reached costs a client
// its time-out, so fenced ones are listed only on request.
func (s *Server) nodes(im *image.Image, fencedToo bool) []node {
	var out []node
	for b := range im.Brokers() {
		if n, ok := s.nodeOf(b); ok && (!b.Fenced || fencedToo) {
			out = append(out, n)
		}
	}
	return out
}

// controllerOf picks the broker that clients send changes to: any live one can forward them, so this one if it is
// live. It is never a controller, which serves no clients, and -1 only if no broker is live.
func (s *Server) controllerOf(nodes []node) int32 {
	id := int32(image.NoBroker)
	for _, n := range nodes {
		if n.fenced {
			continue
		}
		if n.id == s.backend.Metadata.BrokerID() {
			return int32(n.id)
		}
		if id < 0 {
			id = int32(n.id)
		}
	}
	return id
}

// hint is where the leader of a partition is (KIP-951).
type hint struct {
	leader image.BrokerID
	epoch  image.LeaderEpoch
}

// hints collects hints and the addresses that they need.
type hints struct {
	s     *Server
	im    *image.Image
	nodes []node
}

// find returns a hint for a refusal that sends the client elsewhere. There is none when the image names no leader, or
// still names this broker, which has just refused.
func (h *hints) find(id image.PartitionID, code int16) (hint, bool) {
	if code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code {
		return hint{}, false
	}
	p, ok := h.im.Partition(id)
	if !ok || p.Leader == image.NoBroker || p.Leader == h.s.backend.Metadata.BrokerID() {
		return hint{}, false
	}
	for _, n := range h.nodes {
		if n.id == p.Leader {
			return hint{p.Leader, p.LeaderEpoch}, true
		}
	}
	b, ok := h.im.Broker(p.Leader)
	if !ok || b.Fenced {
		return hint{}, false
	}
	n, ok := h.s.nodeOf(b)
	if !ok {
		return hint{}, false
	}
	h.nodes = append(h.nodes, n)
	return hint{p.Leader, p.LeaderEpoch}, true
}

func (h *hints) produceBrokers() []kmsg.ProduceResponseBroker {
	var out []kmsg.ProduceResponseBroker
	for _, n := range h.nodes {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.id), n.host, n.port, n.rack
		out = append(out, b)
	}
	return out
}

func (h *hints) fetchBrokers() []kmsg.FetchResponseBroker {
	var out []kmsg.FetchResponseBroker
	for _, n := range h.nodes {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.id), n.host, n.port, n.rack
		out = append(out, b)
	}
	return out
}
