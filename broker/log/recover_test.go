package log_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/quorum/env"
)

// written makes a log of three segments with 2, 2 and 1 batches at 0, 2, 4, and ends the life without a word.
func written(t *testing.T) *rig {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 3)
	fill(t, l, 4, 2)
	l.RaiseHighWatermark(5)
	r.must(r.WriteCheckpoints())
	if l.SegmentCount() != 3 {
		t.Fatalf("%d segments", l.SegmentCount())
	}
	r.disk.Restart()
	return r
}

func (r *rig) change(name string, change func([]byte) []byte) {
	data, err := env.ReadFile(r.disk, name)
	r.must(err)
	r.must(env.WriteFileAtomic(r.disk, name, change(data), 0o644))
}

func TestUncleanRecovery(t *testing.T) {
	cut := func(n int) func([]byte) []byte { return func(p []byte) []byte { return p[:len(p)-n] } }
	flip := func(at int) func([]byte) []byte {
		return func(p []byte) []byte { p = slices.Clone(p); p[at] ^= 1; return p }
	}
	for _, c := range []struct {
		name    string
		base    int64
		change  func([]byte) []byte
		end     int64
		removed int
		epochs  []log.EpochEntry
	}{
		{"whole", 4, cut(0), 5, 0, []log.EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 3}}},
		{"torn tail", 4, cut(5), 4, 0, []log.EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 3}}},
		{"torn header", 4, cut(60), 4, 0, []log.EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 3}}},
		{"garbage after the tail", 4, func(p []byte) []byte { return append(slices.Clone(p), 1, 2, 3) }, 5, 0, []log.EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 3}}},
		{"zeros after the tail", 4, func(p []byte) []byte { return append(slices.Clone(p), make([]byte, 4096)...) }, 5, 0, []log.EpochEntry{{Epoch: 1, StartOffset: 0}, {Epoch: 4, StartOffset: 3}}},
		{"flipped byte in the middle segment", 2, flip(70), 2, 1, []log.EpochEntry{{Epoch: 1, StartOffset: 0}}},
		{"flipped byte in its second batch", 2, flip(148), 3, 1, []log.EpochEntry{{Epoch: 1, StartOffset: 0}}},
		{"flipped offset, which no checksum covers", 2, flip(6), 2, 1, []log.EpochEntry{{Epoch: 1, StartOffset: 0}}},
		{"flipped magic", 0, flip(16), 0, 2, nil},
		{"the end of a middle segment was never written", 2, cut(78), 3, 1, []log.EpochEntry{{Epoch: 1, StartOffset: 0}}},
		{"a middle segment is empty", 2, func([]byte) []byte { return nil }, 2, 1, []log.EpochEntry{{Epoch: 1, StartOffset: 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := written(t)
			r.change(logFile(foo0, c.base, ".log"), c.change)
			r.start()
			l, recovered := r.load(foo0)
			if recovered.LogEndOffset != c.end || recovered.SegmentsRemoved != c.removed || recovered.Lost != max(0, 5-c.end) {
				t.Errorf("%+v, want the end %d, %d segments removed", recovered, c.end, c.removed)
			}
			if diff := cmp.Diff(c.epochs, l.Epochs(), cmpEmpty); diff != "" {
				t.Error(diff)
			}
			wantOffsets(t, l, 0, min(5, c.end), c.end)
			if got := len(offsets(t, readAll(t, l, 0, c.end))); got != int(c.end) {
				t.Errorf("%d batches", got)
			}
			fill(t, l, 5, 3)
			if got := len(offsets(t, readAll(t, l, 0, c.end+3))); got != int(c.end)+3 {
				t.Errorf("%d batches after three more", got)
			}
		})
	}
}

// Below the recovery point nothing is read again.
func TestRecoveryTrustsWhatWasFlushed(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 5)
	r.must(r.FlushRolled())
	if l.RecoveryPoint() != 4 {
		t.Fatalf("recovery point %d", l.RecoveryPoint())
	}
	r.must(r.WriteRecoveryPoints())
	r.kill()
	_, recovered := r.load(foo0)
	if recovered.ScannedBytes != 78 || recovered.LogEndOffset != 5 {
		t.Errorf("%+v", recovered)
	}
}

