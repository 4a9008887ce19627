package bench

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Shape is the size of an image: every topic has as many partitions, each with three replicas.
type Shape struct{ Topics, Partitions, Brokers int }

// The shapes that the product's promises name.
var (
	Hundred100k = Shape{Topics: 1000, Partitions: 100, Brokers: 100}
	TwoMillion  = Shape{Topics: 200_000, Partitions: 10, Brokers: 100}
)

// Size is the number of partitions.
func (s Shape) Size() int { return s.Topics * s.Partitions }

// TopicID is the id of the shape's topic t. Ids are spread as random ones are.
func (s Shape) TopicID(t int) image.TopicID {
	x := uint64(t+1) * 0x9e3779b97f4a7c15
	id := image.UUID{6: 0x40, 8: 0x80, 15: 1}
	for i := range 6 {
		id[i] = byte(x >> (8 * (7 - i)))
	}
	id[9], id[10], id[11], id[12] = byte(t>>24), byte(t>>16), byte(t>>8), byte(t)
	return id
}

// Replicas are those of the n-th partition: leaders in turn, the others a varying distance behind.
func (s Shape) Replicas(n int) [3]int32 {
	a := n % s.Brokers
	b := (a + 1 + n/s.Brokers%(s.Brokers-2)) % s.Brokers
	c := (b + 1) % s.Brokers
	if c == a {
		c = (c + 1) % s.Brokers
	}
	return [3]int32{int32(a), int32(b), int32(c)}
}

// Build makes the image, with the newest features and all brokers registered and unfenced.
func (s Shape) Build() (*image.Image, error) {
	d := image.Load()
	offset := image.MetadataOffset(0)
	replay := func(r *metadatapb.Record) error {
		offset++
		return d.Replay(offset, r)
	}
	for _, f := range image.SupportedFeatures() {
		level := &metadatapb.FeatureLevel{Name: f.Name, Level: f.Max}
		if err := replay(&metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: level}}); err != nil {
			return nil, err
		}
	}
	for id := range int32(s.Brokers) {
		own := image.UUID{byte(id), 1, 6: 0x40, 8: 0x80, 15: 1}
		r := &metadatapb.RegisterBroker{
			BrokerId: id, IncarnationId: own.Bytes(), DirectoryId: own.Bytes(), BrokerEpoch: int64(offset) + 1,
			RegistrationOffset: int64(offset) + 1,
			Listeners:          []*metadatapb.Listener{{Name: "KAFKA", Host: fmt.Sprintf("broker-%d.example", id), Port: 9092}},
			Features:           image.DeclaredFeatures(),
		}
		if err := replay(&metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: r}}); err != nil {
			return nil, err
		}
	}
	for t := range s.Topics {
		id := s.TopicID(t)
		topic := &metadatapb.Topic{Name: fmt.Sprintf("topic-%07d", t), TopicId: id[:]}
		if err := replay(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: topic}}); err != nil {
			return nil, err
		}
		for p := range s.Partitions {
			replicas := s.Replicas(t*s.Partitions + p)
			if err := replay(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
				TopicId: id[:], Partition: int32(p), Replicas: replicas[:], Isr: replicas[:], Leader: &replicas[0],
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
			}}}); err != nil {
				return nil, err
			}
		}
	}
	return d.Seal(offset, 1), nil
}

func (s Shape) mustBuild(b *testing.B) *image.Image {
	b.Helper()
	im, err := s.Build()
	if err != nil {
		b.Fatal(err)
	}
	return im
}

// plain is a partition as a Go programmer would first write it down. It is the reference of heap and of changes.
type plain struct {
	replicas, isr       []int32
	leader, leaderEpoch int32
	partitionEpoch      int32
}

// plainImage is a map without history, indexes or readers.
type plainImage map[image.PartitionID]*plain

// buildPlain puts the same partitions into a Go map.
func (s Shape) buildPlain() plainImage {
	m := plainImage{}
	for t := range s.Topics {
		id := s.TopicID(t)
		for p := range s.Partitions {
			r := s.Replicas(t*s.Partitions + p)
			m[image.PartitionID{Topic: id, Partition: int32(p)}] = &plain{
				replicas: append([]int32(nil), r[:]...), isr: append([]int32(nil), r[:]...), leader: r[0], leaderEpoch: 1,
			}
		}
	}
	return m
}

// heap is what lives on it.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
