package log_test

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "400"); err != nil { // a default; the command line is read later
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Ten batches of 78 bytes, two in a segment.
func TestRetention(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  func(*log.LogConfig)
		high    int64
		start   int64
		after   time.Duration
		removed int
		want    int64 // the log start afterwards
	}{
		{"nothing to do", func(*log.LogConfig) {}, 10, 0, 0, 0, 0},
		{"below the log start", func(*log.LogConfig) {}, 10, 5, 0, 2, 5},
		{"the log start at the log end", func(*log.LogConfig) {}, 10, 10, 0, 4, 10},
		{"size", func(c *log.LogConfig) { c.RetentionBytesMax = 4 * 78 }, 10, 0, 0, 3, 6},
		{"size, not above the high watermark", func(c *log.LogConfig) { c.RetentionBytesMax = 0 }, 5, 0, 0, 2, 4},
		{"size 0", func(c *log.LogConfig) { c.RetentionBytesMax = 0 }, 10, 0, 0, 5, 10},
		{"not yet too old", func(c *log.LogConfig) { c.RetentionAgeMax = time.Hour }, 10, 0, time.Hour, 0, 0},
		{"too old, the active segment too", func(c *log.LogConfig) { c.RetentionAgeMax = time.Hour }, 10, 0, time.Hour + time.Second, 5, 10},
		{"too old, not above the high watermark", func(c *log.LogConfig) { c.RetentionAgeMax = time.Hour }, 7, 0, 2 * time.Hour, 3, 6},
		{"for ever", func(c *log.LogConfig) { c.RetentionAgeMax = -1 }, 10, 0, 1000 * time.Hour, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.config.Log.SegmentBytesMax = 2 * 78
			c.config(&r.config.Log)
			r.start()
			l := r.open(foo0)
			for range 10 {
				produce(t, l, 1, logtest.Batch{Values: logtest.Records(1, 10), Timestamp: r.clock.now.UnixMilli()})
			}
			l.RaiseHighWatermark(c.high)
			r.must(l.AdvanceLogStart(c.start))
			r.clock.now = r.clock.now.Add(c.after)
			removed, err := l.ApplyRetention()
			r.must(err)
			if removed != c.removed {
				t.Errorf("%d segments removed, want %d", removed, c.removed)
			}
			wantOffsets(t, l, c.want, c.high, 10)
			fill(t, l, 1, 1)
			readAll(t, l, c.want, 11)
			r.kill()
			l, _ = r.load(foo0)
			if first := l.LogStartOffset(); first > c.want || l.LogEndOffset() != 11 {
				t.Errorf("after a kill: log start %d, end %d", first, l.LogEndOffset())
			}
		})
	}
}

func TestRemovedSegmentsKeepTheirFilesForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.config.Log.SegmentBytesMax = 2 * 78
		r.config.Log.RetentionBytesMax = 0
		r.clock.bubble = true
		r.start()
		l := r.open(foo0)
		fill(t, l, 1, 6)
		l.RaiseHighWatermark(6)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		deleted := func() int {
			n := 0
			for _, name := range r.ls(dataDir + "/foo-0") {
				if strings.HasSuffix(name, ".deleted") {
					n++
				}
			}
			return n
		}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		wait(5*time.Minute + time.Second)
		if l.LogStartOffset() != 6 || deleted() != 9 {
			t.Errorf("log start %d, %d files wait", l.LogStartOffset(), deleted())
		}
		wait(50 * time.Second)
		if deleted() != 9 {
			t.Errorf("%d files wait after 50 s", deleted())
		}
		wait(50 * time.Second)
		if deleted() != 0 {
			t.Errorf("%d files wait after 100 s", deleted())
		}
		if r.read(dataDir+"/replication-offset-checkpoint") != "0\n1\nfoo 0 6\n" || l.RecoveryPoint() != 6 {
			t.Errorf("checkpoint %q, recovery point %d", r.read(dataDir+"/replication-offset-checkpoint"), l.RecoveryPoint())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunRemovesDeletedDirectoriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.clock.bubble = true
		removed := make(chan log.Removal, 1)
		r.config.OnRemoved = func(m log.Removal) { removed <- m }
		r.start()
		fill(t, r.open(foo0), 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		began := time.Now()
		if failed := r.Delete(foo0); failed != nil {
			t.Fatal(failed)
		}
		if m := <-removed; m.Err != nil || m.Replica != foo0 || time.Since(began) != 0 {
			t.Errorf("%+v after %v", m, time.Since(began))
		}
		if slices.ContainsFunc(r.ls(dataDir), func(s string) bool { return strings.HasPrefix(s, "foo") }) {
			t.Errorf("%v", r.ls(dataDir))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