// A sync that fails is a failure of the disk, also when the log was cut while it went on: the next sync would succeed, and
// what was lost would count as being on the disk.
func TestFailedSyncIsNotForgottenForACut(t *testing.T) {
	r := newRig(t)
	disk := &failingSync{FS: r.disk}
	r.fs = disk
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 5)
	disk.before = func() { // on the flush's goroutine, which holds no lock while the disk works
		if _, err := l.TruncateTo(4); err != nil {
			t.Error(err)
		}
	}
	if err := l.Flush(); !errors.Is(err, syscall.EIO) {
		t.Errorf("flush: %v", err)
	}
	if !errors.Is(l.Failure(), syscall.EIO) {
		t.Errorf("the log is not offline: %v", l.Failure())
	}
}

// failingSync is a disk whose next sync of a file of batches fails, after before was called.
type failingSync struct {
	env.FS
	before func()
}

func (d *failingSync) OpenFile(name string, flag int, perm fs.FileMode) (env.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &failingFile{f, d}, nil
}

type failingFile struct {
	env.File
	disk *failingSync
}

func (f *failingFile) Sync() error {
	before := f.disk.before
	if f.disk.before = nil; before == nil {
		return f.File.Sync()
	}
	before()
	return syscall.EIO
}

func TestCleanLoadReadsNothingAgain(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	r.start()
	fill(t, r.open(foo0), 1, 5)
	r.cleanRestart()
	l, recovered := r.load(foo0)
	if recovered.ScannedBytes != 0 || !recovered.Clean || recovered.LogEndOffset != 5 || l.RecoveryPoint() != 5 {
		t.Errorf("%+v, recovery point %d", recovered, l.RecoveryPoint())
	}
}

func TestLostIndexesAreMadeAnew(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex"} {
		for name, change := range map[string]func(*rig, string){
			"missing": func(r *rig, name string) { r.must(r.disk.Remove(name)) },
			"torn":    func(r *rig, name string) { r.change(name, func(p []byte) []byte { return p[:len(p)-3] }) },
			"nonsense": func(r *rig, name string) {
				r.change(name, func(p []byte) []byte { return append(p, make([]byte, 24)...) })
			},
		} {
			t.Run(suffix+" "+name, func(t *testing.T) {
				r := newRig(t)
				r.config.Log.IndexIntervalBytes = 200
				r.config.Log.SegmentBytesMax = 4000
				r.start()
				l := r.open(foo0)
				for i := range int64(100) {
					produce(t, l, 1, logtest.Batch{Timestamp: 1000 + i, Values: logtest.Records(1, 30)})
				}
				r.FinishLoading()
				r.must(r.Shutdown(1))
				file := logFile(foo0, 0, suffix)
				before := r.read(file)
				change(r, file)
				r.start()
				l, _ = r.load(foo0)
				if l.LogEndOffset() != 100 {
					t.Fatalf("end %d", l.LogEndOffset())
				}
				for i := range int64(100) {
					if got := offsets(t, readAll(t, l, i, i+1)); !slices.Equal(got, []int64{i}) {
						t.Fatalf("offset %d: %v", i, got)
					}
					if at, ok, err := l.OffsetForTimestamp(1000 + i); err != nil || !ok || at.Offset != i {
						t.Fatalf("timestamp %d: %+v %v %v", 1000+i, at, ok, err)
					}
				}
				r.cleanRestart()
				if name != "nonsense" && r.read(file) != before {
					t.Error("the index made anew is another one")
				}
			})
		}
	}
}

