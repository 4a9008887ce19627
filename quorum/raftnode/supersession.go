package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// NoLineage is the lineage of an empty log: its server may become a member of any quorum.
const NoLineage int32 = -1

// supersededFile keeps, among the stores, that a server is superseded. A recovery of that server replaces the folder, and it with it.
const supersededFile = "superseded.json"

// Superseded says why a server has no say any more: it heard of a newer lineage than that of its log (an offline recovery went on
// without it), or that it was removed from the quorum. What its log holds may be lost, and what it would add certainly is.
type Superseded struct {
	// Lineage is the newest one heard of, Own that of the server's log. They are equal for a server that was removed.
	Lineage int32 `json:"lineage"`
	Own     int32 `json:"ownLineage"`
	// Removed tells that it was removed from the quorum.
	Removed bool `json:"removed"`
	// By is who said so: a server id, or another node in words.
	By string `json:"saidBy"`
	// Server is the superseded server itself, in the file: it is not to be taken for that of another directory.
	Server string `json:"server,omitempty"`
	// Keep tells that another controller said so in the handshake: it is remembered over restarts, and told to others.
	Keep bool `json:"-"`
}

// Reason is the whole of it in words, with the next step. me is the server's own id.
func (s Superseded) Reason(me ServerID) string {
	if s.Removed {
		return fmt.Sprintf("%s says that this controller was removed from the quorum; with directory %s it stays out: stop it, or format another directory with "+
			"`quorate format --no-initial-controllers`, start it and add it with `quorate quorum add %d`", s.By, me.DirectoryID, me.NodeID)
	}
	return fmt.Sprintf("this controller is superseded: its log is of lineage %d, and %s says that an offline recovery of the quorum has begun lineage %d; what it would acknowledge "+
		"would be lost. Stop it, format another directory with `quorate format --no-initial-controllers`, start it and add it with `quorate quorum add %d`",
		s.Own, s.By, s.Lineage, me.NodeID)
}

// Superseded tells why this server has no say any more; nil as long as it has.
func (n *Node) Superseded() *Superseded { return n.superseded.Load() }

// OutOfQuorum is closed when the server is superseded.
func (n *Node) OutOfQuorum() <-chan struct{} { return n.outOfQuorum }

// Supersede takes the server out: from now on it votes for nobody, campaigns not, and speaks with nobody. It is not undone.
// It may be called from any goroutine, when the node is open; the first call of a newer lineage counts.
func (n *Node) Supersede(s Superseded) {
	n.supersededMu.Lock()
	defer n.supersededMu.Unlock()
	old := n.superseded.Load()
	if old != nil && old.Lineage >= s.Lineage {
		return
	}
	n.superseded.Store(&s)
	if old == nil {
		close(n.outOfQuorum)
		n.stopRaft()
		n.endFutures()
		n.leadership.take(false)
		n.layer.sever()
	}
	n.cfg.Logger.Error("this controller has no say any more", "reason", s.Reason(n.cfg.ID))
	if s.Keep {
		if err := n.keepSuperseded(s); err != nil {
			n.cfg.Logger.Error("that this controller is superseded could not be kept; its next start has to hear it again", "error", err)
		}
	}
}

// stopRaft stops the library, its transport excepted: whoever dials is still told why. It does not wait.
func (n *Node) stopRaft() raft.Future {
	n.shutdownOnce.Do(func() { n.shutdown = n.running().Shutdown() })
	return n.shutdown
}

func (n *Node) keepSuperseded(s Superseded) error {
	s.Server = n.cfg.ID.String()
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return env.WriteFileAtomic(n.cfg.Env.FS, filepath.Join(n.cfg.Dir, supersededFile), append(data, '\n'), storeFileMode)
}

// readSuperseded reads what was kept in a folder of stores; nil if nothing was.
func readSuperseded(files env.FS, dir string) (*Superseded, error) {
	path := filepath.Join(dir, supersededFile)
	data, err := env.ReadFile(files, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s := new(Superseded)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err == nil && (s.By == "" || s.Lineage < s.Own || s.Lineage == s.Own && !s.Removed) {
		err = errors.New("it names no newer lineage and no removal")
	}
	if err != nil {
		return nil, fmt.Errorf("raftnode: %s is damaged: %w; move it away: the other controllers say again whether this one is superseded", path, err)
	}
	s.Keep = true
	return s, nil
}

// toldLineage is the newest lineage that a server tells others of: its own, or one that another controller has told it.
func (s *Superseded) toldLineage(own int32) int32 {
	if s == nil || !s.Keep {
		return own
	}
	return max(own, s.Lineage)
}

// NewestLineage is the newest lineage that this server tells others of, given that of its log.
func (n *Node) NewestLineage(own int32) int32 { return n.Superseded().toldLineage(own) }

// recallSuperseded makes the server superseded again if that was kept by an earlier life.
func (n *Node) recallSuperseded() error {
	s, err := readSuperseded(n.cfg.Env.FS, n.cfg.Dir)
	if err == nil && s != nil && s.Server != "" && s.Server != n.cfg.ID.String() {
		return fmt.Errorf("raftnode: %s was kept by server %s, and this is %s: move it away; the other controllers say again whether this one is superseded",
			filepath.Join(n.cfg.Dir, supersededFile), s.Server, n.cfg.ID)
	}
	if err == nil && s != nil && (s.Removed || s.Lineage > n.lineage()) {
		n.Supersede(*s)
	}
	return err
}

// lineage is that of the log, [NoLineage] for a server that belongs to no quorum yet: the library takes the configuration of a
// snapshot over after the FSM has restored it.
func (n *Node) lineage() int32 {
	switch r := n.raft.Load(); {
	case r == nil || len(r.GetConfiguration().Configuration().Servers) == 0:
		return NoLineage
	case n.cfg.Lineage == nil:
		return 0
	}
	return n.cfg.Lineage()
}
