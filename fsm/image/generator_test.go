package image

import (
	"encoding/binary"
	"fmt"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"pgregory.net/rapid"
)

// Shorthands for records.

func testID(n int) []byte {
	var id UUID
	binary.BigEndian.PutUint64(id[:], 0x9e3779b97f4a7c15*uint64(n))
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id[:]
}

func ptr[T any](v T) *T { return &v }

func idsOf(ids ...int32) *metadatapb.BrokerIds { return &metadatapb.BrokerIds{Ids: ids} }

func recTopic(name string, id int) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: testID(id)}}}
}

func recPartition(p *metadatapb.Partition) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: p}}
}

func recChange(c *metadatapb.PartitionChange) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

func recRemove(id []byte) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: id}}}
}

func recBroker(b *metadatapb.RegisterBroker) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: b}}
}

func recBrokerChange(b *metadatapb.BrokerRegistrationChange) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: b}}
}

func recUnregister(id int32, epoch int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_UnregisterBroker{
		UnregisterBroker: &metadatapb.UnregisterBroker{BrokerId: id, BrokerEpoch: epoch}}}
}

func recController(id int32, directory int) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterController{
		RegisterController: &metadatapb.RegisterController{ControllerId: id, IncarnationId: testID(1), DirectoryId: testID(directory)}}}
}

func recRemovedController(id int32, directory int, at int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RemovedController{
		RemovedController: &metadatapb.RemovedController{ControllerId: id, DirectoryId: testID(directory), RemovedAtMs: at}}}
}

func recConfig(t metadatapb.ResourceType, resource, key string, value *string) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Config{
		Config: &metadatapb.Config{ResourceType: t, ResourceName: resource, Key: key, Value: value}}}
}

func recDeleted(id int32, topics ...[]byte) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{
		ReplicasDeleted: &metadatapb.ReplicasDeleted{BrokerId: id, TopicIds: topics}}}
}

func recDeletionFailed(id int32, topic []byte, failure string, ms int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_ReplicaDeletionFailed{
		ReplicaDeletionFailed: &metadatapb.ReplicaDeletionFailed{BrokerId: id, TopicId: topic, Failure: failure, FailureSinceMs: ms}}}
}

func recFeature(name string, level int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: name, Level: level}}}
}

func recProducerIDs(next int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{NextProducerId: next}}}
}

func recLineage(number int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Lineage{Lineage: &metadatapb.Lineage{
		Number: number, ControllerId: 100, DirectoryId: testID(3), TimeMs: 50, RecoveredOffset: 7, RecoveredChain: 0xcd}}}
}

func recConfirmed(number int32, ms int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_LineageConfirmed{LineageConfirmed: &metadatapb.LineageConfirmed{Number: number, TimeMs: ms}}}
}

// generator draws records that fit the image they follow.
type generator struct {
	t      *rapid.T
	topics int // ids used so far
}

var brokerPool = []int32{1, 2, 3, 4, 5, 70000}

func (g *generator) brokers(label string, from []int32, least, most int) []int32 {
	if least > len(from) {
		least = len(from)
	}
	p := rapid.Permutation(from).Draw(g.t, label)
	return p[:rapid.IntRange(least, min(most, len(p))).Draw(g.t, label+" n")]
}

