package recovery

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// snapshotBufferBytes is the size of the buffer between a snapshot's file and its reader.
const snapshotBufferBytes = 256 << 10

// Directory is a controller's data directory.
type Directory struct {
	// Path names it in messages; Raft is the folder of its stores.
	Path, Raft string
	// ID is whom it belongs to.
	ID raftnode.ServerID
}

// Source is a directory with the state that is in it.
type Source struct {
	Directory
	// Term is the highest term in it, LastTerm and LastIndex are those of its last entry.
	Term, LastTerm, LastIndex uint64
	// SnapshotIndex is that of its newest snapshot, 0 without one.
	SnapshotIndex uint64
	// Damaged are its snapshots whose meta data cannot be read.
	Damaged       []raftnode.DamagedSnapshot
	Configuration raftnode.Configuration
	// Superseded is what its controller had heard of a newer lineage; nil if nothing.
	Superseded *raftnode.Superseded
}

// survey reads what a directory's stores say of themselves. A directory without any is blank: ok is false.
func survey(e *env.Env, d Directory) (s Source, ok bool, err error) {
	o, err := raftnode.OpenOffline(e, d.Raft)
	if errors.Is(err, raftnode.ErrNoState) {
		return Source{Directory: d}, false, nil
	}
	if err != nil {
		return Source{}, false, err
	}
	if o.Owner != "" && o.Owner != d.ID.String() {
		return Source{}, false, errors.Join(fmt.Errorf("%w: %s is of server %s, and the meta.properties beside it of %s; put those together that belong together",
			raftnode.ErrForeignState, d.Raft, o.Owner, d.ID), o.Close())
	}
	s = Source{Directory: d, Term: o.Term, LastTerm: o.LastTerm, LastIndex: o.LastIndex, Damaged: o.Damaged,
		Configuration: o.Configuration, Superseded: o.Superseded}
	if len(o.Snapshots) > 0 {
		s.SnapshotIndex = o.Snapshots[0].Index
	}
	return s, true, o.Close()
}

// furthest returns the source whose log Raft would prefer in a vote: the higher term of the last entry, then the higher index. Equal
// logs hold the same, so the newest snapshot and then the order given decide.
func furthest(sources []Source) Source {
	return slices.MaxFunc(sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(a.LastTerm, b.LastTerm), cmp.Compare(a.LastIndex, b.LastIndex), cmp.Compare(a.SnapshotIndex, b.SnapshotIndex))
	})
}

// judgeDamaged refuses a recovery that may lack what a damaged snapshot held: one that the furthest log does not reach, or of which that
// is not known.
func judgeDamaged(f Source, sources []Source) error {
	for _, s := range sources {
		for _, d := range s.Damaged {
			if d.Index > 0 && cmp.Or(cmp.Compare(d.Term, f.LastTerm), cmp.Compare(d.Index, f.LastIndex)) <= 0 {
				continue
			}
			return &RefusedError{Forcible: true, Reason: fmt.Sprintf("%s: %v: the furthest log (%s, to raft term %d, index %d) does not reach what that snapshot held; "+
				"give the directory of a controller that has it with --directory", s.Path, d.Err, f.Path, f.LastTerm, f.LastIndex)}
		}
	}
	return nil
}

// load replays a source to its end, from its newest snapshot that is whole. Uncommitted entries at its end count as committed.
func load(e *env.Env, s Source, clusterID string) (fsm.Position, fsm.Certain, error) {
	o, err := raftnode.OpenOffline(e, s.Raft)
	if err != nil {
		return fsm.Position{}, fsm.Certain{}, err
	}
	from, err := loadSnapshot(o, clusterID)
	var at fsm.Position
	var certain fsm.Certain
	if err == nil {
		at, certain, err = fsm.ReplayLog(o, from, o.LastIndex, fsm.EntriesInFlightMax)
	}
	if err = errors.Join(err, o.Close()); err != nil {
		return fsm.Position{}, fsm.Certain{}, fmt.Errorf("recovery: the log in %s cannot be read to its end: %w; leave this directory out (the node's own with --without-own), "+
			"or give another controller's with --directory", s.Path, err)
	}
	return at, certain, nil
}

// loadSnapshot returns the position of the newest snapshot that is whole, or that before the first entry if the log reaches back to it.
func loadSnapshot(o *raftnode.Offline, clusterID string) (fsm.Position, error) {
	var failed []error
	for _, d := range o.Damaged {
		failed = append(failed, d.Err)
	}
	for _, s := range o.Snapshots {
		at, err := readSnapshot(o, s, clusterID)
		if err == nil {
			return at, nil
		}
		failed = append(failed, fmt.Errorf("snapshot %s: %w", s.ID, err))
	}
	if o.FirstIndex == 1 {
		return fsm.Position{State: fsm.InitialState(), Image: image.Empty()}, nil
	}
	if len(failed) == 0 {
		failed = append(failed, fmt.Errorf("the log begins at index %d and no snapshot covers what is before", o.FirstIndex))
	}
	one := failed[0] // in one line
	for _, err := range failed[1:] {
		one = fmt.Errorf("%w; %w", one, err)
	}
	return fsm.Position{}, one
}

func readSnapshot(o *raftnode.Offline, s raftnode.OfflineSnapshot, clusterID string) (at fsm.Position, err error) {
	file, err := o.OpenSnapshot(s)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, im, err := snapshot.Read(bufio.NewReaderSize(file, snapshotBufferBytes))
	if err != nil {
		return at, err
	}
	if h.ClusterId != clusterID {
		return at, fmt.Errorf("it is of cluster %q, the directory belongs to %q", h.ClusterId, clusterID)
	}
	if h.GetRaftIndex() > s.Index || h.GetClaimTerm() > s.Term {
		return at, fmt.Errorf("its meta data says term %d, index %d, and it goes up to term %d, index %d", s.Term, s.Index, h.GetClaimTerm(), h.GetRaftIndex())
	}
	at = fsm.Position{State: fsm.StateOf(h), Image: im}
	at.State.Index = s.Index // entries of Raft's own may lie between the last command and the snapshot
	return at, nil
}