func TestRecoveredEndBelowLogStart(t *testing.T) {
	r := written(t)
	r.write(dataDir+"/log-start-offset-checkpoint", "0\n1\nfoo 0 4\n")
	r.change(logFile(foo0, 2, ".log"), func(p []byte) []byte { return p[:10] })
	r.start()
	l, _ := r.load(foo0)
	wantOffsets(t, l, 4, 4, 4)
	if diff := cmp.Diff([]log.EpochEntry(nil), l.Epochs(), cmpEmpty); diff != "" {
		t.Error(diff)
	}
	if got := r.ls(dataDir + "/foo-0"); !slices.Contains(got, "00000000000000000004.log") || slices.Contains(got, "00000000000000000000.log") {
		t.Errorf("%v", got)
	}
	fill(t, l, 6, 1)
	wantOffsets(t, l, 4, 4, 5)
}

func TestLoadTrimsEpochsToTheLog(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 2, 6)
	fill(t, l, 5, 4)
	r.must(l.AssignEpoch(9, 10))
	l.RaiseHighWatermark(10)
	r.must(l.AdvanceLogStart(3))
	r.cleanRestart()
	r.write(dataDir+"/foo-0/leader-epoch-checkpoint", "0\n4\n1 0\n2 1\n5 6\n9 10\n")
	l, _ = r.load(foo0)
	want := []log.EpochEntry{{Epoch: 2, StartOffset: 3}, {Epoch: 5, StartOffset: 6}}
	if diff := cmp.Diff(want, l.Epochs()); diff != "" {
		t.Error(diff)
	}
	if got := r.read(dataDir + "/foo-0/leader-epoch-checkpoint"); got != "0\n2\n2 3\n5 6\n" {
		t.Errorf("%q", got)
	}
}

func TestUnreadableEpochFileIsMadeFromTheBatches(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 2, 6)
	fill(t, l, 5, 4)
	r.cleanRestart()
	r.write(dataDir+"/foo-0/leader-epoch-checkpoint", "0\n1\n")
	l, _ = r.load(foo0)
	want := []log.EpochEntry{{Epoch: 2, StartOffset: 0}, {Epoch: 5, StartOffset: 6}}
	if diff := cmp.Diff(want, l.Epochs()); diff != "" {
		t.Error(diff)
	}
	if got := r.read(dataDir + "/foo-0/leader-epoch-checkpoint"); got != "0\n2\n2 0\n5 6\n" {
		t.Errorf("%q", got)
	}
}

func TestLeftoversAreCleared(t *testing.T) {
	r := written(t)
	dir := dataDir + "/foo-0/"
	for _, name := range []string{"00000000000000000000.log.deleted", "00000000000000000007.log.cleaned", "leader-epoch-checkpoint.tmp", "00000000000000000009.index"} {
		r.write(dir+name, "x")
	}
	r.must(r.disk.Rename(dir+"00000000000000000002.log", dir+"00000000000000000002.log.swap"))
	r.start()
	l, recovered := r.load(foo0)
	if recovered.LogEndOffset != 5 || l.SegmentCount() != 3 {
		t.Errorf("%+v, %d segments", recovered, l.SegmentCount())
	}
	for _, name := range r.ls(dir) {
		if slices.ContainsFunc([]string{".deleted", ".cleaned", ".tmp", ".swap"}, func(s string) bool { return len(name) > len(s) && name[len(name)-len(s):] == s }) ||
			name == "00000000000000000009.index" {
			t.Errorf("%s is still there", name)
		}
	}
}

// Records that a power cut brought back from before a truncation do not pass: their leader epoch is lower than that of
// the batch before them.
func TestRecoveryRefusesFallingEpochs(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 4)
	fill(t, l, 3, 1)
	r.disk.Restart()
	old := logtest.Batch{BaseOffset: 5, LeaderEpoch: 2, Values: logtest.Records(1, 10)}.Bytes()
	r.change(logFile(foo0, 0, ".log"), func(p []byte) []byte { return append(slices.Clone(p), old...) })
	r.start()
	_, recovered := r.load(foo0)
	if recovered.LogEndOffset != 5 || recovered.CutBytes != int64(len(old)) {
		t.Errorf("%+v", recovered)
	}
}
