package bench

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

var shapes = []struct {
	name  string
	shape Shape
}{{"100k", Hundred100k}, {"2M", TwoMillion}}

// BenchmarkImageHeap weighs an image, in bytes a partition, beside a Go map of the same partitions without indexes.
func BenchmarkImageHeap(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			var rounds Rounds
			n := float64(s.shape.Size())
			for b.Loop() {
				before := heap()
				im := s.shape.mustBuild(b)
				ours := heap() - before
				runtime.KeepAlive(im)
				im = nil
				before = heap()
				m := s.shape.buildPlain()
				rounds.Add(ours/n, (heap()-before)/n)
				runtime.KeepAlive(m)
			}
			rounds.Report(b)
		})
	}
}

const (
	// applyBatch is how many changes one published image takes.
	applyBatch = 100
	// applyBatches is how many images a round publishes.
	applyBatches = 300
)

// changes makes ISR changes of random partitions, shrink and expand by turns.
func (s Shape) changes(rnd *rand.Rand, shrunk map[int]bool, count int) []*metadatapb.Record {
	out := make([]*metadatapb.Record, count)
	for i := range out {
		n := rnd.IntN(s.Size())
		replicas := s.Replicas(n)
		isr := replicas[:]
		if !shrunk[n] {
			isr = replicas[:2]
		}
		shrunk[n] = !shrunk[n]
		id := s.TopicID(n / s.Partitions)
		out[i] = &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{
			TopicId: id[:], Partition: int32(n % s.Partitions), Isr: &metadatapb.BrokerIds{Ids: isr},
		}}}
	}
	return out
}

// BenchmarkImageApply changes partitions in batches of 100 and publishes an image a batch, in microseconds a change, beside the
// same changes of a Go map in place, which no reader could share. Both are those of a round's middle batch: a batch takes so
// short a time that what else runs on the machine hits few of them.
func BenchmarkImageApply(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			im, m := s.shape.mustBuild(b), s.shape.buildPlain()
			rnd, shrunk := rand.New(rand.NewPCG(1, 2)), map[int]bool{}
			var rounds Rounds
			for b.Loop() {
				records := s.shape.changes(rnd, shrunk, applyBatch*applyBatches)
				ours := middleBatch(b, records, func(batch []*metadatapb.Record) error {
					d := im.Fork()
					for _, r := range batch {
						if err := d.Replay(im.Offset()+1, r); err != nil {
							return err
						}
					}
					im = d.Seal(im.Offset()+1, 0)
					return nil
				})
				rounds.Add(ours, middleBatch(b, records, func(batch []*metadatapb.Record) error {
					for _, r := range batch {
						m.change(r.GetPartitionChange())
					}
					return nil
				}))
			}
			rounds.Report(b)
			m.verify(b, im)
		})
	}
}

// middleBatch applies the records batch by batch and gives the microseconds a record of the middle one.
func middleBatch(b *testing.B, records []*metadatapb.Record, apply func([]*metadatapb.Record) error) float64 {
	b.Helper()
	runtime.GC()
	var took []float64
	for batch := range slices.Chunk(records, applyBatch) {
		began := time.Now()
		if err := apply(batch); err != nil {
			b.Fatal(err)
		}
		took = append(took, microseconds(time.Since(began))/applyBatch)
	}
	return Median(took)
}

// change does what replaying the record does, without keeping what was before.
func (m plainImage) change(c *metadatapb.PartitionChange) {
	id, _ := image.UUIDFrom(c.TopicId)
	p := m[image.PartitionID{Topic: id, Partition: c.Partition}]
	p.isr = append([]int32(nil), c.Isr.Ids...)
	p.partitionEpoch++
}

// verify compares both sides: a fast wrong answer is none.
func (m plainImage) verify(b *testing.B, im *image.Image) {
	b.Helper()
	for id, want := range m {
		p, ok := im.Partition(id)
		if !ok || int32(p.PartitionEpoch) != want.partitionEpoch || len(p.ISR) != len(want.isr) {
			b.Fatalf("%v: image has %v, the map %+v", id, p, want)
		}
	}
}

// BenchmarkSnapshotLoad loads an image from a cached file, in milliseconds of processor time, beside reading the file with its checksum.
func BenchmarkSnapshotLoad(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "snapshot")
			writeSnapshot(b, path, s.shape.mustBuild(b))
			var rounds Rounds
			for b.Loop() {
				runtime.GC()
				ours := readFile(b, path, func(r io.Reader) error {
					_, im, err := snapshot.Read(r)
					if err == nil && im.PartitionCount() != s.shape.Size() {
						err = fmt.Errorf("%d partitions", im.PartitionCount())
					}
					return err
				})
				runtime.GC()
				rounds.Add(ours, readFile(b, path, checksum))
			}
			rounds.Report(b)
		})
	}
}

func writeSnapshot(b *testing.B, path string, im *image.Image) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 256<<10)
	header := &metadatapb.SnapshotHeader{ClaimIndex: 3, ClaimTerm: 2, ExpectedSequence: 9, TimeMs: 77, ClusterId: "c", RaftIndex: 40}
	if err := snapshot.Write(w, header, im); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}

// checksum reads to the end with the checksum that snapshots use.
func checksum(r io.Reader) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf, crc := make([]byte, 256<<10), uint32(0)
	for {
		n, err := r.Read(buf)
		crc = crc32.Update(crc, table, buf[:n])
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// readFile tells what a read of a file costs, in milliseconds of processor time.
func readFile(b *testing.B, path string, read func(io.Reader) error) float64 {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	began := cpuTime()
	if err := read(f); err != nil {
		b.Fatal(err)
	}
	return (cpuTime() - began) / 1000
}
