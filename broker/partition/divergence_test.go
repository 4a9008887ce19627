package partition_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// epochLog is a log of which only the epochs count: entries of the cache, log start and log end.
type epochLog struct {
	entries    []partition.EpochStart
	start, end int64
}

func (l epochLog) EndOffsetForEpoch(e image.LeaderEpoch) (partition.EpochEnd, bool) {
	n := len(l.entries)
	if n == 0 || e > l.entries[n-1].Epoch {
		return partition.EpochEnd{}, false
	}
	if e == l.entries[n-1].Epoch {
		return partition.EpochEnd{Epoch: e, EndOffset: l.end}, true
	}
	i := slices.IndexFunc(l.entries, func(x partition.EpochStart) bool { return x.Epoch > e })
	if i == 0 {
		return partition.EpochEnd{Epoch: e, EndOffset: l.entries[0].Offset}, true
	}
	return partition.EpochEnd{Epoch: l.entries[i-1].Epoch, EndOffset: l.entries[i].Offset}, true
}

// from is the log with its start moved up.
func (l epochLog) from(start int64) epochLog {
	var entries []partition.EpochStart
	for i, e := range l.entries {
		if i+1 < len(l.entries) && l.entries[i+1].Offset <= start {
			continue
		}
		e.Offset = max(e.Offset, start)
		entries = append(entries, e)
	}
	return epochLog{entries, start, l.end}
}

// cut is the log without what lies at or behind an offset.
func (l epochLog) cut(offset int64) epochLog {
	entries := slices.DeleteFunc(slices.Clone(l.entries), func(e partition.EpochStart) bool { return e.Offset >= offset })
	return epochLog{entries, l.start, min(l.end, offset)}
}

// leaderLog has records of epochs 0, 3, 4, 7 and 9, and an entry for epoch 10, in which nothing was written.
var leaderLog = epochLog{
	entries: []partition.EpochStart{{Epoch: 0, Offset: 0}, {Epoch: 3, Offset: 2}, {Epoch: 4, Offset: 8}, {Epoch: 7, Offset: 13}, {Epoch: 9, Offset: 14}, {Epoch: 10, Offset: 17}},
	end:     17,
}

func TestJudgePosition(t *testing.T) {
	for _, c := range []struct {
		log    epochLog
		epoch  image.LeaderEpoch
		offset int64
		want   string
	}{
		{leaderLog, 2, 5, "Diverging (0, 2)"},
		{leaderLog, 0, 4, "Diverging (0, 2)"},
		{leaderLog, 6, 6, "Diverging (4, 13)"},
		{leaderLog, 5, 9, "Diverging (4, 13)"},
		{leaderLog, 10, 18, "Diverging (10, 17)"},
		{leaderLog, 0, 2, "Agreed"},
		{leaderLog, 7, 14, "Agreed"},
		{leaderLog, 9, 17, "Agreed"},
		{leaderLog, 10, 17, "Agreed"},
		{leaderLog, 11, 5, "OutOfRange"},
		{leaderLog.from(5), 2, 8, "Diverging (2, 5)"},
		{leaderLog.from(5), 0, 5, "Agreed"},
		{leaderLog.from(5), 3, 5, "Agreed"},
		{leaderLog.from(5), 0, 0, "OutOfRange"},
		{leaderLog.from(10), 5, 6, "OutOfRange"},
		{leaderLog.from(10), 3, 6, "OutOfRange"},
		{leaderLog, partition.NoLeaderEpoch, 99, "Agreed"},
		{epochLog{}, 3, 0, "OutOfRange"},
		{epochLog{entries: []partition.EpochStart{{Epoch: 0}, {Epoch: 5, Offset: 2}, {Epoch: 8, Offset: 4}}, end: 4}, 8, 5, "Diverging (8, 4)"},
	} {
		a, end := partition.JudgePosition(c.log, c.epoch, c.offset, c.log.start)
		got := a.String()
		if a == partition.Diverging {
			got += fmt.Sprintf(" (%d, %d)", end.Epoch, end.EndOffset)
		}
		if got != c.want {
			t.Errorf("epoch %d, offset %d, start %d: %s, want %s", c.epoch, c.offset, c.log.start, got, c.want)
		}
	}
}

