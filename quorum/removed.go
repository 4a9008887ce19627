package quorum

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/raftnode"
)

// stateRemoved is the state of a controller that the quorum has given up.
const stateRemoved = "removed"

// isRemoved tells whether a server is recorded as removed, for the RAFT listener.
func (n *Node) isRemoved(id raftnode.ServerID) bool {
	directory, err := image.ParseUUID(id.DirectoryID)
	return err == nil && n.fsm.Image().IsRemovedController(image.BrokerID(id.NodeID), directory)
}

// membership is what this node knows of its own place in the quorum. Why says what an operator does about it; empty for a
// member. That it was removed stays true for good, but who says so must know: a member whose own configuration is
// committed, the active controller, this node's own committed configuration, or one of them in an earlier life.
func (n *Node) membership() (isMember, removed bool, why string) {
	me := n.raft.ID()
	if s := n.raft.Superseded(); s != nil {
		return false, true, s.Reason(me)
	}
	conf, err := n.raft.GetConfiguration()
	if err != nil || conf.Has(me) {
		return true, false, ""
	}
	committed, ok := n.raft.CommittedConfiguration()
	if n.refusedAsRemoved.Load() || ok && !committed.Has(me) && n.isRemoved(me) {
		return false, true, "this controller was removed from the quorum; " + n.staysOut()
	}
	return false, false, fmt.Sprintf("this controller is not a member of the quorum: add it with `quorate quorum add %d`", me.NodeID)
}

func (n *Node) staysOut() string {
	return fmt.Sprintf("with directory %v it stays out: stop it, or format another directory with `quorate format --no-initial-controllers`, start it and add it with `quorate quorum add %v`",
		n.cfg.DirectoryID, n.cfg.NodeID)
}
