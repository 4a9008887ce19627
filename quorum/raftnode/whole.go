package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

var (
	// ErrStateLost says that everything is gone that a member had acknowledged and voted.
	ErrStateLost = errors.New("raftnode: the raft state is gone")
	// ErrLogLost says that a member's log is gone, and not the rest.
	ErrLogLost = errors.New("raftnode: the raft log is gone")
	// ErrVotesLost says that a member's term and vote are gone or older than its log: it could vote twice in a term.
	ErrVotesLost = errors.New("raftnode: the raft votes are gone")
	// ErrForeignState says that the directory is another server's.
	ErrForeignState = errors.New("raftnode: the raft state is another server's")
	// ErrSnapshotsLost says that the snapshots are gone that hold what is before the log.
	ErrSnapshotsLost = errors.New("raftnode: the metadata snapshots are gone")
)

// StateError says that what is on the disk does not let the node start.
type StateError struct{ err error }

func (e *StateError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *StateError) Unwrap() error { return e.err }

// replaceMember is the next step of a member that has lost something for good.
const replaceMember = "take the member out with `quorate quorum remove`, format the directory anew and add it with `quorate quorum add`"

// lost makes the error of a file that is gone.
func lost(kind error, file, format string, args ...any) error {
	return fmt.Errorf("%w: %s; put %s back, or %s", kind, fmt.Sprintf(format, args...), file, replaceMember)
}

// checkBeforeOpen refuses a node whose files are gone as such, before the stores are made anew: an empty log behind a snapshot is also
// what a follower has after it took a leader's.
func checkBeforeOpen(files env.FS, dir string, begun bool) error {
	metas, damaged, err := readSnapshotMetas(files, dir)
	if err != nil {
		return err
	}
	log, err := holdsBytes(files, filepath.Join(dir, logFile))
	if err != nil {
		return err
	}
	votes, err := holdsBytes(files, filepath.Join(dir, stableName))
	if err != nil {
		return err
	}
	snapshots := len(metas)+len(damaged) > 0
	switch {
	case begun && !log && !votes && !snapshots:
		return lost(ErrStateLost, "what was in it", "%s holds no %s and no %s, and this node was a member of the quorum", dir, logFile, stableName)
	case (begun || snapshots) && !log:
		return lost(ErrLogLost, logFile, "%s has no %s", dir, logFile)
	case begun && !votes:
		return lost(ErrVotesLost, stableName, "%s has no %s", dir, stableName)
	}
	return nil
}

// holdsBytes tells whether a file is there and not empty.
func holdsBytes(files env.FS, path string) (bool, error) {
	info, err := files.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// checkOwner refuses the state of another server, and marks one without a mark as this server's: an older release marked none. Who goes
// on with the term, vote and log of another could vote for both in one term.
func (n *Node) checkOwner() error {
	self := n.cfg.ID.String()
	switch owner, err := n.stores.stable.file.get(keyOwner); {
	case errors.Is(err, errKeyNotFound):
		return n.stores.stable.file.set(pair{keyOwner, []byte(self)})
	case err != nil:
		return fmt.Errorf("raftnode: read the owner of %s: %w", filepath.Join(n.cfg.Dir, stableName), err)
	case string(owner) != self:
		return fmt.Errorf("%w: %s is of server %q, and this node is %s; put the meta.properties and the raft directory back that belong together, or %s",
			ErrForeignState, n.cfg.Dir, owner, self, replaceMember)
	}
	return nil
}

// checkWhole refuses a node of which something is gone: what it acknowledged or voted under this identity is forgotten, and it would go
// on as if it had never been. Raft writes its term before its first entry, so entries without a term say that the term is gone, and none
// of an entry's term may be above it. A term without entries is what a newcomer has until it gets the first of them, which it may
// not live to see; it has nothing to lose then, for nobody counts on its vote before it has caught up. That is noted beside the term. That
// there was anything at all is known from outside the directory.
func (n *Node) checkWhole() error {
	have, err := n.survey()
	if err != nil {
		return err
	}
	dir, covered := n.cfg.Dir, uint64(0)
	if len(have.snapshots) > 0 {
		covered = have.snapshots[0].Index
	}
	began := have.last > 0 || len(have.snapshots) > 0
	switch unreadable := n.snapshots.unreadable; {
	case !began && len(unreadable) > 0:
		return joined(unreadable)
	case !began && have.term == 0 && !n.cfg.Begun:
		return n.stores.stable.file.set(pair{keyNothingHeld, []byte{1}}) // never ran
	case !began && have.nothingHeld && !n.cfg.Begun:
		return nil
	case !began && have.term == 0:
		return lost(ErrStateLost, "what was in it", "%s holds neither log entries nor a snapshot nor a term, and this node was a member of the quorum", dir)
	case !began:
		return lost(ErrLogLost, "the log", "%s has term %d but neither log entries nor a snapshot", dir, have.term)
	case have.term == 0:
		return lost(ErrVotesLost, stableName, "%s has entries up to %d and no term", dir, max(have.last, covered))
	case have.term < have.lastTerm:
		return lost(ErrVotesLost, stableName, "%s has entries of term %d and knows only term %d: %s is older than the log", dir, have.lastTerm, have.term, stableName)
	case have.first > covered+1 && len(unreadable) > 0:
		return joined(unreadable)
	case have.first > covered+1:
		return lost(ErrSnapshotsLost, snapshotsDir, "the log in %s begins at index %d, and no snapshot holds what is before", dir, have.first)
	}
	return n.begin()
}

// onDisk is what the stores hold.
type onDisk struct {
	term, lastTerm uint64
	first, last    uint64
	snapshots      []*raft.SnapshotMeta
	nothingHeld    bool // as noted beside the term
}

func (n *Node) survey() (d onDisk, err error) {
	if d.term, err = n.stores.stable.GetUint64(keyCurrentTerm); err != nil {
		d.term = 0 // never written
	}
	held, err := n.stores.stable.file.get(keyNothingHeld)
	d.nothingHeld = err == nil && len(held) == 1 && held[0] == 1
	if d.first, err = n.stores.log.FirstIndex(); err != nil {
		return d, err
	}
	if d.last, err = n.stores.log.LastIndex(); err != nil {
		return d, err
	}
	if d.snapshots, err = n.snapshots.List(); err != nil {
		return d, err
	}
	for _, s := range d.snapshots {
		d.lastTerm = max(d.lastTerm, s.Term)
	}
	if d.last > 0 {
		var entry raft.Log
		if err := n.stores.log.GetLog(d.last, &entry); err != nil {
			return d, n.ofLog(fmt.Errorf("raftnode: read index %d: %w", d.last, err))
		}
		d.lastTerm = max(d.lastTerm, entry.Term)
	}
	return d, nil
}

// ofLog names the log and the next step in an error of reading it.
func (n *Node) ofLog(err error) error {
	return fmt.Errorf("%w; if %s is damaged, %s", err, filepath.Join(n.cfg.Dir, logFile), replaceMember)
}

// begin notes, outside the directory as well, that there are entries or a snapshot now. It is called before anybody is told so, and by
// a start that finds some, for a crash between the two.
func (n *Node) begin() error {
	if n.hasBegun.Load() {
		return nil
	}
	if n.cfg.Begin != nil {
		if err := n.cfg.Begin(); err != nil {
			return fmt.Errorf("raftnode: note that the raft state has begun: %w", err)
		}
	}
	if err := n.stores.stable.file.set(pair{keyNothingHeld, []byte{0}}); err != nil {
		return err
	}
	n.hasBegun.Store(true)
	return nil
}
