package log_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
)

func wantOffsets(t *testing.T, l *log.Log, start, high, end int64) {
	t.Helper()
	s, h, e := l.Offsets()
	if s != start || h != high || e != end {
		t.Errorf("log start %d, high watermark %d, log end %d; want %d, %d, %d", s, h, e, start, high, end)
	}
}

func TestLeaderRaisesHighWatermarkUpToLogEnd(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 3)
	if high, raised := l.RaiseHighWatermark(1); high != 1 || !raised {
		t.Errorf("raise to 1: %d %v", high, raised)
	}
	if high, raised := l.RaiseHighWatermark(5); high != 3 || !raised {
		t.Errorf("raise to 5: %d %v", high, raised)
	}
	if high, raised := l.RaiseHighWatermark(2); high != 3 || raised {
		t.Errorf("raise to 2: %d %v", high, raised)
	}
}

func TestFollowerHighWatermark(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 100)
	for _, c := range []struct{ leader, want int64 }{{99, 99}, {100, 100}, {101, 100}, {50, 50}, {-1, 0}} {
		if got := l.FollowHighWatermark(c.leader); got != c.want {
			t.Errorf("leader at %d: %d, want %d", c.leader, got, c.want)
		}
	}
	l.FollowHighWatermark(60)
	r.must(l.AdvanceLogStart(60))
	if got := l.FollowHighWatermark(10); got != 60 {
		t.Errorf("below the log start: %d", got)
	}
}

func TestTruncateLowersHighWatermark(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 6)
	l.RaiseHighWatermark(6)
	end, err := l.TruncateTo(3)
	r.must(err)
	if end != 3 {
		t.Errorf("end %d", end)
	}
	wantOffsets(t, l, 0, 3, 3)
	r.must(l.TruncateFullyAndStartAt(4))
	wantOffsets(t, l, 4, 4, 4)
	fill(t, l, 2, 1)
	wantOffsets(t, l, 4, 4, 5)
}

func TestTruncateAtLogEndDropsEpochsWithoutData(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	r.must(l.TruncateFullyAndStartAt(27))
	fill(t, l, 19, 2)
	r.must(l.AssignEpoch(20, 29))
	end, err := l.TruncateTo(29)
	r.must(err)
	if end != 29 {
		t.Errorf("end %d", end)
	}
	if diff := cmp.Diff([]log.EpochEntry{{Epoch: 19, StartOffset: 27}}, l.Epochs()); diff != "" {
		t.Error(diff)
	}
	wantOffsets(t, l, 27, 27, 29)
}

func TestLogStartNotAboveHighWatermark(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 30)
	l.RaiseHighWatermark(25)
	if err := l.AdvanceLogStart(26); !errors.Is(err, log.ErrOffsetOutOfRange) {
		t.Errorf("26: %v", err)
	}
	r.must(l.AdvanceLogStart(25))
	wantOffsets(t, l, 25, 25, 30)
	r.must(l.AdvanceLogStart(3))
	wantOffsets(t, l, 25, 25, 30)
}

// An empty log that was restarted at 5.
func TestEmptyLogRestartsInsideFirstBatch(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	r.must(l.TruncateFullyAndStartAt(5))
	one := logtest.Batch{BaseOffset: 3, LeaderEpoch: 1}
	three := logtest.Batch{BaseOffset: 4, LeaderEpoch: 1, Values: logtest.Records(3, 4)}
	if err := follow(t, l, one); !errors.Is(err, log.ErrUnexpectedOffset) {
		t.Errorf("one record at 3: %v", err)
	}
	wantOffsets(t, l, 5, 5, 5)
	r.must(follow(t, l, three))
	wantOffsets(t, l, 4, 4, 7)
	if err := follow(t, l, one); !errors.Is(err, log.ErrUnexpectedOffset) {
		t.Errorf("one record at 3 afterwards: %v", err)
	}
	wantOffsets(t, l, 4, 4, 7)
}