func TestTruncationOffset(t *testing.T) {
	ends := epochLog{
		entries: []partition.EpochStart{{Epoch: 1, Offset: 0}, {Epoch: 2, Offset: 119}, {Epoch: 4, Offset: 129}, {Epoch: 5, Offset: 149}},
		end:     200,
	}
	five := epochLog{entries: []partition.EpochStart{{Epoch: 5, Offset: 0}}, end: 200}
	for _, c := range []struct {
		name   string
		log    epochLog
		leader partition.EpochEnd
		want   int64
	}{
		{"exact epoch, leader ends first", five, partition.EpochEnd{Epoch: 5, EndOffset: 156}, 156},
		{"no epoch known at all", epochLog{end: 200}, partition.EpochEnd{Epoch: 4, EndOffset: 202}, 200},
		{"no local epoch that low: nothing of the log is the leader's", five, partition.EpochEnd{Epoch: 4, EndOffset: 202}, 0},
		{"4 is known", ends, partition.EpochEnd{Epoch: 4, EndOffset: 140}, 140},
		{"3 is not known, 2 ends at 129", ends.cut(140), partition.EpochEnd{Epoch: 3, EndOffset: 130}, 129},
		{"2 is known", ends.cut(129), partition.EpochEnd{Epoch: 2, EndOffset: 120}, 120},
		{"1 is known", ends.cut(120), partition.EpochEnd{Epoch: 1, EndOffset: 200}, 119},
		{"end offset undefined", five, partition.EpochEnd{Epoch: 4, EndOffset: partition.UnknownOffset}, 180},
		{"epoch undefined", five, partition.EpochEnd{Epoch: partition.NoLeaderEpoch, EndOffset: 150}, 150},
	} {
		if got := partition.TruncationOffset(c.log, c.leader, 180, c.log.end); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRecoverOutOfRange(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		start, end, leaderStart, leaderEndOff int64
		want                                  partition.Recovery
	}{
		{"behind the leader's start", 0, 10, 20, 30, partition.Recovery{Restart: true, Offset: 20}},
		{"beyond the leader's end", 0, 40, 20, 30, partition.Recovery{Offset: 30}},
		{"begins beyond the leader's end", 35, 40, 20, 30, partition.Recovery{Restart: true, Offset: 30}},
		{"within", 0, 25, 20, 30, partition.Recovery{Offset: 25}},
		{"at the leader's start", 0, 20, 20, 30, partition.Recovery{Offset: 20}},
	} {
		got := partition.RecoverOutOfRange(c.start, c.end, c.leaderStart, c.leaderEndOff)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// converge lets a follower fetch from a leader until the leader agrees, and returns the follower's log and the number of rounds.
func converge(t interface{ Fatalf(string, ...any) }, leader, follower epochLog) (epochLog, int) {
	for round := 0; ; round++ {
		last := partition.NoLeaderEpoch
		if n := len(follower.entries); n > 0 {
			last = follower.entries[n-1].Epoch
		}
		judgement, end := partition.JudgePosition(leader, last, follower.end, leader.start)
		if judgement != partition.Diverging {
			return follower, round
		}
		before := follower
		follower = follower.cut(partition.TruncationOffset(follower, end, follower.end, follower.end))
		if follower.end == before.end && len(follower.entries) == len(before.entries) {
			t.Fatalf("no progress: leader %v, follower %v", leader, follower)
		}
	}
}

// TestF12DivergenceDoesNotCount: 3 led in epoch 5 and holds its own 100 to 119; epoch 6 began on the leader at 100.
func TestF12DivergenceDoesNotCount(t *testing.T) {
	leader := epochLog{entries: []partition.EpochStart{{Epoch: 4, Offset: 0}, {Epoch: 6, Offset: 100}}, end: 110}
	follower := epochLog{entries: []partition.EpochStart{{Epoch: 4, Offset: 0}, {Epoch: 5, Offset: 100}}, end: 120}
	if a, end := partition.JudgePosition(leader, 5, 120, 0); a != partition.Diverging || end != (partition.EpochEnd{Epoch: 4, EndOffset: 100}) {
		t.Errorf("judged %v %v", a, end)
	}
	if got, _ := converge(t, leader, follower); got.end != 100 {
		t.Errorf("cut to %d, want 100", got.end)
	}
	transcript(t, "testdata/f12.txt")
}

// TestF13CutByEpochs: the new leader has never seen the follower's last epochs; both go back until they agree.
func TestF13CutByEpochs(t *testing.T) {
	leader := epochLog{entries: []partition.EpochStart{{Epoch: 1, Offset: 0}, {Epoch: 3, Offset: 50}, {Epoch: 6, Offset: 90}}, end: 95}
	follower := epochLog{entries: []partition.EpochStart{{Epoch: 1, Offset: 0}, {Epoch: 2, Offset: 40}, {Epoch: 4, Offset: 60}, {Epoch: 5, Offset: 80}}, end: 99}
	got, rounds := converge(t, leader, follower)
	if got.end != 40 || rounds < 2 {
		t.Errorf("cut to %d in %d rounds, want 40 in several", got.end, rounds)
	}
	// A follower whose own watermark is lower than its log cuts nothing as long as the leader agrees.
	same := epochLog{entries: []partition.EpochStart{{Epoch: 1, Offset: 0}}, end: 10}
	if got, rounds := converge(t, same, same); got.end != 10 || rounds != 0 {
		t.Errorf("cut to %d in %d rounds, want nothing cut", got.end, rounds)
	}
}

// TestConvergence: two logs that grew from common leaders agree in the end on exactly their common prefix. A record is
// named by epoch and offset, and only one leader writes in an epoch.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 8).Draw(t, "records per epoch")
		// Each epoch is written by one of two logs, and the other copies a part of it; logs that part are cut as followers are.
		a, b := epochLog{}, epochLog{}
		for e, n := range epochs {
			writer, reader := &a, &b
			if rapid.Bool().Draw(t, "who leads") {
				writer, reader = &b, &a
			}
			grow(writer, image.LeaderEpoch(e), n)
			if rapid.Bool().Draw(t, "replicates") {
				next, _ := converge(t, *writer, *reader)
				*reader = copyFrom(*writer, next, rapid.IntRange(0, n).Draw(t, "behind"))
			}
		}
		grow(&a, image.LeaderEpoch(len(epochs)), 1)
		got, _ := converge(t, a, b)
		if want := commonPrefix(a, b); got.end != want {
			t.Fatalf("leader %v, follower %v: cut to %d, common prefix %d", a, b, got.end, want)
		}
	})
}

