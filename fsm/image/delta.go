package image

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ErrReplay tells that a record does not fit the state it is replayed on: the log is broken, or what was decided is.
// The delta must be dropped. A process that meets it in the committed log stops.
var ErrReplay = errors.New("image: record does not fit")

// Delta is an image in the making. It belongs to one goroutine, and takes records until it is sealed.
type Delta struct {
	state
	sealed bool
	// snapshot: records are those of a snapshot, and state stored in them is taken as it is.
	snapshot bool
	offset   MetadataOffset // of the record being replayed

	// What changed. A snapshot's delta does not keep it.
	partitionsChanged []PartitionID
	brokersChanged    []BrokerID
	created, removed  []TopicRef

	// Room that is used again for each record.
	before, after Partition
	room1, room2  [8 * maxSlots]BrokerID
	recent        []recentIndex
	decoder       *record.Decoder
	short         record.ShortPartition
	// Found by the record before, and likely to be wanted again.
	lastTopic      *topicEntry
	lastPage       *partitionPage
	lastPageNumber uint32
	// A snapshot's delta makes its pages in groups.
	pageSlab    *slab[partitionPage]
	bitSlab     *slab[bitPage]
	hashedTopic *topicEntry
	topicHash   hash
}

// TopicRef names a topic.
type TopicRef struct {
	ID   TopicID
	Name string
}

// Fork returns a delta over the image. It costs O(1); the image stays as it is.
func (im *Image) Fork() *Delta {
	d := &Delta{state: im.state, offset: im.offset}
	d.gen++
	return d
}

// Load returns a delta over the empty image for the records of a snapshot. Fields that replay otherwise derives from
// a record's offset are taken from the record, and the delta does not keep what changed.
func Load() *Delta {
	d := Empty().Fork()
	d.snapshot = true
	d.pageSlab, d.bitSlab = &slab[partitionPage]{size: partitionSlab}, &slab[bitPage]{size: bitSlab}
	return d
}

// Seal ends the delta and returns it as an image that ends with the record at offset.
func (d *Delta) Seal(offset MetadataOffset, chain Chain) *Image {
	d.mustBeOpen()
	d.sealed = true
	return &Image{state: d.state, offset: offset, chain: chain}
}

func (d *Delta) mustBeOpen() {
	if d.sealed {
		panic("image: delta used after Seal")
	}
}

// Replay applies the record that has the given metadata offset. An error wraps [ErrReplay] and names the offset.
func (d *Delta) Replay(offset MetadataOffset, r *metadatapb.Record) error {
	d.mustBeOpen()
	d.offset = offset
	if err := d.replay(r); err != nil {
		return fmt.Errorf("%w: offset %d: %w", ErrReplay, offset, err)
	}
	return nil
}

// ReplayEncoded is [Delta.Replay] of a record in its encoded form, without memory for the frequent kinds. An error of
// decoding wraps that of the package record.
func (d *Delta) ReplayEncoded(offset MetadataOffset, raw []byte) error {
	d.mustBeOpen()
	if d.decoder == nil {
		d.decoder = new(record.Decoder)
	}
	r, err := d.decoder.DecodeAt(offset, raw)
	if err != nil {
		return err
	}
	return d.Replay(offset, r)
}

// ReplayEntry replays all records of an entry.
func (d *Delta) ReplayEntry(e *record.RawEntry) error {
	for i, raw := range e.Records() {
		if err := d.ReplayEncoded(e.BaseOffset+MetadataOffset(i), raw); err != nil {
			return err
		}
	}
	return nil
}

func (d *Delta) replay(r *metadatapb.Record) error {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_PartitionChange:
		return d.changePartition(k.PartitionChange)
	case *metadatapb.Record_Partition:
		return d.addPartition(k.Partition)
	case *metadatapb.Record_Topic:
		return d.addTopic(k.Topic)
	case *metadatapb.Record_RemoveTopic:
		return d.removeTopic(k.RemoveTopic)
	case *metadatapb.Record_Config:
		return d.setConfig(k.Config)
	case *metadatapb.Record_RegisterBroker:
		return d.registerBroker(k.RegisterBroker)
	case *metadatapb.Record_BrokerRegistrationChange:
		return d.changeBroker(k.BrokerRegistrationChange)
	case *metadatapb.Record_UnregisterBroker:
		return d.unregisterBroker(k.UnregisterBroker)
	case *metadatapb.Record_RegisterController:
		return d.registerController(k.RegisterController)
	case *metadatapb.Record_RemovedController:
		return d.removeController(k.RemovedController)
	case *metadatapb.Record_PendingDeletion:
		return d.addPending(k.PendingDeletion)
	case *metadatapb.Record_ReplicasDeleted:
		return d.replicasDeleted(k.ReplicasDeleted)
	case *metadatapb.Record_ReplicaDeletionFailed:
		return d.replicaDeletionFailed(k.ReplicaDeletionFailed)
	case *metadatapb.Record_FeatureLevel:
		return d.setFeature(k.FeatureLevel)
	case *metadatapb.Record_ProducerIds:
		return d.setProducerIDs(k.ProducerIds)
	case *metadatapb.Record_Lineage:
		return d.beginLineage(k.Lineage)
	case *metadatapb.Record_LineageConfirmed:
		return d.confirmLineage(k.LineageConfirmed)
	}
	return fmt.Errorf("unknown kind of record (%T)", r.GetKind())
}

// Partitions returns the partitions that were created or changed and still exist, by topic id and number.
func (d *Delta) Partitions() []PartitionID {
	slices.SortFunc(d.partitionsChanged, PartitionID.Compare)
	d.partitionsChanged = slices.Compact(d.partitionsChanged)
	d.partitionsChanged = slices.DeleteFunc(d.partitionsChanged, func(id PartitionID) bool { return !d.topicByID.has(id.Topic) })
	return d.partitionsChanged
}

// Brokers returns the brokers whose registration was made, changed or removed, ascending.
func (d *Delta) Brokers() []BrokerID {
	slices.Sort(d.brokersChanged)
	d.brokersChanged = slices.Compact(d.brokersChanged)
	return d.brokersChanged
}

// CreatedTopics returns the topics that were created, in the order of the log, also those removed again.
func (d *Delta) CreatedTopics() []TopicRef { return d.created }

// RemovedTopics returns the topics that were removed, in the order of the log.
func (d *Delta) RemovedTopics() []TopicRef { return d.removed }

func (d *Delta) noteBroker(id BrokerID) {
	if !d.snapshot {
		d.brokersChanged = append(d.brokersChanged, id)
	}
}