func TestTruncateInsideBatchTakesItWhole(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	for range 3 {
		produce(t, l, 1, logtest.Batch{Values: logtest.Records(10, 4)})
	}
	end, err := l.TruncateTo(15)
	r.must(err)
	if end != 10 {
		t.Errorf("end %d, want 10", end)
	}
	// The batch that holds the log start goes too: the log is empty then, at its start.
	l.RaiseHighWatermark(10)
	r.must(l.AdvanceLogStart(4))
	end, err = l.TruncateTo(7)
	r.must(err)
	if end != 4 {
		t.Errorf("end %d, want 4", end)
	}
	wantOffsets(t, l, 4, 4, 4)
}

func TestFollowerAppendRules(t *testing.T) {
	first := logtest.Batch{BaseOffset: 0, LeaderEpoch: 3, Values: logtest.Records(2, 8)}
	flipped := first.Bytes()
	flipped[len(flipped)-1] ^= 1
	for _, c := range []struct {
		name    string
		records []byte
		under   image.LeaderEpoch
		want    error
		end     int64
	}{
		{"whole", first.Bytes(), 3, nil, 2},
		{"a flipped byte", flipped, 3, log.ErrCorruptBatch, 0},
		{"a torn batch", first.Bytes()[:80], 3, log.ErrCorruptBatch, 0},
		{"not at the log end", logtest.Batch{BaseOffset: 1, LeaderEpoch: 3}.Bytes(), 3, log.ErrUnexpectedOffset, 0},
		{"a gap", append(first.Bytes(), logtest.Batch{BaseOffset: 3, LeaderEpoch: 3}.Bytes()...), 3, log.ErrInvalidRecord, 0},
		{"a falling epoch", append(first.Bytes(), logtest.Batch{BaseOffset: 2, LeaderEpoch: 2}.Bytes()...), 3, log.ErrInvalidRecord, 0},
		{"a rising epoch", append(first.Bytes(), logtest.Batch{BaseOffset: 2, LeaderEpoch: 4}.Bytes()...), 4, nil, 3},
		{"an epoch above the one fetched under", append(first.Bytes(), logtest.Batch{BaseOffset: 2, LeaderEpoch: 4}.Bytes()...), 3, nil, 2},
		{"nothing else", logtest.Batch{LeaderEpoch: 4}.Bytes(), 3, nil, 0},
		{"no epoch", logtest.Batch{LeaderEpoch: -1}.Bytes(), 3, log.ErrInvalidRecord, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			l := r.open(foo0)
			_, err := l.AppendAsFollower(c.records, c.under)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if l.LogEndOffset() != c.end {
				t.Errorf("end %d, want %d", l.LogEndOffset(), c.end)
			}
		})
	}
}

func TestLeaderOfOldEpochMayNotAppend(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	r.must(l.AssignEpoch(5, 0))
	if _, err := tryProduce(l, 4, logtest.Batch{}); !errors.Is(err, log.ErrFencedLeaderEpoch) {
		t.Errorf("epoch 4: %v", err)
	}
	produce(t, l, 5, logtest.Batch{})
}

func TestAppendIsOneWriteAndNoSync(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	produce(t, l, 1, logtest.Batch{Values: logtest.Records(1, 16<<10)})
	writes, syncs := r.disk.Calls("write"), r.disk.Calls("sync")
	const n = 60
	for range n {
		produce(t, l, 1, logtest.Batch{Values: logtest.Records(1, 16<<10)})
	}
	if got := r.disk.Calls("write") - writes; got != n {
		t.Errorf("%d writes for %d appends", got, n)
	}
	if got := r.disk.Calls("sync") - syncs; got != 0 {
		t.Errorf("%d syncs", got)
	}
}

func TestLogAppendTime(t *testing.T) {
	r := newRig(t)
	r.config.Log.LogAppendTime = true
	r.start()
	l := r.open(foo0)
	a := produce(t, l, 1, logtest.Batch{Timestamp: 5})
	if a.LogAppendTimeMs != r.clock.now.UnixMilli() {
		t.Errorf("log append time %d", a.LogAppendTimeMs)
	}
	b, _, err := log.NextBatch(readAll(t, l, 0, 1))
	r.must(err)
	r.must(b.Check())
	if !b.IsLogAppendTime() || b.MaxTimestamp() != a.LogAppendTimeMs {
		t.Errorf("stored: %v %d", b.IsLogAppendTime(), b.MaxTimestamp())
	}
}
