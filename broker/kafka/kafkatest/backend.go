package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ClusterID is the cluster that every backend belongs to.
const ClusterID = "kafkatest-cluster-0000"

// Backend is the broker. Its Hook fields are set before it is used.
type Backend struct {
	id image.BrokerID
	// Refuse, if set, is asked before a change is made; an error is what the forwarder returns.
	Refuse func() error
	// ApplyThenFail, if set, is asked after a change was made; an error is what the forwarder returns.
	ApplyThenFail func() error
	// RefuseTopic, if set, is what every creation of a topic is refused with.
	RefuseTopic controllerpb.ErrorCode
	// Applied, if set, is waited on by WaitApplied.
	Applied func(context.Context) error
	// Defaults and Statics are the broker's configuration.
	Defaults, Statics map[string]string

	mu       sync.Mutex
	im       *image.Image
	offset   image.MetadataOffset
	parts    map[image.PartitionID]*Partition
	changed  func(image.PartitionID)
	nextID   int64
	requests []string // ids of the changes asked for
}

// New makes a broker of an empty cluster.
func New(id image.BrokerID) *Backend {
	return &Backend{
		id: id, im: image.Empty(), offset: image.NoOffset, nextID: 1000,
		parts:   map[image.PartitionID]*Partition{},
		changed: func(image.PartitionID) {},
		Defaults: map[string]string{
			"message.max.bytes": "1048588", "retention.ms": "604800000", "retention.bytes": "-1", "segment.bytes": "1073741824",
			"min.insync.replicas": "1", "compression.type": "producer", "log.cleanup.policy": "delete", "node.id": "-1",
			"num.partitions": "1", "unclean.leader.election.enable": "false",
		},
		Statics: map[string]string{"node.id": strconv.Itoa(int(id))},
	}
}

// Kafka is the backend in the listener's form.
func (b *Backend) Kafka() kafka.Backend {
	return kafka.Backend{Metadata: b, Configs: b, Partitions: b, Admin: b, ProducerIDs: b}
}

// OnChange sets who is told of changes of partitions.
func (b *Backend) OnChange(f func(image.PartitionID)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = f
}

// Image implements [kafka.Metadata].
func (b *Backend) Image() *image.Image {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.im
}

// BrokerID implements [kafka.Metadata].
func (b *Backend) BrokerID() image.BrokerID { return b.id }

// ClusterID implements [kafka.Metadata].
func (b *Backend) ClusterID() string { return ClusterID }

// Default implements [kafka.Configs].
func (b *Backend) Default(key string) (string, bool) { v, ok := b.Defaults[key]; return v, ok }

// Static implements [kafka.Configs].
func (b *Backend) Static(key string) (string, bool) { v, ok := b.Statics[key]; return v, ok }

// Next implements [kafka.ProducerIDs].
func (b *Backend) Next(context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nextID++
	return b.nextID, nil
}

// Lookup implements [kafka.Partitions].
func (b *Backend) Lookup(id image.PartitionID) (kafka.Partition, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.parts[id]; p != nil {
		return p, nil
	}
	return nil, kerr.NotLeaderForPartition
}

// Partition returns a hosted partition by its topic's name.
func (b *Backend) Partition(topic string, index int32) *Partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, _ := b.im.TopicByName(topic)
	return b.parts[image.PartitionID{Topic: t.ID(), Partition: index}]
}

// Broker is a registration.
type Broker struct {
	ID     image.BrokerID
	Host   string
	Port   int
	Rack   *string
	Fenced bool
	// NoKafka leaves the KAFKA address out.
	NoKafka bool
}

// SetBroker registers a broker, or replaces its registration.
func (b *Backend) SetBroker(r Broker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rec := &metadatapb.RegisterBroker{
		BrokerId: int32(r.ID), BrokerEpoch: int64(b.offset) + 1, RegistrationOffset: int64(b.offset) + 1, Fenced: r.Fenced, Rack: r.Rack,
		IncarnationId: bytesOf(byte(r.ID)), DirectoryId: bytesOf(byte(r.ID)), StopKind: metadatapb.StopKind_STOP_KIND_NEVER_RAN,
	}
	if !r.NoKafka {
		rec.Listeners = []*metadatapb.Listener{{Name: "KAFKA", Host: r.Host, Port: uint32(r.Port)}}
	}
	b.replay(&metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: rec}})
}

// SetConfig sets a key of a resource; the empty broker name stands for all brokers.
func (b *Backend) SetConfig(t metadatapb.ResourceType, name, key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replay(&metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
		ResourceType: t, ResourceName: name, Key: key, Value: &value}}})
}

// CreateTopic makes a topic whose partitions all have these replicas, the first of which leads.
func (b *Backend) CreateTopic(name string, partitions int, replicas ...int32) image.TopicID {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := image.UUID{0: 1, 14: byte(b.offset >> 8), 15: byte(b.offset)}
	b.createLocked(name, id, partitions, replicas)
	return id
}

func (b *Backend) createLocked(name string, id image.TopicID, partitions int, replicas []int32) {
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id.Bytes()}}}}
	for i := range int32(partitions) {
		leader := replicas[0]
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
			TopicId: id.Bytes(), Partition: i, Replicas: replicas, Isr: replicas, Leader: &leader,
			LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED}}})
	}
	b.replay(records...)
	if !slices.Contains(replicas, int32(b.id)) {
		return
	}
	for i := range int32(partitions) {
		pid := image.PartitionID{Topic: id, Partition: i}
		b.parts[pid] = &Partition{leads: replicas[0] == int32(b.id), minISR: 1, isr: len(replicas),
			changed: func() { b.tell(pid) }, producers: map[int64][]producerBatch{}}
	}
}

