package history

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/quorum/env/envtest"
)

// offerAll offers entries one by one, each as the state machine would stand there.
func (r *rig) offerAll(h *History, entries ...*fsm.Entry) {
	for _, e := range entries {
		r.at.Store(&Mark{e.LastOffset, e.Chain})
		h.Offer([]*fsm.Entry{e})
	}
}

// stand puts the state machine at a mark.
func (r *rig) stand(m Mark) { r.at.Store(&m) }

// A disk that hangs fills the queue, up to its limit; nobody waits; what is dropped is a gap, which another source fills.
func TestFullQueueIsAGapThatIsFilled(t *testing.T) {
	for _, limit := range []string{"entries", "bytes"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, c := newRig(t), newChain(t, 50)
				r.cfg.QueueEntriesMax = 10
				if limit == "bytes" {
					r.cfg.QueueEntriesMax, r.cfg.QueueBytesMax = 1000, 1000
				}
				r.run(func(h *History) {
					hang := make(chan struct{})
					remove := r.faults.Add(envtest.Rule{Kind: "write", Name: "*" + segmentSuffix, Hang: hang})
					r.offerAll(h, c.entries[0]) // the writer takes it, and hangs
					synctest.Wait()
					r.offerAll(h, c.entries[1:40]...)
					dropped := h.metrics.Dropped.Load()
					if dropped == 0 || limit == "entries" && dropped != 29 {
						t.Errorf("%d entries dropped", dropped)
					}
					remove()
					close(hang)
					synctest.Wait()
					if gaps := h.Gaps(); len(gaps) != 1 || gaps[0].Reason != ReasonQueue || gaps[0].To != c.mark(40).Offset {
						t.Errorf("gaps %v", gaps)
					}
					for _, e := range c.entries[40:] {
						r.offerAll(h, e)
						synctest.Wait()
					}
					if got := r.holds(h, c, nil); !strings.Contains(got, "(the queue was full), 40-49") {
						t.Errorf("holds %q", got)
					}
				})
				r.cfg.Sources = c.source(0, 50)
				r.run(func(h *History) {
					<-time.After(r.cfg.FillIntervalMin + 11*time.Second)
					r.wants(h, c, "0-49")
					if h.metrics.GapsFilled.Load() != 1 {
						t.Errorf("%d gaps filled", h.metrics.GapsFilled.Load())
					}
				})
				r.wants(r.open(), c, "0-49")
			})
		})
	}
}

// A full disk stops the history with one warning; when there is room again it goes on behind a gap.
func TestFullDiskStopsTheHistoryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 60)
		r.cfg.RetryInterval = 10 * time.Second
		r.run(func(h *History) {
			r.offerAll(h, c.entries[:10]...)
			synctest.Wait()
			r.fs.SetSpace(150) // the next write is cut in the middle of a frame
			for _, e := range c.entries[10:20] {
				r.offerAll(h, e)
				synctest.Wait()
			}
			if h.metrics.WriteErrors.Load() == 0 || strings.Count(r.log.String(), "history stops") != 1 || !strings.Contains(r.log.String(), "no space left") {
				t.Errorf("%d write errors: %s", h.metrics.WriteErrors.Load(), r.log)
			}
			<-time.After(15 * time.Second) // it is still full
			r.fs.Free()
			<-time.After(10 * time.Second)
			r.offerAll(h, c.entries[20:30]...)
			synctest.Wait()
			if got := r.holds(h, c, nil); !strings.Contains(got, "(the disk failed or was full), 20-29") {
				t.Errorf("holds %q", got)
			}
		})
		r.cfg.Sources = c.source(0, 60)
		r.run(func(h *History) {
			<-time.After(20 * time.Second)
			r.wants(h, c, "0-29")
		})
	})
}

// A directory that cannot be opened at the start is tried again.
func TestOpenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 20)
		remove := r.faults.Add(envtest.Rule{Kind: "mkdir", Err: errors.New("read-only file system")})
		r.run(func(h *History) {
			r.offerAll(h, c.entries[:10]...)
			<-time.After(31 * time.Second)
			remove()
			<-time.After(31 * time.Second)
			r.offerAll(h, c.entries[10:]...)
			synctest.Wait()
			if got := r.holds(h, c, nil); !strings.HasSuffix(got, "(the disk failed or was full), 10-19") {
				t.Errorf("holds %q", got)
			}
		})
	})
}