// record draws a record for the image, whose next record has the given offset; nil when there is nothing to do.
func (g *generator) record(im *Image, offset MetadataOffset) *metadatapb.Record {
	switch k := rapid.IntRange(0, 19).Draw(g.t, "kind"); {
	case k < 2:
		g.topics++
		name := rapid.SampledFrom([]string{"a.b", "a_b", "c", "d", "e.f_g"}).Draw(g.t, "name")
		if _, taken := im.TopicByName(name); taken {
			name = fmt.Sprintf("%s-%d", name, g.topics)
		}
		return recTopic(name, g.topics)
	case k < 7:
		return g.partition(im)
	case k < 13:
		return g.change(im)
	case k < 14:
		if t, ok := g.topic(im); ok {
			return recRemove(t.ID().Bytes())
		}
	case k < 18:
		return g.cluster(im, offset)
	case k < 19:
		t := metadatapb.ResourceType_RESOURCE_TYPE_BROKER
		name := rapid.SampledFrom([]string{"", "1", "2"}).Draw(g.t, "broker resource")
		if topic, ok := g.topic(im); ok && rapid.Bool().Draw(g.t, "of topic") {
			t, name = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, topic.Name()
		}
		var value *string
		if rapid.IntRange(0, 3).Draw(g.t, "set") > 0 {
			value = ptr(rapid.StringN(0, 3, 9).Draw(g.t, "value"))
		}
		return recConfig(t, name, rapid.SampledFrom([]string{"x", "y", "min.insync.replicas"}).Draw(g.t, "key"), value)
	default:
		if l := im.Lineage(); l.IsUnconfirmed() {
			return recConfirmed(int32(l.Number), 9)
		} else if rapid.IntRange(0, 4).Draw(g.t, "recovery") == 0 {
			return recLineage(int32(l.Number) + 1)
		}
		if rapid.Bool().Draw(g.t, "feature") {
			return recFeature(FeatureEligibleLeaderReplicas, rapid.Int32Range(0, 1).Draw(g.t, "level"))
		}
		return recProducerIDs(im.NextProducerID() + 1000)
	}
	return nil
}

func (g *generator) topic(im *Image) (Topic, bool) {
	n := im.TopicCount()
	if n == 0 {
		return Topic{}, false
	}
	i := rapid.IntRange(0, n-1).Draw(g.t, "topic")
	for t := range im.Topics() {
		if i == 0 {
			return t, true
		}
		i--
	}
	return Topic{}, false
}

func (g *generator) partition(im *Image) *metadatapb.Record {
	t, ok := g.topic(im)
	if !ok {
		return nil
	}
	p := &metadatapb.Partition{TopicId: t.ID().Bytes(), Partition: int32(t.Len()),
		LeaderEpoch: rapid.Int32Range(0, 3).Draw(g.t, "le"), PartitionEpoch: rapid.Int32Range(0, 3).Draw(g.t, "pe")}
	p.Replicas = g.brokers("replicas", brokerPool, 1, 6)
	p.Isr = g.brokers("isr", p.Replicas, 0, 6)
	if rapid.Bool().Draw(g.t, "led") {
		p.Leader = ptr(rapid.SampledFrom(p.Replicas).Draw(g.t, "leader"))
	}
	if rapid.IntRange(0, 3).Draw(g.t, "elr") == 0 {
		p.Elr = g.brokers("elr", p.Replicas, 0, 6)
		p.LastKnownElr = g.brokers("last", brokerPool, 0, 6)
	}
	return recPartition(p)
}

