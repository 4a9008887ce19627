package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// The library keeps what a log holds when it installs a leader's snapshot (hashicorp/raft GH-697). If the log diverges from
// that leader's, the follower never follows again: the entry at the snapshot's index has another term, each append behind
// it is refused, and the leader sends the snapshot again, without end. If the log ends before the snapshot, its entries
// stay behind a hole, and whoever follows this node later would get them. Raft paper §7, figure 13, steps 6 and 7: keep
// the log only if it has the snapshot's last entry, else discard all of it.
//
// cutLog does that as soon as the snapshot is on the disk and before the library goes on; Open does it again, for a crash
// between the two. What may go, given a whole snapshot up to (index, term):
//
//   - The log has that entry with that term: nothing. Equal index and term mean equal logs up to there.
//   - It has it with another term: everything. A snapshot covers committed entries only, so (index, term) is committed, and
//     an index has one committed entry: ours is none, and nothing behind it is (Raft paper §5.4, log matching, leader
//     completeness). What is committed before it is in the snapshot.
//   - It has none there: only entries up to index, which the snapshot holds. A log that begins behind the snapshot stays as
//     it is; its entries may be committed.
//
// So no committed entry is lost that the snapshot does not hold. A snapshot of the node's own state is never asked: its
// last entry was applied here, so the log has it, or was compacted up to it at least.

// cut is what must leave a log beside a snapshot.
type cut struct {
	first, last uint64 // entries; none if last is 0
	whole       bool   // nothing stays
}

// planCut compares a log with a snapshot that ends at (index, term).
func planCut(log raft.LogStore, index, term uint64) (cut, error) {
	first, err := log.FirstIndex()
	if err != nil {
		return cut{}, err
	}
	last, err := log.LastIndex()
	if err != nil || last == 0 || first > index {
		return cut{}, err
	}
	var entry raft.Log
	switch err := log.GetLog(index, &entry); {
	case errors.Is(err, raft.ErrLogNotFound):
		to := min(last, index)
		return cut{first: first, last: to, whole: to == last}, nil
	case err != nil:
		return cut{}, err
	case entry.Term == term:
		return cut{}, nil
	}
	return cut{first: first, last: last, whole: true}, nil
}

// cutForInstalled makes the log agree with a snapshot that a leader has sent. It runs on the library's main goroutine, which
// waits for the sink, so nobody appends meanwhile.
func (n *Node) cutForInstalled(index, term uint64) error {
	r := n.raft.Load()
	if r != nil && index <= r.AppliedIndex() {
		return nil // late: what it ends with was applied here, and is committed
	}
	plan, err := planCut(n.stores.log, index, term)
	if err != nil || plan.last == 0 {
		return err
	}
	n.cfg.Logger.Warn("raft log entries replaced by the leader's snapshot", "first", plan.first, "last", plan.last,
		"snapshotIndex", index, "snapshotTerm", term)
	// The deletion goes through the cache, and a whole log goes in one transaction.
	if err := n.stores.log.DeleteRange(plan.first, plan.last); err != nil {
		return err
	}
	n.metrics.LogCuts.Add(1)
	if !plan.whole || r == nil {
		return nil
	}
	if err := n.parts.lastLog(r, index, term); err != nil {
		err := fmt.Errorf("%w: the raft log was replaced by a snapshot up to index %d, and this process cannot go on (%w); start the node again",
			ErrStoreFailed, index, err)
		n.stores.guard.dog.fail(err)
		return err
	}
	return nil
}

// cutAtOpen does what a crash after the snapshot's last write left undone. A snapshot that cannot be read cuts nothing: the
// library then takes the one before, which needs the log.
func (n *Node) cutAtOpen() error {
	list, err := n.snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	newest := list[0]
	plan, err := planCut(n.stores.log, newest.Index, newest.Term)
	if err != nil || plan.last == 0 {
		return err
	}
	_, content, err := n.snapshots.inner.Open(newest.ID) // reads all of it, for its checksum
	if err != nil {
		return nil // named when the library opens it
	}
	if err := content.Close(); err != nil {
		return err
	}
	n.cfg.Logger.Warn("raft log entries replaced by the snapshot at start", "first", plan.first, "last", plan.last,
		"snapshotIndex", newest.Index, "snapshotTerm", newest.Term)
	n.metrics.LogCuts.Add(1)
	return n.stores.log.DeleteRange(plan.first, plan.last)
}

// ownFSM marks the sinks of the node's own snapshots, so that a leader's is told from them.
type ownFSM struct{ raft.FSM }

// ownBatchingFSM is the same for an FSM that takes batches. The library asks for that by type.
type ownBatchingFSM struct {
	ownFSM
	batching raft.BatchingFSM
}

// ApplyBatch implements raft.BatchingFSM.
func (f ownBatchingFSM) ApplyBatch(logs []*raft.Log) []any { return f.batching.ApplyBatch(logs) }

func markOwnSnapshots(fsm raft.FSM) raft.FSM {
	if batching, ok := fsm.(raft.BatchingFSM); ok {
		return ownBatchingFSM{ownFSM{fsm}, batching}
	}
	return ownFSM{fsm}
}

// Snapshot implements raft.FSM.
func (f ownFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := f.FSM.Snapshot()
	if err != nil {
		return nil, err
	}
	return ownSnapshot{s}, nil
}

type ownSnapshot struct{ raft.FSMSnapshot }

// Persist implements raft.FSMSnapshot.
func (s ownSnapshot) Persist(sink raft.SnapshotSink) error {
	if own, ok := sink.(*snapshotSink); ok {
		own.own = true
	}
	return s.FSMSnapshot.Persist(sink)
}
