package raftnode

import "sync/atomic"

// Metrics counts what the node saw. All fields may be read at any time.
type Metrics struct {
	// Handshakes counts incoming ones by their end; the index is a verdict, see [HandshakeLabels].
	Handshakes [verdicts]atomic.Uint64
	// DialsRefused counts own connections that a listener refused, DialsFailed those that broke in the handshake.
	DialsRefused, DialsFailed atomic.Uint64
	// Takeovers counts notices that this node became Raft leader.
	Takeovers atomic.Uint64
	// LogEntries and LogBytes count what was written to the log.
	LogEntries, LogBytes atomic.Uint64
	// CacheHits and CacheMisses count reads of the log.
	CacheHits, CacheMisses atomic.Uint64
	// SnapshotsTaken counts snapshots completed, received ones included; SnapshotsFailed those given up.
	SnapshotsTaken, SnapshotsFailed atomic.Uint64
	// SnapshotsDamaged counts snapshots that could not be opened, because of their checksum as a rule.
	SnapshotsDamaged atomic.Uint64
	// LogCuts counts deletions of log entries that a leader's snapshot replaced.
	LogCuts atomic.Uint64
}

// HandshakeLabels are the labels of Metrics.Handshakes in the order of its indexes.
func HandshakeLabels() []string { return append([]string(nil), verdictNames[:]...) }
