package image

import (
	"fmt"
	"runtime"
	"testing"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// buildImage makes topics × partitions, RF 3 over the brokers.
func buildImage(tb testing.TB, topics, partitions, brokers int) *Image {
	d := Load()
	for b := range brokers {
		r := &metadatapb.RegisterBroker{BrokerId: int32(b), IncarnationId: testID(b + 1), DirectoryId: testID(b + 1), BrokerEpoch: int64(b)}
		if err := d.Replay(0, recBroker(r)); err != nil {
			tb.Fatal(err)
		}
	}
	n := 0
	for t := range topics {
		if err := d.Replay(0, recTopic(fmt.Sprintf("topic-%07d", t), t+1)); err != nil {
			tb.Fatal(err)
		}
		for p := range partitions {
			a := int32(n % brokers)
			b := int32((n*7 + 1 + n/brokers) % brokers)
			c := int32((n*13 + 5 + n/brokers*3) % brokers)
			for b == a {
				b = (b + 1) % int32(brokers)
			}
			for c == a || c == b {
				c = (c + 1) % int32(brokers)
			}
			n++
			r := &metadatapb.Partition{TopicId: testID(t + 1), Partition: int32(p), Replicas: []int32{a, b, c}, Isr: []int32{a, b, c}, Leader: &a,
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED}
			if err := d.Replay(0, recPartition(r)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return d.Seal(0, 0)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var shapes = []struct{ topics, partitions, brokers int }{{1000, 100, 100}, {10000, 10, 10}, {200000, 10, 100}}

// BenchmarkStateCounts: what a scrape costs does not depend on the number of partitions.
func BenchmarkStateCounts(b *testing.B) {
	for _, s := range shapes[:2] {
		im := buildImage(b, s.topics, s.partitions, s.brokers)
		b.Run(fmt.Sprintf("%dx%d/%d", s.topics, s.partitions, s.brokers), func(b *testing.B) {
			for b.Loop() {
				if im.StateCounts().Partitions[PartitionOnline] != s.topics*s.partitions {
					b.Fatal("counts")
				}
			}
		})
	}
}

func BenchmarkHeap(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			for range b.N {
				before := heap()
				im := buildImage(b, s.topics, s.partitions, s.brokers)
				b.ReportMetric(float64(heap()-before)/float64(im.PartitionCount()), "B/partition")
				runtime.KeepAlive(im)
			}
		})
	}
}

func BenchmarkChangePublish(b *testing.B) {
	for _, s := range shapes {
		im := buildImage(b, s.topics, s.partitions, s.brokers)
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("%dx%d/batch=%d", s.topics, s.partitions, batch), func(b *testing.B) {
				b.ReportAllocs()
				x := uint32(1)
				for i := 0; i < b.N; i += batch {
					d := im.Fork()
					for range batch {
						x = x*1664525 + 1013904223
						topic, part := int(x>>8)%s.topics, int32(x>>16)%int32(s.partitions)
						if part < 0 {
							part = -part
						}
						t, _ := im.TopicByID(TopicID(testID(topic + 1)))
						p, _ := t.Partition(part)
						c := &metadatapb.PartitionChange{TopicId: testID(topic + 1), Partition: part}
						if len(p.ISR) == 3 {
							c.Isr = idsOf(int32(p.ISR[0]), int32(p.ISR[1]))
						} else {
							c.Isr = idsOf(Int32s(p.Replicas)...)
						}
						if err := d.Replay(1, recChange(c)); err != nil {
							b.Fatal(err)
						}
					}
					im = d.Seal(1, 0)
				}
			})
		}
	}
}

func BenchmarkFenceScan(b *testing.B) {
	for _, s := range shapes {
		im := buildImage(b, s.topics, s.partitions, s.brokers)
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			for range b.N {
				n := 0
				for range im.PartitionsWithISR(1) {
					n++
				}
				b.ReportMetric(float64(n), "partitions")
			}
		})
	}
}
