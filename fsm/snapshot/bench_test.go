package snapshot

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// bigImage has topics × partitions of RF 3 over 100 brokers.
func bigImage(tb testing.TB, topics, partitions int) *image.Image {
	d := image.Load()
	replay := func(r *metadatapb.Record) {
		if err := d.Replay(0, r); err != nil {
			tb.Fatal(err)
		}
	}
	n := 0
	for t := range topics {
		topic := id(7)
		topic[0], topic[1], topic[2], topic[3] = byte(t*131), byte(t>>8), byte(t>>16), byte(t)
		replay(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: fmt.Sprintf("topic-%07d", t), TopicId: topic}}})
		for p := range partitions {
			n++
			a := int32(n % 100)
			replicas := []int32{a, (a + 1 + int32(n/100%98)) % 100, (a + 99) % 100}
			replay(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{TopicId: topic, Partition: int32(p),
				Replicas: replicas, Isr: replicas, Leader: &a, LeaderEpoch: 3, PartitionEpoch: 9,
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED}}})
		}
	}
	return d.Seal(image.MetadataOffset(n), 1)
}

// BenchmarkLoad compares loading a snapshot file with reading the same file with its checksum, in the same run.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []struct{ topics, partitions int }{{1000, 100}, {10000, 10}, {200000, 10}} {
		b.Run(fmt.Sprintf("%dx%d", shape.topics, shape.partitions), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "snapshot")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			w := bufio.NewWriterSize(f, 256<<10)
			if err := Write(w, header(), bigImage(b, shape.topics, shape.partitions)); err != nil {
				b.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				b.Fatal(err)
			}
			_ = f.Close()
			var floor, load []time.Duration
			for range b.N {
				floor = append(floor, timed(b, path, checksum))
				load = append(load, timed(b, path, func(r io.Reader) error {
					_, _, err := Read(r)
					return err
				}))
			}
			n := float64(shape.topics * shape.partitions)
			slices.Sort(floor)
			slices.Sort(load)
			b.ReportMetric(float64(load[len(load)/2])/float64(floor[len(floor)/2]), "×floor-median")
			b.ReportMetric(float64(load[0])/float64(floor[0]), "×floor-least")
			b.ReportMetric(float64(load[0].Nanoseconds())/n, "ns/partition-least")
		})
	}
}

// checksum reads to the end with the snapshot's checksum, and does nothing else.
func checksum(r io.Reader) error {
	buf, crc := make([]byte, 64<<10), uint32(0)
	for {
		n, err := r.Read(buf)
		crc = crc32.Update(crc, castagnoli, buf[:n])
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func timed(b *testing.B, path string, fn func(io.Reader) error) time.Duration {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	start := time.Now()
	if err := fn(f); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}
