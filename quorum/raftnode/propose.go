package raftnode

import (
	"errors"
	"strconv"

	"github.com/hashicorp/raft"
)

// Fate is what is known of a proposal.
type Fate uint8

const (
	// FateApplied: committed and applied by this node's FSM.
	FateApplied Fate = iota
	// FateNotInLog: certainly not in the log, and will never be.
	FateNotInLog
	// FateSuperseded: a restore by an operator made it void.
	FateSuperseded
	// FateUnknown: it may be in the log, now or later. Only committed state tells.
	FateUnknown
)

// String names it.
func (f Fate) String() string {
	switch f {
	case FateApplied:
		return "applied"
	case FateNotInLog:
		return "not in log"
	case FateSuperseded:
		return "superseded"
	case FateUnknown:
		return "unknown"
	}
	return "fate " + strconv.Itoa(int(f))
}

// Outcome is how a proposal ended.
type Outcome struct {
	// Proposal is the one that ended.
	Proposal *Proposal
	// Fate is what is known of it.
	Fate Fate
	// Index is its Raft index, 0 if it never got one.
	Index uint64
	// Response is the FSM's, if it was applied. An error of the FSM is a response.
	Response any
	// Err is the library's error unless it was applied.
	Err error
}

// Proposal is an entry on its way.
type Proposal struct {
	node   *Node
	future raft.ApplyFuture
}

// Apply proposes an entry. Entries of one goroutine get strictly increasing indexes if they get one at all, but one may
// be refused and the next accepted in the same term. Apply blocks only while MaxAppendEntries entries wait before the main
// loop, and ends with the node. The bytes belong to the node afterwards.
//
// The proposal is waited for by a [Waiter] or by Wait, never on the path of a request.
func (n *Node) Apply(data []byte) *Proposal {
	future := n.running().Apply(data, 0)
	bindFuture(future, n.raftEnded)
	return &Proposal{node: n, future: future}
}

// Wait blocks until the proposal has ended or the node has stopped. One goroutine may call it, once.
func (p *Proposal) Wait() Outcome {
	err := p.future.Error()
	if errors.Is(err, raft.ErrRaftShutdown) && p.node.hasRaftEnded() && !p.node.stoppedClean.Load() {
		// The library still runs and may write the index while we would read it.
		return Outcome{Proposal: p, Fate: FateUnknown, Err: err}
	}
	out := Outcome{Proposal: p, Index: p.future.Index(), Err: err}
	out.Fate = fateOf(err, out.Index)
	if out.Fate == FateApplied {
		out.Response = p.future.Response()
	}
	return out
}

// fateOf judges an error of Apply. Without an index the entry was never given to the log. With one, only two errors
// leave no doubt.
func fateOf(err error, index uint64) Fate {
	switch {
	case err == nil:
		return FateApplied
	case errors.Is(err, raft.ErrAbortedByRestore):
		return FateSuperseded
	case index == 0:
		return FateNotInLog
	}
	return FateUnknown
}
