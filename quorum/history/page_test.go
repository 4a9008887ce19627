package history

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
)

// Readers that take nothing hold up nobody else, however many they are; and what they have taken in the end is all of it.
func TestSlowReadersHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 60)
		r.write(c.entries...)
		h := r.open()
		goOn := make(chan struct{})
		done := make(chan int, 3*readersMax)
		for range cap(done) {
			go func() {
				n := 0
				err := h.Read(context.Background(), 0, c.end(), nil, func(Piece) error {
					<-goOn
					n++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				done <- n
			}()
		}
		synctest.Wait() // all of them hold a page
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got := 0
		if err := h.Read(ctx, 0, c.end(), nil, func(Piece) error { got++; return nil }); err != nil || got != 60 {
			t.Errorf("%d entries beside slow readers: %v", got, err)
		}
		close(goOn)
		for range cap(done) {
			if n := <-done; n != 60 {
				t.Errorf("a slow reader got %d entries", n)
			}
		}
	})
}

// A page ends at its size, wherever that is; whoever stops taking is asked for no more.
func TestPages(t *testing.T) {
	r, c := newRig(t), newChain(t, 40)
	r.write(c.entries...)
	for _, size := range []int{1, 150, 333, 1499, 1 << 20} {
		r.cfg.PageBytes = size
		h := r.open()
		r.wants(h, c, "0-39")
		enough, n := errors.New("enough"), 0
		err := h.Read(context.Background(), c.entries[7].BaseOffset, c.end(), nil, func(p Piece) error {
			if n++; n == 9 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 9 {
			t.Errorf("pages of %d bytes: %d pieces, %v", size, n, err)
		}
	}
}

// What retention removes between two pages is told as a gap; nothing is left out in silence.
func TestRetentionBetweenPages(t *testing.T) {
	r, c := newRig(t), newChain(t, 60)
	r.write(c.entries...)
	h := r.open()
	r.cfg.RetentionBytes = 1
	h.cfg.RetentionBytes = 1
	next := image.MetadataOffset(0)
	var gaps []Gap
	err := h.Read(context.Background(), 0, c.end(), nil, func(p Piece) error {
		if next == 0 {
			if err := h.store.retain(time.UnixMilli(0)); err != nil {
				return err
			}
		}
		var from, to image.MetadataOffset
		if p.Gap != nil {
			gaps = append(gaps, *p.Gap)
			from, to = p.Gap.From, p.Gap.To
		} else {
			from, to = p.Entry.BaseOffset, p.Entry.LastOffset
		}
		if from != next {
			t.Errorf("offset %d after %d", from, next-1)
		}
		next = to + 1
		return nil
	})
	if err != nil || len(gaps) != 1 || gaps[0].Reason != ReasonRetention || next != c.end()+1 {
		t.Errorf("gaps %v, up to %d of %d: %v", gaps, next-1, c.end(), err)
	}
}

// Marks of snapshots are as bounded as entries: one takes the place of the one before, and where there is no room it is a gap.
func TestQueueBoundsMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 60)
		r.cfg.QueueEntriesMax = 4
		h := r.open()
		for i := range 1000 {
			h.Restored(c.mark(1+i%9), Mark{})
		}
		if n := len(h.queue.list); n != 1 {
			t.Errorf("%d marks wait", n)
		}
		for i := range 20 { // marks and entries by turns
			h.Restored(c.mark(10+i), Mark{})
			h.Offer([]*fsm.Entry{c.entries[10+i]})
		}
		if n := len(h.queue.list); n != 4 {
			t.Errorf("%d wait, the limit is 4", n)
		}
		r.stand(c.mark(30))
		h.drain()
		h.store.close()
		if got := r.holds(r.open(), c, nil); strings.Contains(got, "0-9") || h.End() != c.mark(30) {
			t.Errorf("holds %q, ends at %v", got, h.End())
		}
		gaps := r.open().Gaps()
		if len(gaps) == 0 || gaps[len(gaps)-1].To != c.mark(30).Offset || gaps[len(gaps)-1].Reason != ReasonQueue {
			t.Errorf("gaps %v", gaps)
		}
	})
}
