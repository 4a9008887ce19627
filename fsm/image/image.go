package image

import (
	"cmp"
	"iter"
	"strings"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Image is the state at one metadata offset. It never changes; any number of goroutines may read it.
type Image struct {
	state
	offset MetadataOffset
	chain  Chain
}

// state is what images and deltas have in common. A copy is a fork (see table).
type state struct {
	gen uint64

	// Partitions by ordinal, and those that do not fit into a page.
	partitions     table[partitionPage]
	spill          tree[uint32, *Partition]
	ordinals       arena
	partitionCount int

	// Topics by ordinal.
	topics        table[topicPage]
	topicOrdinals arena
	topicByName   tree[string, uint32]
	topicByID     tree[UUID, uint32]
	// Names with a period or underscore, ordered by what they collide on.
	colliding tree[collidingName, struct{}]

	brokers            tree[BrokerID, *Broker]
	controllers        tree[BrokerID, *Controller]
	removedControllers tree[removedKey, *RemovedController]
	pending            tree[UUID, *PendingDeletion]
	// deletingPartitions is the number of partitions of the topics in pending.
	deletingPartitions int
	configs            tree[configKey, string]
	features           tree[string, int32]

	nextProducerID int64
	lineage        Lineage

	indexes indexes
	// sum is the sum of the hashes of all elements, see fingerprint.go.
	sum uint64
}

var empty = &Image{state: newState(), offset: NoOffset}

func newState() state {
	return state{
		spill:              tree[uint32, *Partition]{compare: cmp.Compare[uint32]},
		ordinals:           newArena(),
		topicOrdinals:      newArena(),
		topicByName:        tree[string, uint32]{compare: strings.Compare},
		topicByID:          tree[UUID, uint32]{compare: compareUUID},
		colliding:          tree[collidingName, struct{}]{compare: collidingName.compare},
		brokers:            tree[BrokerID, *Broker]{compare: cmp.Compare[BrokerID]},
		controllers:        tree[BrokerID, *Controller]{compare: cmp.Compare[BrokerID]},
		removedControllers: tree[removedKey, *RemovedController]{compare: removedKey.compare},
		pending:            tree[UUID, *PendingDeletion]{compare: compareUUID},
		configs:            tree[configKey, string]{compare: configKey.compare},
		features:           tree[string, int32]{compare: strings.Compare},
		indexes:            indexes{brokers: tree[BrokerID, *brokerIndex]{compare: cmp.Compare[BrokerID]}},
	}
}

// Empty returns the image before the first record.
func Empty() *Image { return empty }

// Offset returns the metadata offset of the last record in the image, [NoOffset] before the first.
func (im *Image) Offset() MetadataOffset { return im.offset }

// Chain returns the chain after the last entry in the image, 0 before the first.
func (im *Image) Chain() Chain { return im.chain }

// Broker returns a registration.
func (im *Image) Broker(id BrokerID) (Broker, bool) {
	b, ok := im.brokers.get(id)
	if !ok {
		return Broker{}, false
	}
	return *b, true
}

// Brokers returns all registrations, ascending by id.
func (im *Image) Brokers() iter.Seq[Broker] { return values(&im.brokers) }

// BrokerCount returns the number of registered brokers.
func (im *Image) BrokerCount() int { return im.brokers.n }

// Controller returns what a controller told of itself.
func (im *Image) Controller(id BrokerID) (Controller, bool) {
	c, ok := im.controllers.get(id)
	if !ok {
		return Controller{}, false
	}
	return *c, true
}

// Controllers returns all controllers, ascending by id.
func (im *Image) Controllers() iter.Seq[Controller] { return values(&im.controllers) }

// PendingDeletion returns what is left of a deleted topic.
func (im *Image) PendingDeletion(id TopicID) (PendingDeletion, bool) {
	p, ok := im.pending.get(id)
	if !ok {
		return PendingDeletion{}, false
	}
	return *p, true
}

// PendingDeletions returns all deleted topics whose data is not yet gone everywhere, by topic id.
func (im *Image) PendingDeletions() iter.Seq[PendingDeletion] { return values(&im.pending) }

// PendingDeletionCount returns the number of pending deletions.
func (im *Image) PendingDeletionCount() int { return im.pending.n }

// Feature returns the finalized level of a feature, 0 when none is.
func (im *Image) Feature(name string) int32 {
	level, _ := im.features.get(name)
	return level
}

// Features returns all finalized features by name.
func (im *Image) Features() iter.Seq2[string, int32] { return im.features.all() }

// NextProducerID returns the lowest producer id that was not handed out.
func (im *Image) NextProducerID() int64 { return im.nextProducerID }

// Config returns the value set for one key of one resource.
func (im *Image) Config(t metadatapb.ResourceType, resource, key string) (string, bool) {
	return im.configs.get(configKey{t, resource, key})
}

// Configs returns what is set for a resource, by key.
func (im *Image) Configs(t metadatapb.ResourceType, resource string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for k, v := range im.configs.from(configKey{t, resource, ""}) {
			if k.resourceType != t || k.resource != resource || !yield(k.key, v) {
				return
			}
		}
	}
}

// values returns the values of a tree of pointers in the order of the keys.
func values[K, V any](t *tree[K, *V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.all() {
			if !yield(*v) {
				return
			}
		}
	}
}