// SetLeader moves the leadership of a partition, or takes it away with -1.
func (b *Backend) SetLeader(topic string, index int32, leader image.BrokerID) {
	b.mu.Lock()
	t, _ := b.im.TopicByName(topic)
	id := image.PartitionID{Topic: t.ID(), Partition: index}
	change := &metadatapb.PartitionChange{TopicId: id.Topic.Bytes(), Partition: index, Leader: &metadatapb.LeaderChange{}}
	if leader >= 0 {
		l := int32(leader)
		change.Leader.Leader = &l
	}
	b.replay(&metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: change}})
	p, _ := b.im.Partition(id)
	hosted := b.parts[id]
	b.mu.Unlock()
	if hosted != nil {
		hosted.setLeader(leader == b.id, p.LeaderEpoch)
	}
}

func (b *Backend) tell(id image.PartitionID) {
	b.mu.Lock()
	f := b.changed
	b.mu.Unlock()
	f(id)
}

func (b *Backend) replay(records ...*metadatapb.Record) {
	d := b.im.Fork()
	for _, r := range records {
		b.offset++
		if err := d.Replay(b.offset, r); err != nil {
			panic(fmt.Sprintf("kafkatest: %v", err))
		}
	}
	b.im = d.Seal(b.offset, image.Chain(b.offset))
}

func bytesOf(b byte) []byte { return append(make([]byte, 15), b) }

// RequestIDs are the ids of the changes that the listener has forwarded.
func (b *Backend) RequestIDs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// WaitApplied implements [kafka.Admin].
func (b *Backend) WaitApplied(ctx context.Context, _ image.MetadataOffset) error {
	if b.Applied != nil {
		return b.Applied(ctx)
	}
	return nil
}

// WaitEveryBroker implements [kafka.Admin].
func (b *Backend) WaitEveryBroker(context.Context, image.MetadataOffset, []image.BrokerID) error {
	return nil
}

// CreateTopics implements [kafka.Admin] as a small controller would: it knows existing names and bad counts.
func (b *Backend) CreateTopics(_ context.Context, _ kafka.Caller, req *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
	if err := ask(b.Refuse); err != nil {
		return nil, err
	}
	b.mu.Lock()
	resp := &controllerpb.CreateTopicsResponse{}
	b.requests = append(b.requests, req.RequestId)
	for _, t := range req.Topics {
		resp.Topics = append(resp.Topics, b.create(t, req.ValidateOnly))
	}
	resp.MetadataOffset = int64(b.offset)
	resp.UnfencedBrokers = []int32{int32(b.id)}
	b.mu.Unlock()
	if err := ask(b.ApplyThenFail); err != nil {
		return nil, err
	}
	return resp, nil
}

// partitionsMax keeps a fake topic small.
const partitionsMax = 1000

func (b *Backend) create(t *controllerpb.CreatableTopic, validateOnly bool) *controllerpb.CreatableTopicResult {
	out := &controllerpb.CreatableTopicResult{Name: t.Name, TopicId: t.TopicId, Partitions: 1, ReplicationFactor: 1, Configs: t.Configs}
	if t.Partitions != nil {
		out.Partitions = *t.Partitions
	}
	switch _, exists := b.im.TopicByName(t.Name); {
	case b.RefuseTopic != 0:
		out.Error = controllerpb.NewError(b.RefuseTopic, "no topic is created")
	case exists:
		out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS, "topic %q exists", t.Name)
	case t.Name == "":
		out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_TOPIC_EXCEPTION, "the name is empty")
	case slices.ContainsFunc(t.Configs, func(c *controllerpb.ConfigEntry) bool { return c.Name == "" || c.Value == nil }):
		out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG, "a config without key or value")
	case out.Partitions <= 0 || out.Partitions > partitionsMax:
		out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS, "%d partitions; 1 to %d", out.Partitions, partitionsMax)
	case t.GetReplicationFactor() > 1:
		out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "factor %d, 1 broker", t.GetReplicationFactor())
	case !validateOnly:
		b.createLocked(t.Name, image.TopicID(t.TopicId), int(out.Partitions), []int32{int32(b.id)})
		for _, c := range t.Configs {
			b.replay(&metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
				ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, ResourceName: t.Name, Key: c.Name, Value: c.Value}}})
		}
	}
	return out
}

// DeleteTopics implements [kafka.Admin].
func (b *Backend) DeleteTopics(_ context.Context, _ kafka.Caller, req *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
	if err := ask(b.Refuse); err != nil {
		return nil, err
	}
	b.mu.Lock()
	resp := &controllerpb.DeleteTopicsResponse{}
	b.requests = append(b.requests, req.RequestId)
	var gone []image.PartitionID
	for _, t := range req.Topics {
		out := &controllerpb.DeletableTopicResult{Name: t.Name, TopicId: t.TopicId}
		topic, ok := b.im.TopicByName(t.GetName())
		code := controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION
		if t.Name == nil {
			topic, ok = b.im.TopicByID(image.TopicID(t.TopicId))
			code = controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID
		}
		if ok {
			name := topic.Name()
			out.Name, out.TopicId = &name, topic.ID().Bytes()
			for i := range int32(topic.Len()) {
				gone = append(gone, image.PartitionID{Topic: topic.ID(), Partition: i})
				delete(b.parts, gone[len(gone)-1])
			}
			b.replay(&metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topic.ID().Bytes()}}})
		} else {
			out.Error = controllerpb.NewError(code, "no such topic")
		}
		resp.Topics = append(resp.Topics, out)
	}
	resp.MetadataOffset = int64(b.offset)
	resp.UnfencedBrokers = []int32{int32(b.id)}
	b.mu.Unlock()
	for _, id := range gone {
		b.tell(id)
	}
	if err := ask(b.ApplyThenFail); err != nil {
		return nil, err
	}
	return resp, nil
}

func ask(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}