func grow(l *epochLog, e image.LeaderEpoch, records int) {
	l.entries = append(slices.Clone(l.entries), partition.EpochStart{Epoch: e, Offset: l.end})
	l.end += int64(records)
}

// copyFrom extends a log that is a prefix of leader's up to some records before its end.
func copyFrom(leader, follower epochLog, behind int) epochLog {
	end := max(follower.end, leader.end-int64(behind))
	entries := slices.DeleteFunc(slices.Clone(leader.entries), func(e partition.EpochStart) bool { return e.Offset >= end })
	return epochLog{dataEntries(entries, end), 0, end}
}

// dataEntries drops entries without records: a follower learns epochs from records.
func dataEntries(entries []partition.EpochStart, end int64) []partition.EpochStart {
	var out []partition.EpochStart
	for i, e := range entries {
		next := end
		if i+1 < len(entries) {
			next = entries[i+1].Offset
		}
		if next > e.Offset {
			out = append(out, e)
		}
	}
	return out
}

func epochAt(l epochLog, offset int64) image.LeaderEpoch {
	e := partition.NoLeaderEpoch
	for _, x := range l.entries {
		if x.Offset <= offset {
			e = x.Epoch
		}
	}
	return e
}

func commonPrefix(a, b epochLog) int64 {
	for o := int64(0); ; o++ {
		if o >= a.end || o >= b.end || epochAt(a, o) != epochAt(b, o) {
			return o
		}
	}
}
