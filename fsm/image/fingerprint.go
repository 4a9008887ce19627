package image

import (
	"encoding/binary"
	"math/bits"
)

// Fingerprint is the sum of a hash of each element: each partition with its state, each topic, registration, config
// and so on. Every change takes the hash of the old element off and adds that of the new one, so it costs nothing to
// ask, and the order in which elements came does not matter. It finds mistakes, not forgeries.

const (
	mixer1 = 0xa0761d6478bd642f
	mixer2 = 0xe7037ed1a0b428db
)

// Kinds keep elements of different kinds with equal content apart.
const (
	kindPartition = iota + 1
	kindSpilled
	kindTopic
	kindBroker
	kindController
	kindPending
	kindConfig
	kindFeature
	kindProducerIDs
	kindRemovedController
	kindLineage
)

// Fingerprint returns a 64-bit hash of the content, offset and chain aside. Two images of one log at the same offset
// differ in it if, but for chance, they differ at all. It is not meant to be stored: its rule may change with the build.
func (im *Image) Fingerprint() uint64 {
	return im.sum + hash(kindProducerIDs).word(uint64(im.nextProducerID)).sum() + hashLineage(im.lineage)
}

type hash uint64

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (h hash) word(w uint64) hash {
	return hash(fold(uint64(h)^w^mixer1, mixer2))
}

func (h hash) words2(a, b uint64) hash {
	return hash(fold(a^mixer1, b^uint64(h)^mixer2)).word(a + b)
}

func (h hash) uuid(id UUID) hash {
	return h.words2(binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:]))
}

func (h hash) text(s string) hash {
	h = h.word(uint64(len(s)))
	for len(s) >= 8 {
		h = h.word(binary.LittleEndian.Uint64([]byte(s[:8])))
		s = s[8:]
	}
	var w uint64
	for i := range len(s) {
		w |= uint64(s[i]) << (8 * i)
	}
	return h.word(w)
}

func (h hash) ids(list []BrokerID) hash {
	h = h.word(uint64(len(list)))
	for _, id := range list {
		h = h.word(uint64(id))
	}
	return h
}

func (h hash) flag(b bool) hash {
	if b {
		return h.word(1)
	}
	return h.word(0)
}

func (h hash) sum() uint64 { return uint64(h.word(mixer2)) }

func hashPacked(topic TopicID, r *packed) uint64 { return hash(kindPartition).uuid(topic).packed(r) }

// packed is the hash of a partition, h that of its kind and topic.
func (h hash) packed(r *packed) uint64 {
	epochs := uint64(uint32(r.leaderEpoch)) | uint64(uint32(r.partitionEpoch))<<32
	// The first two products do not wait for each other. Neither factor of one is ever 0, but for chance.
	a := fold(r.lanes^uint64(h)^mixer1, r.bits^mixer2)
	b := fold(epochs^mixer1, uint64(uint32(r.partition))^mixer2)
	return fold(a^mixer1, b^uint64(h)^mixer2)
}

func hashSpilled(topic TopicID, partition int32, p *Partition) uint64 {
	h := hash(kindSpilled).uuid(topic).word(uint64(partition))
	h = h.ids(p.Replicas).ids(p.ISR).ids(p.ELR).ids(p.LastKnownELR)
	h = h.ids(p.AddingReplicas).ids(p.RemovingReplicas).ids(p.OriginalReplicas)
	h = h.word(uint64(p.Leader)).word(uint64(p.LeaderEpoch)).word(uint64(p.PartitionEpoch))
	return h.flag(p.Recovering).sum()
}

func hashTopic(e *topicEntry) uint64 { return hash(kindTopic).uuid(e.id).text(e.name).sum() }

func hashConfig(k configKey, v string) uint64 {
	return hash(kindConfig).word(uint64(k.resourceType)).text(k.resource).text(k.key).text(v).sum()
}

func hashFeature(name string, level int32) uint64 {
	return hash(kindFeature).text(name).word(uint64(level)).sum()
}

func (h hash) node(listeners []Listener, features []FeatureRange) hash {
	h = h.word(uint64(len(listeners)))
	for _, l := range listeners {
		h = h.text(l.Name).text(l.Host).word(uint64(l.Port))
	}
	h = h.word(uint64(len(features)))
	for _, f := range features {
		h = h.text(f.Name).word(uint64(f.Min)).word(uint64(f.Max))
	}
	return h
}

func hashBroker(b *Broker) uint64 {
	h := hash(kindBroker).word(uint64(b.ID)).uuid(b.IncarnationID).uuid(b.DirectoryID)
	h = h.word(uint64(b.Epoch)).word(uint64(b.RegistrationOffset)).node(b.Listeners, b.Features)
	h = h.flag(b.Rack != nil)
	if b.Rack != nil {
		h = h.text(*b.Rack)
	}
	h = h.flag(b.Fenced).flag(b.InControlledShutdown).word(uint64(b.ControlledShutdownOffset))
	h = h.word(uint64(b.StopKind)).word(uint64(b.PreviousEpoch)).word(uint64(b.LostReplicas))
	return h.word(uint64(b.StateSinceMs)).sum()
}

func hashController(c *Controller) uint64 {
	h := hash(kindController).word(uint64(c.ID)).uuid(c.IncarnationID).uuid(c.DirectoryID)
	return h.node(c.Listeners, c.Features).sum()
}

func hashRemoved(c *RemovedController) uint64 {
	return hash(kindRemovedController).word(uint64(c.ID)).uuid(c.DirectoryID).word(uint64(c.RemovedAtMs)).sum()
}

func hashPending(p *PendingDeletion) uint64 {
	h := hash(kindPending).uuid(p.TopicID).text(p.Name).word(uint64(p.Partitions)).word(uint64(len(p.Replicas)))
	for _, r := range p.Replicas {
		h = h.word(uint64(r.Broker)).word(uint64(r.Partitions)).flag(r.Deleted).text(r.Failure).word(uint64(r.FailureSinceMs))
	}
	return h.sum()
}