// A snapshot in place of entries is a gap. It is filled by whoever has the entries, even a part of them, but only with
// entries that lead to what follows.
func TestSnapshotGapIsFilledByTheRightEntriesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 60)
		r.run(func(h *History) {
			r.offerAll(h, c.entries[:10]...)
			r.stand(c.mark(50))
			h.Restored(c.mark(50), Mark{})
			r.offerAll(h, c.entries[50:]...)
			synctest.Wait()
			if got := r.holds(h, c, nil); !strings.HasPrefix(got, "0-9, gap ") || !strings.HasSuffix(got, "(a snapshot was installed), 50-59") {
				t.Errorf("holds %q", got)
			}
		})
		for _, x := range []struct {
			name       string
			chain      *chainOf
			first, end int
			want       string
		}{
			{"nothing", c, 0, 10, "(a snapshot was installed), 50-59"},
			{"not up to the end", c, 10, 49, "(a snapshot was installed), 50-59"},
			{"another log", newOther(t, 60), 0, 60, "(a snapshot was installed), 50-59"},
			{"the last part", c, 30, 50, "(a snapshot was installed), 30-59"},
			{"the rest", c, 0, 60, "0-59"},
		} {
			r.cfg.Sources = x.chain.source(x.first, x.end)
			r.run(func(h *History) { <-time.After(40 * time.Second) })
			if got := r.holds(r.open(), c, nil); !strings.HasSuffix(got, x.want) {
				t.Errorf("%s: holds %q, expected %q at the end", x.name, got, x.want)
			}
			if left := r.files(fillSuffix); len(left) > 0 {
				t.Errorf("%s: left %v", x.name, left)
			}
		}
	})
}

// Where a recovery went on from the end of this history, the offsets that it skipped are no loss, and nobody is asked for them.
func TestSkippedOffsetsOfANewLineageAreNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 10)
		asked := 0
		r.cfg.Sources = func() []Source { asked++; return nil }
		r.run(func(h *History) {
			r.offerAll(h, c.entries...)
			after := Mark{c.end() + 1_000_003, 4711}
			r.stand(after)
			h.Restored(after, c.mark(10))
			<-time.After(time.Minute)
			if gaps := h.Gaps(); len(gaps) != 1 || gaps[0].Reason != ReasonLineage || gaps[0].To != after.Offset || asked != 0 {
				t.Errorf("gaps %v, asked %d times", gaps, asked)
			}
			if h.Missing() != 0 || h.Metrics().Gaps.Load() != 0 {
				t.Errorf("%d gaps are counted, %d now", h.Metrics().Gaps.Load(), h.Missing())
			}
			if h.End() != after {
				t.Errorf("ends at %v", h.End())
			}
		})
	})
}

// newOther is a chain with other entries at the same offsets.
func newOther(t *testing.T, n int) *chainOf {
	c := newChain(t, 0)
	c.header.TimeMs += 5
	full := newChain(t, n)
	for _, e := range full.entries {
		d := decisionsOf(t, e)
		d.Cause.Name = "Other"
		c.add(t, d)
	}
	return c
}

// Filling keeps to its rate.
func TestFillKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 60)
		size := 0
		for _, e := range c.entries[:50] {
			size += len(e.Bytes)
		}
		r.cfg.FillBytesPerSecond = size / 10
		r.cfg.Sources = c.source(0, 60)
		r.run(func(h *History) {
			r.stand(c.mark(50))
			h.Restored(c.mark(50), Mark{})
			r.offerAll(h, c.entries[50:]...)
			<-time.After(8 * time.Second)
			if len(h.Gaps()) == 0 {
				t.Error("filled too fast")
			}
			<-time.After(12 * time.Second)
			r.wants(h, c, "0-59")
		})
	})
}

// Retention removes whole segments from the oldest on, by age and by size, and what it removed is not fetched again.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRig(t), newChain(t, 100)
		r.write(c.entries...)
		r.stand(c.mark(100))
		r.cfg.Sources = c.source(0, 100)
		total := r.open().Bytes()
		r.cfg.RetentionBytes = total / 2
		r.run(func(h *History) { <-time.After(5 * time.Minute) })
		h := r.open()
		begins := h.Begins()
		if h.Bytes() > total/2 || h.Bytes() < total/4 || begins == 0 || len(h.Gaps()) != 0 || h.End() != c.mark(100) {
			t.Errorf("%d bytes of %d, begins at %d, gaps %v", h.Bytes(), total, begins, h.Gaps())
		}
		// What it removed is told, from the first page on: whoever asked where the history begins may ask just before it removes more.
		if got := r.holds(h, c, nil); !strings.HasSuffix(got, "-99") || !strings.HasPrefix(got, "gap 0..") || strings.Count(got, "removed by retention") != 1 {
			t.Errorf("holds %q", got)
		}
		// The newest entry has its age by the clock: all of it is too old an hour later.
		r.clock.StepWall(time.UnixMilli(c.entries[99].TimeMs).Sub(r.clock.Now()) + time.Hour)
		r.cfg.RetentionTime = 59 * time.Minute
		r.run(func(h *History) { <-time.After(2 * time.Minute) })
		if h := r.open(); h.Begins() != c.end()+1 || h.End() != c.mark(100) || len(r.files(segmentSuffix)) != 1 {
			t.Errorf("begins at %d, ends at %v, files %v", h.Begins(), h.End(), r.files(segmentSuffix))
		}
	})
}
