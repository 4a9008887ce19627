package model

import (
	"fmt"
	"math"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

func newModel(cfg *Config, bug Bug) *model {
	m := &model{cfg: cfg, bug: bug, messages: make(map[string]*message), brokers: make(map[uint64]*broker)}
	m.forget()
	for i := range cfg.Replicas {
		m.ids = append(m.ids, image.PartitionID{Topic: uuid("topic"), Partition: int32(i)})
	}
	return m
}

// forget drops what was decided and checked. It is made again as it is wanted. Brokers and messages stay: which of two of one
// canonical form a world has must not change while it is searched.
func (m *model) forget() {
	m.checked = make(map[step]error)
	m.changes = make(map[transition]*image.BrokerChanges)
}

// root is the state that the search begins with: the brokers serve, the topic is made, and the steps of the prefix are done.
func (m *model) root() (*World, error) {
	w := m.genesis()
	for _, verb := range m.cfg.Prefix {
		next, err := w.doVerb(verb)
		if err == nil {
			err = next.check()
		}
		if err != nil {
			return nil, fmt.Errorf("model: prefix of world %s: %w", m.cfg.Name, err)
		}
		w = next
	}
	w.left = m.cfg.Budget
	return w, nil
}

// genesis is a cluster in peace: three brokers serve, the topic has been made and applied everywhere.
func (m *model) genesis() *World {
	n := &node{m: m, im: image.Empty(), live: controller.NewLiveness(image.Empty(), begin), claim: 1, base: 0}
	must := func(d decided) {
		o := n.entries(d)
		if o.refused != nil || len(o.entries) == 0 {
			panic(fmt.Sprintf("model: the world does not begin: %v", o.refused))
		}
		n = o.entries[len(o.entries)-1]
		if n.bad != nil {
			panic(fmt.Sprintf("model: the world begins broken: %v", n.bad))
		}
	}
	must(plain(controller.Activate(n.view(n.live, begin))))
	w := &World{m: m, left: Budget{Total: math.MaxInt8}}
	for h := range harms {
		w.left.Of[h] = math.MaxInt8
	}
	w.left.Of[Failover] = 0 // so that the prefix commits at once
	for i, id := range brokerIDs {
		b := &broker{id: id, life: 1, begun: true, stop: metadatapb.StopKind_STOP_KIND_NEVER_RAN, previous: image.NoBrokerEpoch}
		must(plain(controller.RegisterBroker(n.view(n.live, begin), registration(b, n.im))))
		known, _ := n.im.Broker(id)
		b.epoch, b.registered = known.Epoch, known.RegistrationOffset
		must(plain(controller.BrokerHeartbeat(n.view(n.live, begin), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: int32(id), BrokerEpoch: int64(b.epoch), MetadataOffset: int64(n.im.Offset()),
		})))
		for range m.ids {
			b.parts = append(b.parts, newReplica())
		}
		w.brokers[i] = b
	}
	before := n.im
	must(plain(controller.CreateTopics(n.view(n.live, begin), m.createTopics())))
	n.parent = nil
	w.tip, w.newest, w.at = n, n, [3]*node{n, n, n}
	w.promises = make([]promise, len(m.ids))
	for i := range w.promises {
		w.promises[i].since = partition.NoLeaderEpoch
	}
	for _, id := range brokerIDs {
		w.act(w.edit(id), before, n.im)
	}
	return w.settle()
}

func (m *model) createTopics() *controllerpb.CreateTopicsRequest {
	id := uuid("topic")
	t := &controllerpb.CreatableTopic{Name: "t", TopicId: id[:]}
	for i, replicas := range m.cfg.Replicas {
		t.Assignments = append(t.Assignments, &controllerpb.ReplicaAssignment{Partition: int32(i), BrokerIds: replicas})
	}
	if m.cfg.Unclean {
		value := "true"
		t.Configs = append(t.Configs, &controllerpb.ConfigEntry{Name: "unclean.leader.election.enable", Value: &value})
	}
	return &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{t}}
}
