package raftnode

import (
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// connectionsPooledMax is how many idle connections to one member are kept.
	connectionsPooledMax = 3
	// rpcsInFlightMax turns pipelining off. With two in flight, a rejected append can park sender and decoder on each
	// other: the follower gets heartbeats but never another entry (hashicorp/raft GH-611, GH-612).
	rpcsInFlightMax = 1
)

// transport is raft.NetworkTransport without its heartbeat fast path.
//
// On the fast path a heartbeat is handled on its connection's goroutine, which adopts a newer term while the main loop
// still acts as leader. The next queued Apply is then written with the new leader's term, and the new leader's own entry
// at that index is taken for a duplicate: logs diverge (hashicorp/raft GH-695). Without it heartbeats go through the
// main loop like everything else. Pre-vote and close stay promoted.
type transport struct {
	*raft.NetworkTransport
}

// SetHeartbeatHandler does nothing.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(layer raft.StreamLayer, provider raft.ServerAddressProvider, timeout time.Duration, logger hclog.Logger) *transport {
	return &transport{raft.NewNetworkTransportWithConfig(networkTransportConfig(layer, provider, timeout, logger))}
}

func networkTransportConfig(layer raft.StreamLayer, provider raft.ServerAddressProvider, timeout time.Duration, logger hclog.Logger) *raft.NetworkTransportConfig {
	return &raft.NetworkTransportConfig{
		ServerAddressProvider: provider,
		Logger:                logger,
		Stream:                layer,
		MaxPool:               connectionsPooledMax,
		MaxRPCsInFlight:       rpcsInFlightMax,
		Timeout:               timeout,
	}
}