func (g *generator) change(im *Image) *metadatapb.Record {
	t, ok := g.topic(im)
	if !ok || t.Len() == 0 {
		return nil
	}
	n := rapid.Int32Range(0, int32(t.Len())-1).Draw(g.t, "partition")
	p, _ := t.Partition(n)
	c := &metadatapb.PartitionChange{TopicId: t.ID().Bytes(), Partition: n}
	replicas := Int32s(p.Replicas)
	if rapid.IntRange(0, 4).Draw(g.t, "move") == 0 {
		replicas = g.brokers("new replicas", brokerPool, 1, 6)
		c.Replicas = idsOf(replicas...)
		c.AddingReplicas = idsOf(g.brokers("adding", brokerPool, 0, 2)...)
		c.RemovingReplicas = idsOf(g.brokers("removing", brokerPool, 0, 2)...)
		c.OriginalReplicas = idsOf(Int32s(p.Replicas)...)
	} else if rapid.Bool().Draw(g.t, "settle") {
		c.AddingReplicas, c.RemovingReplicas, c.OriginalReplicas = idsOf(), idsOf(), idsOf()
	}
	if c.Replicas != nil || rapid.Bool().Draw(g.t, "isr changes") {
		c.Isr = idsOf(g.brokers("isr", replicas, 0, 6)...)
	}
	if c.Replicas != nil || rapid.Bool().Draw(g.t, "leader changes") {
		c.Leader = &metadatapb.LeaderChange{}
		if rapid.Bool().Draw(g.t, "led") {
			c.Leader.Leader = ptr(rapid.SampledFrom(replicas).Draw(g.t, "leader"))
		}
	}
	if rapid.IntRange(0, 3).Draw(g.t, "elr changes") == 0 {
		c.Elr = idsOf(g.brokers("elr", brokerPool, 0, 3)...)
		c.LastKnownElr = idsOf(g.brokers("last", replicas, 0, 1)...)
	}
	if rapid.IntRange(0, 3).Draw(g.t, "recovery changes") == 0 {
		c.LeaderRecoveryState = metadatapb.LeaderRecoveryState(rapid.Int32Range(1, 2).Draw(g.t, "recovery")).Enum()
	}
	return recChange(c)
}

// controller registers one, or removes it, with a directory that was not removed before.
func (g *generator) controller(im *Image, offset MetadataOffset) *metadatapb.Record {
	id := rapid.Int32Range(1001, 1003).Draw(g.t, "controller")
	directory := rapid.IntRange(1, 9).Draw(g.t, "controller's directory")
	if im.IsRemovedController(BrokerID(id), UUID(testID(directory))) {
		return nil
	}
	if rapid.Bool().Draw(g.t, "removed") {
		return recRemovedController(id, directory, int64(offset))
	}
	return recController(id, directory)
}

func (g *generator) cluster(im *Image, offset MetadataOffset) *metadatapb.Record {
	if rapid.IntRange(0, 5).Draw(g.t, "of controllers") == 0 {
		return g.controller(im, offset)
	}
	id := rapid.SampledFrom(brokerPool).Draw(g.t, "broker")
	b, known := im.Broker(BrokerID(id))
	if !known || rapid.IntRange(0, 3).Draw(g.t, "again") == 0 {
		r := &metadatapb.RegisterBroker{BrokerId: id, IncarnationId: testID(int(offset) + 1), BrokerEpoch: int64(offset),
			DirectoryId: testID(rapid.IntRange(1, 2).Draw(g.t, "directory")), Fenced: true,
			Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "h\"\n\x01é", Port: 9092}},
			Features:  []*metadatapb.FeatureRange{{Name: "f", Max: 3}}, StateSinceMs: int64(offset) * 10}
		if rapid.Bool().Draw(g.t, "racked") {
			r.Rack = ptr("r1")
			r.PreviousBrokerEpoch = ptr(int64(3))
		}
		return recBroker(r)
	}
	switch rapid.IntRange(0, 3).Draw(g.t, "cluster") {
	case 0:
		return recUnregister(id, int64(b.Epoch))
	case 1:
		for p := range im.PendingDeletions() {
			r := rapid.SampledFrom(p.Replicas).Filter(func(r PendingReplica) bool { return !r.Deleted }).Draw(g.t, "pending replica")
			if rapid.Bool().Draw(g.t, "fails") {
				return recDeletionFailed(int32(r.Broker), p.TopicID.Bytes(), "disk", 7)
			}
			return recDeleted(int32(r.Broker), p.TopicID.Bytes())
		}
	}
	r := &metadatapb.BrokerRegistrationChange{BrokerId: id, BrokerEpoch: int64(b.Epoch), StateSinceMs: int64(offset)}
	if rapid.Bool().Draw(g.t, "stops") {
		r.InControlledShutdown = ptr(true)
	} else {
		r.Fenced = ptr(rapid.Bool().Draw(g.t, "fenced"))
	}
	return recBrokerChange(r)
}
