package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// stateRemoved is the state of a controller that the quorum has given up.
const stateRemoved = "removed"

// isRemoved tells whether a server is recorded as removed, for the RAFT listener.
func (n *Node) isRemoved(id raftnode.ServerID) bool {
	directory, err := image.ParseUUID(id.DirectoryID)
	return err == nil && n.fsm.Image().IsRemovedController(image.BrokerID(id.NodeID), directory)
}

// removedFile stands in the data directory of a controller that was told of its removal, so that it knows after a start too,
// also when nobody is there to say it again.
const removedFile = "removed.json"

// removedNote is its content.
type removedNote struct {
	// Lineage is that of the log when it was told. An offline recovery begins another one, and may make it a member again.
	Lineage image.LineageNumber `json:"lineage"`
	// ToldMs is when, in milliseconds since the epoch.
	ToldMs int64 `json:"toldMs"`
	// Why is what was told.
	Why string `json:"why"`
}

// membership is what this node knows of its own place in the quorum. Why says what an operator does about it; empty for a
// member. That it was removed stays true for good, but who says so must know: a member whose own configuration is
// committed, the active controller, this node's own committed configuration, or one of them in an earlier life.
func (n *Node) membership() (isMember, removed bool, why string) {
	me := n.raft.ID()
	if s := n.raft.Superseded(); s != nil {
		return false, true, s.Reason(me)
	}
	if note := n.removedNote.Load(); note != nil && note.Lineage >= n.fsm.Image().Lineage().Number {
		return false, true, note.Why
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

// readRemoved reads what an earlier life was told. What cannot be read is told again by whoever knows.
func (n *Node) readRemoved() {
	path := filepath.Join(n.cfg.DataDir, removedFile)
	data, err := env.ReadFile(n.cfg.Env.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	note := new(removedNote)
	if err == nil {
		err = json.Unmarshal(data, note)
	}
	if err != nil || note.Why == "" {
		n.cfg.Logger.Warn("what this controller was told of its removal cannot be read, and is asked again", "file", path, "error", err)
		return
	}
	n.removedNote.Store(note)
}

// noteRemoved keeps what this node was told for its next life.
func (n *Node) noteRemoved(why string) {
	n.cfg.Logger.Error("this controller stays out", "nodeId", int(n.cfg.NodeID), "directoryId", n.cfg.DirectoryID.String(), "why", why)
	note := &removedNote{Lineage: n.fsm.Image().Lineage().Number, ToldMs: n.cfg.Env.Now().UnixMilli(), Why: why}
	if known := n.removedNote.Load(); known != nil && known.Lineage == note.Lineage {
		return
	}
	n.removedNote.Store(note)
	data, err := json.Marshal(note)
	if err == nil {
		err = env.WriteFileAtomic(n.cfg.Env.FS, filepath.Join(n.cfg.DataDir, removedFile), append(data, '\n'), 0o644)
	}
	if err != nil {
		n.cfg.Logger.Warn("the removal is not noted in the data directory: the next start has to be told again", "error", err)
	}
}

func (n *Node) staysOut() string {
	return fmt.Sprintf("with directory %v it stays out: stop it, or format another directory with `quorate format --no-initial-controllers`, start it and add it with `quorate quorum add %v`",
		n.cfg.DirectoryID, n.cfg.NodeID)
}
