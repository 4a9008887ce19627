package fsm

import (
	"fmt"
	"sync"
	"testing"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// TestEntriesAreSeenWhole: whoever looks while entries of many records are applied, at the image, at what streams are fed from, or by
// taking a snapshot and restoring it, sees each entry whole or not at all. That is what Kafka has transaction records for (KIP-868).
func TestEntriesAreSeenWhole(t *testing.T) {
	const entries, partitions = 60, 24
	const records = partitions + 1
	whole := func(f *FSM) error { return standsBetweenEntries(f, partitions) }
	a := newAuthor(t)
	f := newFSM(t, nil)
	f.Apply(a.claim())
	over := make(chan struct{})
	var looking sync.WaitGroup
	look := func(once func() error) {
		looking.Go(func() {
			for last := false; !last; {
				select {
				case <-over:
					last = true // and once more
				default:
				}
				if err := once(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	look(func() error { return whole(f) })
	look(func() error {
		fed, ok := f.After(-1, entries)
		for _, e := range fed {
			if !ok || e.Records != records || int64(e.LastOffset-e.BaseOffset) != records-1 {
				return fmt.Errorf("a stream is fed %d records at %d", e.Records, e.BaseOffset)
			}
		}
		return nil
	})
	look(func() error {
		s, err := f.Snapshot()
		if err != nil {
			return err
		}
		defer s.Release()
		restored := newFSM(t, nil)
		restoreFrom(t, s, restored)
		return whole(restored)
	})
	for n := range entries {
		made := []*metadatapb.Record{topicRecord(n+1, fmt.Sprintf("t%02d", n))}
		for p := range partitions {
			made = append(made, partitionRecord(n+1, p, 1, 2, 3))
		}
		f.Apply(a.entry(made...))
	}
	close(over)
	looking.Wait()
	if f.Image().TopicCount() != entries {
		t.Errorf("%d topics", f.Image().TopicCount())
	}
}

// standsBetweenEntries finds out whether what is shown is the whole of some entries, each of a topic and its partitions.
func standsBetweenEntries(f *FSM, partitions int) error {
	p := f.Position()
	if (int(p.Image.Offset())+1)%(partitions+1) != 0 || p.State.Offset != p.Image.Offset() {
		return fmt.Errorf("an image at offset %d, the state at %d: inside an entry", p.Image.Offset(), p.State.Offset)
	}
	for topic := range p.Image.Topics() {
		n := 0
		for range topic.Partitions() {
			n++
		}
		if n != partitions {
			return fmt.Errorf("at offset %d topic %s has %d partitions", p.Image.Offset(), topic.Name(), n)
		}
	}
	return nil
}
