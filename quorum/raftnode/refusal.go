package raftnode

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/quorate/quorate/quorum/env"
)

// Reasons of refusals that callers tell apart.
const (
	// ReasonWrongCluster is that of a node of another cluster.
	ReasonWrongCluster = "wrong_cluster"
	// ReasonSuperseded is that of a node that is left from an older lineage, or was removed.
	ReasonSuperseded = "superseded"
)

// HandshakeRefusedError is what dialing returns when the listener refused the handshake.
type HandshakeRefusedError struct {
	// Reason is one of the labels of [Metrics.Handshakes].
	Reason string
	// To is the server that was meant, Listener the one that answered.
	To, Listener string
	// Address is where it listens.
	Address string
	// Action says what to do, in one sentence.
	Action string
}

// Error implements error.
func (e *HandshakeRefusedError) Error() string {
	return fmt.Sprintf("raftnode: raft connection to %s at %s refused by %s: %s: %s", e.To, e.Address, e.Listener, e.Reason, e.Action)
}

// removedAction says what an operator does with a server that was removed from the quorum.
func removedAction(server string) string {
	node, _, _ := strings.Cut(server, ":")
	return fmt.Sprintf("controller %s was removed from the quorum and stays out: stop it, or format another directory for it with `quorate format --no-initial-controllers` and add it with `quorate quorum add %s`", server, node)
}

// supersededAction says what an operator does with a server whose log is of an older lineage.
func supersededAction(server string) string {
	node, _, _ := strings.Cut(server, ":")
	return fmt.Sprintf("the quorum was recovered offline, and controller %s is left from before: stop it, format another directory for it with `quorate format --no-initial-controllers`, start it and add it with `quorate quorum add %s`", server, node)
}

// action says what an operator has to do about a refusal. meant is the addressed server, found the one that listens there.
func action(v verdict, meant, found string) string {
	switch v {
	case wrongDirectory:
		return fmt.Sprintf("`quorate format` gave the node at this address a new directory id: remove the old member %s with `quorate quorum remove` and add the new one %s with `quorate quorum add`", meant, found)
	case wrongNode:
		return fmt.Sprintf("another node listens at this address: correct the `listeners` of %s or the RAFT address of %s", found, meant)
	case wrongCluster:
		return "the two nodes were formatted for different clusters: compare `cluster.id` in their meta.properties, and format the wrong one anew in an empty directory"
	case ownID:
		return fmt.Sprintf("two processes run as %s: stop the one that runs on a copy of the data directory", found)
	}
	return "something that is no Quorate controller of this version speaks at this address"
}

// refusalLog logs a refusal once in an interval for each reason and remote side.
type refusalLog struct {
	logger  *slog.Logger
	repeats *repeats
}

func newRefusalLog(logger *slog.Logger, clock env.Clock) *refusalLog {
	return &refusalLog{logger: logger, repeats: newRepeats(clock)}
}

// warn logs unless the key was logged within the interval.
func (l *refusalLog) warn(key, msg string, attrs ...any) {
	if skipped, ok := l.repeats.allow(key); ok {
		l.logger.Warn(msg, append(attrs, "repeated", skipped)...)
	}
}
