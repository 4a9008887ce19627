package raftnode

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func testStores(t *testing.T, faults *envtest.Faults, fatal func(error)) *stores {
	t.Helper()
	st, err := openStores(Config{
		Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Fatal: fatal,
		StoreFault: func(call StoreCall) error { return faults.Call(string(call), "") },
	}.withDefaults(), new(Metrics))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.close() })
	return st
}

func noFatal(t *testing.T) func(error) {
	return func(err error) { t.Errorf("fatal: %v", err) }
}

func TestStableStoreSaysNotFound(t *testing.T) {
	st := testStores(t, nil, noFatal(t)).stable
	if _, err := st.Get(keyCurrentTerm); err == nil || err.Error() != "not found" {
		t.Errorf("Get: %v", err)
	}
	if v, err := st.GetUint64(keyCurrentTerm); err == nil || err.Error() != "not found" || v != 0 {
		t.Errorf("GetUint64: %d, %v", v, err)
	}
}

func TestVoteIsWrittenAtOnceAndReadFromDisk(t *testing.T) {
	faults := envtest.NewFaults()
	fatal := make(chan error, 8)
	st := testStores(t, faults, func(err error) { fatal <- err }).stable
	vote := func(term uint64, candidate string) error {
		if err := st.SetUint64(keyLastVoteTerm, term); err != nil {
			return err
		}
		if got, _ := st.GetUint64(keyLastVoteTerm); got == term {
			t.Error("a vote's term can be read before its candidate is written")
		}
		return st.Set(keyLastVoteCand, []byte(candidate))
	}
	want := func(term uint64, candidate string) {
		t.Helper()
		gotTerm, err := st.GetUint64(keyLastVoteTerm)
		if err != nil {
			t.Fatal(err)
		}
		got, err := st.Get(keyLastVoteCand)
		if err != nil || gotTerm != term || string(got) != candidate {
			t.Errorf("vote is %d for %s, %v; want %d for %s", gotTerm, got, err, term, candidate)
		}
	}
	if err := vote(5, "a"); err != nil {
		t.Fatal(err)
	}
	want(5, "a")
	remove := faults.Add(envtest.Rule{Kind: string(CallStableVote)})
	if err := vote(6, "b"); !errors.Is(err, envtest.ErrFault) {
		t.Fatalf("vote: %v", err)
	}
	if err := <-fatal; !errors.Is(err, ErrStoreFailed) {
		t.Errorf("fatal: %v", err)
	}
	remove()
	want(5, "a")
	if err := st.Set(keyLastVoteCand, []byte("c")); !errors.Is(err, errVoteWithoutTerm) {
		t.Errorf("a candidate without its term: %v", err)
	}
	want(5, "a")
}

func TestWatchdogCountsItsOwnTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := make(chan error, 8)
		w := newWatchdog(5*watchdogTick, func(err error) { fatal <- err })
		ticks := make(chan time.Time)
		go w.run(ticks)
		defer w.close()
		op := w.begin(CallStoreLogs)
		<-time.After(time.Hour) // the process was stopped: no tick
		for range 5 {
			ticks <- time.Now()
		}
		synctest.Wait()
		if len(fatal) != 0 {
			t.Fatalf("a pause counted: %v", <-fatal)
		}
		w.end(op)
		for range 20 {
			ticks <- time.Now()
		}
		w.begin(CallStoreLogs)
		for range 8 {
			ticks <- time.Now()
		}
		synctest.Wait()
		if len(fatal) != 1 || !errors.Is(<-fatal, ErrStoreHangs) {
			t.Error("a hang was not told, or told twice")
		}
	})
}

// With a real ticker: while the process is stopped nobody takes its ticks, and they do not add up.
func TestWatchdogTakesALateTickAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := make(chan error, 8)
		w := newWatchdog(5*watchdogTick, func(err error) { fatal <- err })
		ticker := time.NewTicker(watchdogTick)
		defer ticker.Stop()
		op := w.begin(CallStoreLogs)
		<-time.After(time.Hour)
		go w.run(ticker.C)
		defer w.close()
		<-time.After(3 * watchdogTick)
		w.end(op)
		if len(fatal) != 0 {
			t.Errorf("fatal: %v", <-fatal)
		}
	})
}

func TestWriteErrorsAreFatalReadErrorsAreNot(t *testing.T) {
	faults := envtest.NewFaults()
	fatal := make(chan error, 8)
	st := testStores(t, faults, func(err error) { fatal <- err })
	if err := st.log.GetLog(7, new(raft.Log)); err != raft.ErrLogNotFound {
		t.Errorf("GetLog: %v, want ErrLogNotFound itself", err)
	}
	faults.Add(envtest.Rule{})
	if _, err := st.log.LastIndex(); !errors.Is(err, envtest.ErrFault) || len(fatal) != 0 {
		t.Errorf("LastIndex: %v", err)
	}
	for name, write := range map[string]func() error{
		"StoreLog": func() error { return st.log.StoreLog(&raft.Log{Index: 1}) },
		"Set":      func() error { return st.stable.Set(keyCurrentTerm, nil) },
	} {
		if err := write(); !errors.Is(err, envtest.ErrFault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(fatal) != 1 {
		t.Errorf("fatal was called %d times, want once", len(fatal))
	}
}

// recordingLog is a store in memory that notes the deletes.
type recordingLog struct {
	*raft.InmemStore
	monotonic bool
	deleted   []string
}

func (r *recordingLog) IsMonotonic() bool { return r.monotonic }

func (r *recordingLog) DeleteRange(from, to uint64) error {
	r.deleted = append(r.deleted, fmt.Sprintf("%d-%d", from, to))
	return r.InmemStore.DeleteRange(from, to)
}

func entries(from, to uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: fmt.Append(nil, i)})
	}
	return logs
}

