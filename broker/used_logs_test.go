package broker

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

func local(n byte, partitions ...int32) (list []image.LocalPartition) {
	for _, p := range partitions {
		list = append(list, image.LocalPartition{ID: image.PartitionID{Topic: topicID(n), Partition: p}})
	}
	return list
}

// The list is evidence as a whole or not at all; a line that was being written when the process stopped counts for nothing.
func TestUsedLogs(t *testing.T) {
	dir, here := t.TempDir(), image.UUID{7}
	path := filepath.Join(dir, usedLogsFile)
	open := func(directory image.UUID) *usedLogs {
		u := newUsedLogs(env.OS(""), dir, directory, slog.New(slog.DiscardHandler))
		u.load()
		return u
	}
	used, unused := image.PartitionID{Topic: topicID(1), Partition: 4}, image.PartitionID{Topic: topicID(1), Partition: 5}
	u := open(here)
	if u.neverUsed(0, unused) {
		t.Error("without a list nothing is known")
	}
	if err := u.begin(0, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := u.add(u.missing(local(1, 4), local(2, 0))); err != nil {
		t.Fatal(err)
	}
	if missing := u.missing(local(1, 4, 5), local(2, 0)); len(missing) != 1 || missing[0].ID != unused {
		t.Errorf("missing %v", missing)
	}
	if u = open(here); u.neverUsed(0, used) || !u.neverUsed(0, unused) {
		t.Error("the list does not say what was added")
	}
	if open(image.UUID{8}).neverUsed(0, unused) {
		t.Error("the list of another directory is relied on")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole { // any flipped byte, but for one that only cuts the last line off
		bad := bytes.Clone(whole)
		bad[i] ^= 0x15
		write(t, path, bad)
		if u := open(here); u.neverUsed(0, used) || i < len(whole)-1 && u.neverUsed(0, unused) {
			t.Errorf("byte %d of %d: %q is relied on", i, len(whole), bad)
		}
	}
	for n := range whole { // cut anywhere
		write(t, path, whole[:n])
		if first := bytes.IndexByte(whole, '\n'); open(here).neverUsed(0, unused) != (n > first) {
			t.Errorf("cut to %d bytes", n)
		}
	}

	// A new beginning keeps what is assigned, and takes what is on disk.
	write(t, path, whole)
	u = open(here)
	if err := u.begin(0, []image.PartitionID{unused}, func(id image.PartitionID) bool { return id == used }); err != nil {
		t.Fatal(err)
	}
	if u = open(here); u.neverUsed(0, used) || u.neverUsed(0, unused) || !u.neverUsed(0, image.PartitionID{Topic: topicID(2)}) {
		t.Errorf("%v", u.ids)
	}
}

// After an offline recovery the list of before says nothing of assignments that came back, until the logs have been judged anew.
func TestUsedLogsOfAnOlderLineageAreNoEvidence(t *testing.T) {
	dir, here := t.TempDir(), image.UUID{7}
	path, gone := filepath.Join(dir, usedLogsFile), image.PartitionID{Topic: topicID(1)}
	open := func() *usedLogs {
		u := newUsedLogs(env.OS(""), dir, here, slog.New(slog.DiscardHandler))
		u.load()
		return u
	}
	write(t, path, appendLine(nil, "0 "+here.String())) // of before lineages
	u := open()
	if !u.neverUsed(0, gone) || u.neverUsed(1, gone) {
		t.Error("a list without a lineage is of the first")
	}
	if err := u.begin(2, []image.PartitionID{{Topic: topicID(3)}, {Topic: topicID(2)}}, nil); err != nil {
		t.Fatal(err)
	}
	if u = open(); u.neverUsed(0, gone) || u.neverUsed(1, gone) || !u.neverUsed(2, gone) || u.neverUsed(3, gone) {
		t.Errorf("a list of lineage 2 is evidence in another one: %+v", u)
	}
	want := appendLine(appendLine(appendLine(nil, "1 "+here.String()+" 2"), lineOf(image.PartitionID{Topic: topicID(2)})), lineOf(image.PartitionID{Topic: topicID(3)}))
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("file %q, want %q, %v", got, want, err)
	}
}

// shortFS writes half of what is given to it as long as it is full.
type shortFS struct {
	env.FS
	full, stuck bool
}

type shortFile struct {
	env.File
	fs *shortFS
}

func (s *shortFS) OpenFile(name string, flag int, perm fs.FileMode) (env.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	return shortFile{f, s}, err
}

func (f shortFile) Write(b []byte) (int, error) {
	if !f.fs.full {
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:len(b)/2])
	return n, errors.Join(syscall.ENOSPC, err)
}

func (f shortFile) Truncate(size int64) error {
	if f.fs.stuck {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

// A line that was written in part is cut off before the next one, so the list stays whole.
func TestUsedLogsGoOnAfterAFullDisk(t *testing.T) {
	dir, here := t.TempDir(), image.UUID{7}
	for _, stuck := range []bool{false, true} {
		e := env.OS("")
		disk := &shortFS{FS: e.FS}
		e.FS = disk
		u := newUsedLogs(e, dir, here, slog.New(slog.DiscardHandler))
		if err := u.begin(0, nil, nil); err != nil {
			t.Fatal(err)
		}
		disk.full, disk.stuck = true, stuck
		if err := u.add(local(1, 4)); !errors.Is(err, syscall.ENOSPC) || len(u.missing(local(1, 4))) != 1 {
			t.Errorf("full disk: %v, %v", err, u.ids)
		}
		disk.full, disk.stuck = false, false
		if err := u.add(local(2, 5)); err != nil {
			t.Fatal(err)
		}
		again := newUsedLogs(env.OS(""), dir, here, slog.New(slog.DiscardHandler))
		again.load()
		if again.neverUsed(0, local(2, 5)[0].ID) || !again.neverUsed(0, local(1, 4)[0].ID) {
			t.Errorf("stuck %v: the list is not whole: %v %v", stuck, again.known, again.ids)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A partition that was made while its only broker was away has no log there, and nothing of it is lost. Without the list of
// used logs that cannot be known.
func TestLogThatWasNeverMadeIsNotLost(t *testing.T) {
	for name, remove := range map[string]bool{"with the list": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				network, q, b := startCluster(t, dir)
				q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1))
				eventually(t, "it hosts the partition", func() bool { return len(b.replicas.all()) == 1 })
				b.end(t)
				q.put(topicRecord("b", 2), partitionRecord(2, 0, 1, 1))
				if remove {
					if err := os.Remove(filepath.Join(dir, usedLogsFile)); err != nil {
						t.Fatal(err)
					}
				}
				b = startBroker(t, network, 1, dir)
				awaitReady(t, b)
				if lost := q.registration(1).LostReplicas; (len(lost) == 1) != remove || len(lost) > 1 {
					t.Errorf("lost replicas: %v", lost)
				}
				b.end(t)
			})
		})
	}
}

// A log gets no role while the line that says so cannot be written; the broker ends.
func TestNoRoleBeforeTheListSaysSo(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0)))
	if err := os.Remove(filepath.Join(h.dir, usedLogsFile)); err != nil {
		t.Fatal(err)
	}
	h.apply(w.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1)))
	if _, err := h.get(image.PartitionID{Topic: topicID(1)}); err == nil || len(h.failures) == 0 {
		t.Errorf("served: %v, failures %q", err, h.failures)
	}
}
