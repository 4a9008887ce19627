package raftnode

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// changeStartTimeout is how long a membership change waits for the one before to be committed.
const changeStartTimeout = 5 * time.Second

// AddNonvoter adds a server without a vote, or gives a known one its address. Index is that of the configuration the
// change was decided on; another one meanwhile refuses it. A change is taken when the one before is committed and this
// node, the leader, has committed an entry of its term. It returns when the change is committed. If the context ends
// before, the change may still happen.
func (n *Node) AddNonvoter(ctx context.Context, id ServerID, address string, index uint64) error {
	return n.await(ctx, func(r *raft.Raft) raft.Future {
		return r.AddNonvoter(id.Raft(), raft.ServerAddress(address), index, changeStartTimeout)
	})
}

// AddVoter gives a server a vote, at once: let it catch up as a non-voter first. Otherwise as AddNonvoter.
func (n *Node) AddVoter(ctx context.Context, id ServerID, address string, index uint64) error {
	return n.await(ctx, func(r *raft.Raft) raft.Future {
		return r.AddVoter(id.Raft(), raft.ServerAddress(address), index, changeStartTimeout)
	})
}

// RemoveServer takes a server out. Otherwise as AddNonvoter.
func (n *Node) RemoveServer(ctx context.Context, id ServerID, index uint64) error {
	return n.await(ctx, func(r *raft.Raft) raft.Future {
		return r.RemoveServer(id.Raft(), index, changeStartTimeout)
	})
}

// TransferLeadership hands leadership to the most advanced voter. It is bounded by the context. Nothing may be proposed
// meanwhile: it would be refused. If this node loses leadership while the target catches up, the library may refuse every
// later Apply as "transfer in progress" (hashicorp/raft GH-696); who leads again under that mark is never let
// claim, and a controller ends its process for that.
func (n *Node) TransferLeadership(ctx context.Context) error {
	return n.await(ctx, func(r *raft.Raft) raft.Future { return r.LeadershipTransfer() })
}

// TransferLeadershipTo hands leadership to a server. Otherwise as TransferLeadership. Without an error this node does not
// lead any more; who does is another question.
func (n *Node) TransferLeadershipTo(ctx context.Context, id ServerID, address string) error {
	return n.await(ctx, func(r *raft.Raft) raft.Future {
		return r.LeadershipTransferToServer(id.Raft(), raft.ServerAddress(address))
	})
}

// DropRemoved closes connections that servers hold which were removed since: what they say on them would be refused one by
// one, and they would not be told why.
func (n *Node) DropRemoved() {
	if l := n.layer; l != nil {
		l.dropSenders(n.isRemoved)
	}
}

// isRemoved tells whether a server was removed and the configuration that this node knows to be committed is without it. What
// is recorded and not carried out yet refuses nobody: that vote may still be needed, and an entry that is not committed
// may vanish, with the server among those that make it vanish.
func (n *Node) isRemoved(id ServerID) bool {
	if n.cfg.Removed == nil || !n.cfg.Removed(id) {
		return false
	}
	conf, ok := n.CommittedConfiguration()
	return ok && !conf.Has(id)
}

// Snapshot takes a snapshot now. It returns without an error when there is nothing new.
func (n *Node) Snapshot(ctx context.Context) error {
	err := n.await(ctx, func(r *raft.Raft) raft.Future { return r.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
