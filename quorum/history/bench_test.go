package history

import (
	"context"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// benchBytes is what a benchmark's history takes.
const benchBytes = 32 << 20

// benchHistory is filled with small changes of a thousand partitions, each topic in a stretch of its own.
func benchHistory(b *testing.B) (*rig, *chainOf, int64) {
	b.Helper()
	r, c := newRig(b), newChain(b, 0)
	r.cfg.SegmentBytes = 2 << 20
	size := int64(0)
	for i := 0; size < benchBytes; i++ {
		d := &metadatapb.Decision{Cause: &metadatapb.Cause{Name: "AlterPartition", Principal: "ANONYMOUS"}}
		for p := range int32(20) {
			change := &metadatapb.PartitionChange{Partition: p, Isr: idList(1, 2, 3), Reason: metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP, TopicId: topicID(int(size * 50 / benchBytes)).Bytes()}
			d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: change}})
		}
		c.add(b, d)
		size += int64(len(c.entries[i].Bytes))
	}
	return r, c, size
}

func BenchmarkAppend(b *testing.B) {
	r, c, size := benchHistory(b)
	b.SetBytes(size)
	for b.Loop() {
		r.cfg.Dir = b.TempDir()
		h := r.open()
		for from := 0; from < len(c.entries); from += 100 {
			h.queue.putEntries(c.entries[from:min(from+100, len(c.entries))])
			h.drain()
		}
		h.store.close()
	}
}

func BenchmarkRead(b *testing.B) {
	r, c, size := benchHistory(b)
	h := r.open()
	for from := 0; from < len(c.entries); from += 100 {
		h.queue.putEntries(c.entries[from:min(from+100, len(c.entries))])
		h.drain()
	}
	for name, about := range map[string]*Topic{"all": nil, "oneTopic": {ID: topicID(3)}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				tracker := NewTrackerBehind(topicID(3), 0)
				if err := h.Read(context.Background(), 0, c.end(), about, func(p Piece) error {
					if about == nil {
						return nil
					}
					return tracker.Entry(p.Entry, nothing)
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	h.store.close()
}

func nothing(*controllerpb.PartitionEvent) error { return nil }
