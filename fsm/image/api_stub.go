package image

import (
	"io"
	"iter"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Topic is a handle on a topic of one image.
type Topic struct{}

func (t Topic) Name() string                            { return "" }
func (t Topic) ID() TopicID                             { return TopicID{} }
func (t Topic) Len() int                                { return 0 }
func (t Topic) Partition(i int32) (Partition, bool)     { return Partition{}, false }
func (t Topic) Partitions() iter.Seq2[int32, Partition] { return func(func(int32, Partition) bool) {} }

// Image is the state at one metadata offset.
type Image struct{}

func Empty() *Image                                                     { return &Image{} }
func (im *Image) Offset() MetadataOffset                                { return NoOffset }
func (im *Image) Chain() Chain                                          { return 0 }
func (im *Image) TopicByID(id TopicID) (Topic, bool)                    { return Topic{}, false }
func (im *Image) TopicByName(name string) (Topic, bool)                 { return Topic{}, false }
func (im *Image) Topics() iter.Seq[Topic]                               { return func(func(Topic) bool) {} }
func (im *Image) TopicCount() int                                       { return 0 }
func (im *Image) PartitionCount() int                                   { return 0 }
func (im *Image) Partition(id PartitionID) (Partition, bool)            { return Partition{}, false }
func (im *Image) CollidingTopic(name string) (existing string, ok bool) { return "", false }
func (im *Image) Broker(id BrokerID) (Broker, bool)                     { return Broker{}, false }
func (im *Image) Brokers() iter.Seq[Broker]                             { return func(func(Broker) bool) {} }
func (im *Image) BrokerCount() int                                      { return 0 }
func (im *Image) Controller(id BrokerID) (Controller, bool)             { return Controller{}, false }
func (im *Image) Controllers() iter.Seq[Controller]                     { return func(func(Controller) bool) {} }
func (im *Image) Config(t metadatapb.ResourceType, resource, key string) (string, bool) {
	return "", false
}
func (im *Image) Configs(t metadatapb.ResourceType, resource string) iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}
func (im *Image) Feature(name string) int32 { return 0 }
func (im *Image) Features() iter.Seq2[string, int32] {
	return func(func(string, int32) bool) {}
}
func (im *Image) NextProducerID() int64 { return 0 }
func (im *Image) PendingDeletions() iter.Seq[PendingDeletion] {
	return func(func(PendingDeletion) bool) {}
}
func (im *Image) PendingDeletion(id TopicID) (PendingDeletion, bool) {
	return PendingDeletion{}, false
}

type partitionSeq = iter.Seq2[PartitionID, Partition]

func (im *Image) PartitionsWithISR(b BrokerID) partitionSeq {
	return func(func(PartitionID, Partition) bool) {}
}
func (im *Image) PartitionsWithELR(b BrokerID) partitionSeq {
	return func(func(PartitionID, Partition) bool) {}
}
func (im *Image) PartitionsOn(b BrokerID) partitionSeq {
	return func(func(PartitionID, Partition) bool) {}
}
func (im *Image) Leaderless() partitionSeq    { return func(func(PartitionID, Partition) bool) {} }
func (im *Image) NotPreferred() partitionSeq  { return func(func(PartitionID, Partition) bool) {} }
func (im *Image) Reassigning() partitionSeq   { return func(func(PartitionID, Partition) bool) {} }
func (im *Image) LeaderCount(b BrokerID) int  { return 0 }
func (im *Image) ReplicaCount(b BrokerID) int { return 0 }
func (im *Image) LeaderlessCount() int        { return 0 }
func (im *Image) Fork() *Delta                { return &Delta{} }
func (im *Image) Records() iter.Seq[*metadatapb.Record] {
	return func(func(*metadatapb.Record) bool) {}
}
func (im *Image) WriteJSON(w io.Writer) error { return nil }
func (im *Image) Fingerprint() uint64         { return 0 }

// Delta is an image in the making.
type Delta struct{}

// Load returns a delta over the empty image for the records of a snapshot; it does not keep what changed.
func Load() *Delta                                                        { return &Delta{} }
func (d *Delta) Replay(offset MetadataOffset, r *metadatapb.Record) error { return nil }
func (d *Delta) Seal(offset MetadataOffset, chain Chain) *Image           { return &Image{} }
func (d *Delta) Partitions() []PartitionID                                { return nil }
func (d *Delta) Brokers() []BrokerID                                      { return nil }
func (d *Delta) CreatedTopics() []TopicRef                                { return nil }
func (d *Delta) RemovedTopics() []TopicRef                                { return nil }

// TopicRef names a topic.
type TopicRef struct {
	ID   TopicID
	Name string
}

// Changes is what lies between two images.
type Changes struct {
	Partitions                          []PartitionChange
	CreatedTopics, RemovedTopics        []TopicRef
	Brokers, Controllers                []BrokerID
	Configs, Features, PendingDeletions bool
}

// PartitionChange is a partition in two images; Old or New is nil where it does not exist.
type PartitionChange struct {
	ID       PartitionID
	Old, New *Partition
}

// Diff compares two images of one cluster.
func Diff(old, new *Image) *Changes { return &Changes{} }

// BrokerChanges is what lies between two images for one broker.
type BrokerChanges struct {
	// Deletes: no longer a replica, or the topic is gone.
	Deletes []PartitionID
	// Leaders: I lead, and the partition epoch changed. ElectedLeaders: the subset whose leader epoch changed.
	Leaders, ElectedLeaders []LocalPartition
	// Followers: I am a replica, do not lead, and the partition epoch changed.
	Followers []LocalPartition
}

// LocalPartition is a partition as the newer image has it.
type LocalPartition struct {
	ID        PartitionID
	Partition Partition
}

// LocalChanges compares two images for one broker.
func LocalChanges(old, new *Image, b BrokerID) *BrokerChanges { return &BrokerChanges{} }

// ConfigSource tells where an effective value comes from.
type ConfigSource int

const (
	ConfigSourceNone ConfigSource = iota
	ConfigSourceTopic
	ConfigSourceClusterDefault
	ConfigSourceStatic
)

// EffectiveConfig returns the value in force for a topic: topic, then cluster default (the broker resource with
// the empty name), then the static default handed in.
func (im *Image) EffectiveConfig(topic, key string, static map[string]string) (string, ConfigSource) {
	return "", ConfigSourceNone
}

// MinInsyncReplicas returns min.insync.replicas in force for a topic, at most replicas.
func (im *Image) MinInsyncReplicas(topic string, replicas int) int { return 1 }
