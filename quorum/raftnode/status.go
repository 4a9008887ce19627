package raftnode

import (
	"time"

	"github.com/hashicorp/raft"
)

// Metrics are the node's counters.
func (n *Node) Metrics() *Metrics { return &n.metrics }

// Stopped is closed when the node has stopped: nothing that was proposed will resolve any more.
func (n *Node) Stopped() <-chan struct{} { return n.stopped }

// ID is the node's own server id.
func (n *Node) ID() ServerID { return n.cfg.ID }

// LeadershipChanged has room for one notice: after each, read [Node.Leadership].
func (n *Node) LeadershipChanged() <-chan struct{} { return n.leadership.changed }

// Leadership is what the notices said so far.
func (n *Node) Leadership() Leadership { return n.leadership.current() }

// Leader is the leader that this node knows, with its RAFT address. False: it knows none.
func (n *Node) Leader() (id ServerID, address string, ok bool) {
	at, leader := n.running().LeaderWithID()
	id, err := ParseServerID(string(leader))
	if err != nil {
		return ServerID{}, "", false
	}
	if peer, err := parsePeerAddress(string(at)); err == nil {
		address = peer.hostPort
	}
	return id, address, true
}

// State is follower, candidate, leader or shutdown. A paused process says leader until its loop runs again: it is
// a hint.
func (n *Node) State() raft.RaftState { return n.running().State() }

// CurrentTerm is the term that this node knows. Nothing may be decided by it: the term of an entry is in the entry.
func (n *Node) CurrentTerm() uint64 { return n.running().CurrentTerm() }

// CommitIndex is the highest index that this node knows to be committed; 0 after a start until a leader told it.
func (n *Node) CommitIndex() uint64 { return n.running().CommitIndex() }

// LastIndex is the index of the last entry in this node's log, committed or not.
func (n *Node) LastIndex() uint64 { return n.running().LastIndex() }

// Stats are the library's, for people.
func (n *Node) Stats() map[string]string { return n.running().Stats() }

// LastContact is how long ago the leader was heard, 0 on the leader itself. False: never.
func (n *Node) LastContact() (time.Duration, bool) {
	// The library keeps a time of its own clock; only its own difference is right.
	switch s := n.Stats()["last_contact"]; s {
	case "never":
		return 0, false
	case "0":
		return 0, true
	default:
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
}

// OldestIndex is the index of the oldest entry in the log, 0 for an empty log. A reader behind it needs a snapshot.
func (n *Node) OldestIndex() (uint64, error) { return n.stores.log.FirstIndex() }

// ReadLog reads an entry. It gives [raft.ErrLogNotFound] itself for an index that the log does not hold. The caller reads
// applied entries only, and does not change their bytes.
func (n *Node) ReadLog(index uint64, entry *raft.Log) error { return n.stores.log.GetLog(index, entry) }

// GetConfiguration is the newest configuration that this node knows, committed or not. Right after a follower's log was
// cut it may fail once; ask again.
func (n *Node) GetConfiguration() (Configuration, error) {
	newest, index, err := n.configuration.read()
	if err != nil {
		return Configuration{}, err
	}
	return configurationFrom(newest, index)
}

// CommittedConfiguration is the newest configuration that this node knows, if it also knows it to be committed. Right
// after a start it knows that of what a snapshot holds only.
func (n *Node) CommittedConfiguration() (Configuration, bool) {
	r := n.raft.Load()
	if r == nil {
		return Configuration{}, false
	}
	conf, err := n.GetConfiguration()
	return conf, err == nil && conf.Index > 0 && conf.Index <= max(r.CommitIndex(), r.AppliedIndex())
}
