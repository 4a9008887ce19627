package snapshot

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"
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

// BenchmarkLoad reports the processor time to load a snapshot file, and its ratio to reading the same file with its checksum,
// measured in the same run.
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
			var floor, load time.Duration
			b.ResetTimer()
			for range b.N {
				floor += timed(b, path, func(r io.Reader) error {
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
				})
				load += timed(b, path, func(r io.Reader) error {
					_, _, err := Read(bufio.NewReaderSize(r, 256<<10))
					return err
				})
			}
			n := float64(shape.topics * shape.partitions * b.N)
			b.ReportMetric(float64(load)/float64(floor), "×floor")
			b.ReportMetric(float64(load.Nanoseconds())/n, "ns/partition")
			b.ReportMetric(float64(floor.Nanoseconds())/n, "floor-ns/partition")
		})
	}
}

// timed returns the processor time that fn takes: unlike the time on the wall it does not depend on who else uses the machine.
func timed(b *testing.B, path string, fn func(io.Reader) error) time.Duration {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	start := cpuTime(b)
	if err := fn(f); err != nil {
		b.Fatal(err)
	}
	return cpuTime(b) - start
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
