package raftnode

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

const (
	// snapshotsKept: if the newest is damaged, the one before serves as long as the log reaches back to it.
	snapshotsKept = 2
	snapshotsDir  = "snapshots" // the library's name inside Config.Dir
)

// snapshotStore is raft.FileSnapshotStore with the guard around it. Its directory is the library's own: it is reached
// through package os. An error of a snapshot does not end the process: the log still holds everything, and the next
// interval tries again.
type snapshotStore struct {
	inner   raft.SnapshotStore
	guard   *guard
	metrics *Metrics
	logger  *slog.Logger
	dir     string
	// unreadable names the snapshots whose meta data is damaged. refused are they, and those that the library could not open while it
	// started: one line tells of all if it cannot start, and one of each if it can. running is set then.
	unreadable []error
	refused    []error
	running    atomic.Bool
	// installed is called when a snapshot that a leader sent is on the disk, before the library goes on. Nil: nothing to do.
	installed func(index, term uint64) error
	// bytesCovered is what guard.logged was at the begin of the newest complete snapshot.
	bytesCovered atomic.Uint64
	// covered is the index of the newest snapshot that was completed, or read whole, in this life; 0 for none.
	covered atomic.Uint64
}

func openSnapshots(cfg Config, g *guard, metrics *Metrics) (*snapshotStore, error) {
	if err := removeAbandoned(cfg.Env.FS, filepath.Join(cfg.Dir, snapshotsDir)); err != nil {
		return nil, err
	}
	inner, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, snapshotsKept, newHCLog(cfg.Logger, cfg.Env.Clock))
	if err != nil {
		return nil, err
	}
	// The library passes over what it cannot read, and an older snapshot or none at all takes its place.
	metas, damaged, err := readSnapshotMetas(cfg.Env.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, m := range metas {
		if err := checkHeader(cfg.Env.FS, filepath.Join(cfg.Dir, snapshotsDir, m.ID), m, cfg.ClusterID, cfg.SnapshotHeader); err != nil {
			return nil, err
		}
	}
	var unreadable []error
	for _, d := range damaged {
		if contradiction := (*ContradictionError)(nil); errors.As(d.Err, &contradiction) {
			return nil, d.Err // the library would believe it
		}
		metrics.SnapshotsDamaged.Add(1)
		unreadable = append(unreadable, d.Err)
	}
	return &snapshotStore{
		inner: inner, guard: g, metrics: metrics, logger: cfg.Logger, dir: filepath.Join(cfg.Dir, snapshotsDir),
		unreadable: unreadable, refused: slices.Clone(unreadable),
	}, nil
}

// removeAbandoned removes what a crash or a full disk left of snapshots that were never completed: the library passes over it for ever, and a
// node that keeps failing would fill its disk with it.
func removeAbandoned(files env.FS, snapshots string) error {
	there, err := env.Exists(files, snapshots)
	if err != nil || !there {
		return err
	}
	entries, err := files.ReadDir(snapshots)
	if err != nil {
		return fmt.Errorf("raftnode: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasSuffix(e.Name(), snapshotTmpSuffix) {
			continue
		}
		if err := files.RemoveAll(filepath.Join(snapshots, e.Name())); err != nil {
			return fmt.Errorf("raftnode: remove an unfinished snapshot: %w", err)
		}
	}
	return nil
}

// begin tells of what was refused while the library started.
func (s *snapshotStore) begin() {
	for _, err := range s.refused {
		s.tell(err)
	}
	s.running.Store(true)
}

func (s *snapshotStore) tell(err error) {
	s.logger.Error("metadata snapshot refused", "error", err)
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport) (sink raft.SnapshotSink, err error) {
	s.guard.env.At(PointSnapshotBegin)
	begun := s.guard.logged.Load()
	err = s.guard.untimed(CallSnapshotCreate, func() error {
		sink, err = s.inner.Create(version, index, term, configuration, configurationIndex, trans)
		return err
	})
	if err != nil {
		s.metrics.SnapshotsFailed.Add(1)
		return nil, err
	}
	if err := writeFacts(s.guard.env.FS, s.dir, sink.ID(), factsOf(index, term, configuration, configurationIndex)); err != nil {
		s.metrics.SnapshotsFailed.Add(1)
		return nil, errors.Join(err, sink.Cancel())
	}
	return &snapshotSink{SnapshotSink: sink, store: s, begun: begun, index: index, term: term}, nil
}

// List implements raft.SnapshotStore, newest first.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) { return s.inner.List() }

// Open implements raft.SnapshotStore. The library checks the whole file's checksum before it returns, so nothing of a
// damaged snapshot reaches the FSM.
func (s *snapshotStore) Open(id string) (meta *raft.SnapshotMeta, r io.ReadCloser, err error) {
	err = s.guard.untimed(CallSnapshotOpen, func() error { meta, r, err = s.inner.Open(id); return err })
	if err != nil {
		s.metrics.SnapshotsDamaged.Add(1)
		named := fmt.Errorf("%s: %w", filepath.Join(s.dir, id), err)
		if s.running.Load() {
			s.tell(named)
		} else {
			s.refused = append(s.refused, named)
		}
		return nil, nil, err
	}
	s.cover(meta.Index)
	return meta, r, nil
}

// cover notes a snapshot that is whole.
func (s *snapshotStore) cover(index uint64) {
	for old := s.covered.Load(); index > old && !s.covered.CompareAndSwap(old, index); old = s.covered.Load() {
	}
}

type snapshotSink struct {
	raft.SnapshotSink
	store *snapshotStore
	begun uint64
	ended bool // the library closes again what Persist has closed
	own   bool // of this node's own state, else a leader's

	index, term uint64
}

func (s *snapshotSink) Write(p []byte) (n int, err error) {
	err = s.store.guard.untimed(CallSnapshotWrite, func() error { n, err = s.SnapshotSink.Write(p); return err })
	return n, err
}

func (s *snapshotSink) Close() error {
	if s.ended {
		return s.SnapshotSink.Close()
	}
	s.ended = true
	s.store.guard.env.At(PointSnapshotClose)
	err := s.store.guard.untimed(CallSnapshotClose, func() error {
		if err := s.SnapshotSink.Close(); err != nil || s.store.guard.begin == nil {
			return err
		}
		return s.store.guard.begin()
	})
	if err != nil {
		s.store.metrics.SnapshotsFailed.Add(1)
		return err
	}
	s.store.guard.env.At(PointSnapshotDone)
	s.store.metrics.SnapshotsTaken.Add(1)
	s.store.bytesCovered.Store(s.begun)
	s.store.cover(s.index)
	if s.own || s.store.installed == nil {
		return nil
	}
	return s.store.installed(s.index, s.term)
}

func (s *snapshotSink) Cancel() error {
	if !s.ended {
		s.ended = true
		s.store.metrics.SnapshotsFailed.Add(1)
	}
	return s.SnapshotSink.Cancel()
}
