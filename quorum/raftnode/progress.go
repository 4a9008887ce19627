package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// Progress is how far a follower is, as the answers to this node's appends tell.
type Progress struct {
	// Match is the highest index up to which the follower's log equals this node's; 0 while that is not known.
	Match uint64
	// Contact is how long ago the follower answered.
	Contact time.Duration
}

// followers keeps the progress of the servers that this node leads. The library has it and does not tell.
type followers struct {
	clock env.Clock
	// heard tells that an answer was noted.
	heard Signal

	mu   sync.Mutex
	term uint64
	seen map[raft.ServerID]followerSeen
}

type followerSeen struct {
	match   uint64
	contact time.Time
}

// note takes an answer to an append of a term. Match is 0 for one that says nothing of the log. An answer of an older term
// belongs to an older leadership.
func (f *followers) note(id raft.ServerID, term, match uint64) {
	now := f.clock.Now()
	defer f.heard.Tell()
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.term {
		return
	}
	if term > f.term || f.seen == nil {
		f.term, f.seen = term, make(map[raft.ServerID]followerSeen)
	}
	f.seen[id] = followerSeen{match: max(f.seen[id].match, match), contact: now}
}

// read is what is known of a server in a term.
func (f *followers) read(id raft.ServerID, term uint64) (Progress, bool) {
	now := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, ok := f.seen[id]
	if !ok || f.term != term {
		return Progress{}, false
	}
	return Progress{Match: seen.match, Contact: now.Sub(seen.contact)}, true
}

// AppendEntries implements raft.Transport, and notes how far the follower is. Heartbeats tell that it lives.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term <= args.Term {
		match := uint64(0)
		if resp.Success && args.PrevLogEntry > 0 {
			match = args.PrevLogEntry + uint64(len(args.Entries))
		}
		t.followers.note(id, args.Term, match)
	}
	return err
}

// Progress is how far a server is that this node leads. False: nothing was heard from it in the present term, or this node
// does not lead.
func (n *Node) Progress(id ServerID) (Progress, bool) {
	return n.transport.followers.read(id.Raft(), n.running().CurrentTerm())
}

// Heard is told whenever a server has answered that this node leads: look at [Node.Progress] then.
func (n *Node) Heard() *Signal { return &n.transport.followers.heard }