func TestPrefixIsDeletedInChunksASuffixNever(t *testing.T) {
	for name, at := range map[string]struct {
		from, to uint64
		want     []string
	}{
		"prefix":              {11, 2500, []string{"11-1034", "1035-2058", "2059-2500"}},
		"prefix from before":  {1, 1034, []string{"11-1034"}},
		"suffix":              {1000, 3000, []string{"1000-3000"}},
		"suffix beyond":       {1000, 9000, []string{"1000-9000"}},
		"all":                 {11, 3000, []string{"11-3000"}},
		"all but the last":    {11, 2999, []string{"11-1034", "1035-2058", "2059-2999"}},
		"middle, never asked": {100, 2000, []string{"100-2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &recordingLog{InmemStore: raft.NewInmemStore()}
			if err := inner.StoreLogs(entries(11, 3000)); err != nil {
				t.Fatal(err)
			}
			if err := (chunkedDelete{inner}).DeleteRange(at.from, at.to); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(at.want, inner.deleted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMonotonicIsForwarded(t *testing.T) {
	for _, monotonic := range []bool{false, true} {
		inner := &recordingLog{InmemStore: raft.NewInmemStore(), monotonic: monotonic}
		outer := newLogCache(chunkedDelete{&guardedLog{inner: inner}}, 8, 1000, new(Metrics))
		if outer.IsMonotonic() != monotonic {
			t.Errorf("monotonic %v is told as %v", monotonic, outer.IsMonotonic())
		}
	}
}

func TestCacheIsBoundedInBytes(t *testing.T) {
	m := new(Metrics)
	c := newLogCache(raft.NewInmemStore(), 100, 10*(entryOverhead+1000), m)
	for i := range uint64(50) {
		if err := c.StoreLog(&raft.Log{Index: i + 1, Data: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	hits := func() (n int) {
		for i := range uint64(50) {
			before := m.CacheHits.Load()
			if err := c.GetLog(i+1, new(raft.Log)); err != nil {
				t.Fatal(err)
			}
			n += int(m.CacheHits.Load() - before)
		}
		return n
	}
	if got := hits(); got != 10 {
		t.Errorf("%d entries in memory, want 10", got)
	}
	if err := c.StoreLog(&raft.Log{Index: 51, Data: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	if got := hits(); got != 0 || c.bytes != 0 {
		t.Errorf("one entry above the bound: %d others in memory, %d bytes", got, c.bytes)
	}
}

// The cache and the store under it must never tell apart, whatever is stored, cut and read.
func TestCacheAgreesWithItsStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inner := raft.NewInmemStore()
		c := newLogCache(inner, rapid.IntRange(1, 8).Draw(t, "entries"), rapid.IntRange(1, 6*entryOverhead).Draw(t, "bytes"), new(Metrics))
		next, first, term := uint64(1), uint64(1), uint64(1)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				var logs []*raft.Log
				for range rapid.IntRange(1, 5).Draw(t, "batch") {
					logs = append(logs, &raft.Log{Index: next, Term: term, Data: make([]byte, rapid.IntRange(0, 100).Draw(t, "size"))})
					next++
				}
				if err := c.StoreLogs(logs); err != nil {
					t.Fatal(err)
				}
			case 2: // a suffix, written anew in another term
				if next > first {
					from := rapid.Uint64Range(first, next-1).Draw(t, "from")
					if err := c.DeleteRange(from, next-1); err != nil {
						t.Fatal(err)
					}
					next, term = from, term+1
				}
			case 3: // a prefix
				if next > first+1 {
					to := rapid.Uint64Range(first, next-2).Draw(t, "to")
					if err := c.DeleteRange(first, to); err != nil {
						t.Fatal(err)
					}
					first = to + 1
				}
			}
			for i := uint64(0); i <= next; i++ {
				var got, want raft.Log
				gotErr, wantErr := c.GetLog(i, &got), inner.GetLog(i, &want)
				if gotErr != wantErr || got.Term != want.Term || got.Index != want.Index {
					t.Fatalf("index %d: %v %+v, the store says %v %+v", i, gotErr, got, wantErr, want)
				}
			}
			weighed := 0
			for i := c.first; i <= c.last; i++ {
				weighed += weight(&c.ring[i%uint64(len(c.ring))])
			}
			if weighed != c.bytes || c.bytes > c.bytesMax {
				t.Fatalf("%d bytes counted, %d weighed, bound %d", c.bytes, weighed, c.bytesMax)
			}
		}
	})
}

func TestStoreCallsAreObserved(t *testing.T) {
	seen := make(map[StoreCall]int)
	e := env.OS("")
	var points []string
	e.Hook = func(point string) { points = append(points, point) }
	st, err := openStores(Config{
		Env: e, Logger: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Fatal: noFatal(t),
		ObserveStore: func(call StoreCall, _ time.Duration, _ error) { seen[call]++ },
	}.withDefaults(), new(Metrics))
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	st.log.StoreLogs(entries(1, 3))
	st.log.DeleteRange(1, 1)
	st.stable.SetUint64(keyCurrentTerm, 2)
	st.stable.SetUint64(keyLastVoteTerm, 2)
	st.stable.Set(keyLastVoteCand, []byte("me"))
	for _, call := range []StoreCall{CallStoreLogs, CallDeleteRange, CallStableSet, CallStableVote} {
		if seen[call] != 1 {
			t.Errorf("%s was observed %d times", call, seen[call])
		}
	}
	want := []string{PointLogWrite, PointLogWritten, PointLogDelete, PointTermWrite, PointVoteWrite, PointVoteWritten}
	if diff := cmp.Diff(want, points); diff != "" {
		t.Error(diff)
	}
}
