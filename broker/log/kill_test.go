package log_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
)

var (
	bar0  = log.Replica{Name: log.Name{Topic: "bar", Partition: 0}, TopicID: image.UUID{15: 7}}
	bar0b = log.Replica{Name: log.Name{Topic: "bar", Partition: 0}, TopicID: image.UUID{15: 8}}
	qux0  = log.Replica{Name: log.Name{Topic: "qux", Partition: 0}, TopicID: image.UUID{15: 9}}
)

// livesOfABroker goes through every step that takes several calls to the disk, and ends with the first error.
func livesOfABroker(r *rig) error {
	steps := []func() error{
		func() error { _, err := r.tryStart(); return err },
		func() error { return r.tryFill(foo0, 1, 20) },
		r.withLog(foo0, func(l *log.Log) error { return l.AssignEpoch(3, l.LogEndOffset()) }),
		func() error { return r.tryFill(foo0, 3, 6) },
		func() error { return r.FlushRolled() },
		func() error { return r.WriteCheckpoints() },
		r.withLog(foo0, func(l *log.Log) error { _, err := l.TruncateTo(17); return err }),
		func() error { return r.tryFill(foo0, 4, 5) },
		r.withLog(foo0, func(l *log.Log) error { l.RaiseHighWatermark(12); return l.AdvanceLogStart(9) }),
		r.withLog(foo0, func(l *log.Log) error { _, err := l.ApplyRetention(); return err }),
		func() error { return r.tryFill(qux0, 1, 5) },
		r.withLog(qux0, func(l *log.Log) error { return l.TruncateFullyAndStartAt(100) }),
		func() error { return r.tryFill(qux0, 2, 5) },
		func() error { return r.tryFill(foo1, 1, 3) },
		func() error { return failure(r.SetAside(foo1)) },
		func() error { return r.tryFill(bar0, 1, 8) },
		func() error { return r.WriteCheckpoints() },
		func() error { return failure(r.Delete(bar0)) },
		func() error { return r.tryFill(bar0b, 1, 2) },
		func() error {
			for _, removal := range r.RemoveRenamed(context.Background()) {
				if removal.Err != nil {
					return removal.Err
				}
			}
			return nil
		},
		func() error { r.FinishLoading(); return r.Shutdown(5) },
		func() error { _, err := r.tryStart(); return err },
		func() error { return r.tryFill(foo0, 5, 9) },
		func() error { return r.withLog(foo0, (*log.Log).Flush)() },
		func() error { return r.tryFill(foo0, 5, 9) },
		func() error { // the process dies, and something has eaten of its newest segments
			if r.frozen {
				return logtest.ErrFrozen
			}
			r.disk.Restart()
			names := slices.DeleteFunc(r.ls(dataDir+"/foo-0"), func(s string) bool { return !strings.HasSuffix(s, ".log") })
			r.change(dataDir+"/foo-0/"+names[len(names)-2], func(p []byte) []byte { return p[:len(p)-7] })
			_, err := r.tryStart()
			return err
		},
		func() error { return r.tryFill(foo0, 6, 2) },
		r.withLog(foo0, (*log.Log).Flush),
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func failure(failed []log.Failed) error {
	if len(failed) > 0 {
		return failed[0].Err
	}
	return nil
}

func (r *rig) tryFill(replica log.Replica, epoch image.LeaderEpoch, n int) error {
	return r.withLog(replica, func(l *log.Log) error {
		for range n {
			if _, err := tryProduce(l, epoch, logtest.Batch{Values: logtest.Records(1, 10)}); err != nil {
				return err
			}
		}
		return nil
	})()
}

func (r *rig) withLog(replica log.Replica, do func(*log.Log) error) func() error {
	return func() error {
		l, err := r.Open(replica, r.config.Log)
		if err != nil {
			return err
		}
		return do(l)
	}
}

// documentedPoints are the hook points that the package comment names.
func documentedPoints(t *testing.T) []string {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(regexp.MustCompile(`\blog\.[a-z]+\.[a-z-]+`).FindAllString(string(source), -1)))
}

func newKillRig(t *testing.T) *rig {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	return r
}

// TestKillAtEveryPoint ends the process at each named point, once as a kill and some times as a power cut, and goes
// on with the next life.
func TestKillAtEveryPoint(t *testing.T) {
	var points []string
	r := newKillRig(t)
	var mu sync.Mutex
	r.hook = func(point string) {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
	}
	r.must(livesOfABroker(r))
	reached := slices.Compact(slices.Sorted(slices.Values(points)))
	if want := documentedPoints(t); !slices.Equal(reached, want) {
		t.Fatalf("the lives go by %q, the documentation names %q", reached, want)
	}
	for _, point := range reached {
		t.Run(point, func(t *testing.T) {
			// The first, the last and one in the middle of all times that it is reached.
			times := 0
			for _, p := range points {
				if p == point {
					times++
				}
			}
			for _, nth := range slices.Compact([]int{1, (times + 1) / 2, times}) {
				for how := range uint64(4) {
					killAt(t, point, nth, how)
				}
			}
		})
	}
}

func killAt(t *testing.T, point string, nth int, how uint64) {
	t.Helper()
	r := newKillRig(t)
	seen := 0
	var mu sync.Mutex // logs are closed side by side
	r.hook = func(p string) {
		mu.Lock()
		defer mu.Unlock()
		if p == point {
			if seen++; seen == nth {
				r.frozen = true
				r.disk.Freeze()
			}
		}
	}
	if err := livesOfABroker(r); !errors.Is(err, logtest.ErrFrozen) && point != "log.shutdown.marked" && point != "log.flush.synced" && err != nil {
		t.Fatalf("%s #%d: %v", point, nth, err)
	}
	r.hook = nil
	if how == 0 {
		r.disk.Restart()
	} else {
		r.disk.PowerCut(newRandom(how))
	}
	r.start()
	list, err := r.Scan()
	r.must(err)
	for _, d := range list {
		if d.State != log.DirLive {
			continue
		}
		replica := log.Replica{Name: d.Name, TopicID: d.TopicID}
		if d.TopicID.IsZero() {
			if !d.Empty {
				t.Fatalf("%s #%d how %d: %s holds records and no topic id", point, nth, how, d.Base)
			}
			continue
		}
		l, _ := r.load(replica)
		start, high, end := l.Offsets()
		if start > high || high > end {
			t.Fatalf("%s #%d how %d: %s: log start %d, high watermark %d, log end %d", point, nth, how, d.Base, start, high, end)
		}
		before := readAll(t, l, start, end)
		wantOneRun(t, before, start, end)
		fill(t, l, 9, 3)
		if !bytes.Equal(readAll(t, l, start, end), before) || l.LogEndOffset() != end+3 {
			t.Fatalf("%s #%d how %d: %s does not go on", point, nth, how, d.Base)
		}
	}
	for _, removal := range r.RemoveRenamed(context.Background()) {
		r.must(removal.Err)
	}
	r.FinishLoading()
	r.must(r.Shutdown(1))
	if stop := r.start(); stop.Kind != clean && stop.Kind != neverRan && stop.Kind != processCrash {
		t.Fatalf("%s #%d how %d: %v", point, nth, how, stop)
	}
}

// wantOneRun holds that batches follow each other from the log start to the log end, with leader epochs that rise.
func wantOneRun(t *testing.T, p []byte, start, end int64) {
	t.Helper()
	at, epoch := start, int32(0)
	for b, err := range log.Batches(p) {
		if err != nil {
			t.Fatal(err)
		}
		if b.BaseOffset() != at || b.LeaderEpoch() < epoch {
			t.Fatalf("a batch at %d of epoch %d after %d of epoch %d", b.BaseOffset(), b.LeaderEpoch(), at, epoch)
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		at, epoch = b.NextOffset(), b.LeaderEpoch()
	}
	if at != end {
		t.Fatalf("records end at %d, the log at %d", at, end)
	}
}
