package raftnode

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
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
//
// It also notes how far followers are (progress.go), and bounds the one message that hands leadership over.
type transport struct {
	*raft.NetworkTransport
	followers  followers
	timeoutNow time.Duration
	// own runs a function on a goroutine that somebody waits for when the node ends; false: it has ended.
	own func(func()) bool
}

// SetHeartbeatHandler does nothing.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// errTimeoutNowLate says that the target of a transfer did not take the message in time. It may still take it.
var errTimeoutNowLate = errors.New("raftnode: the target did not answer in time")

// TimeoutNow implements raft.Transport: it tells a follower to campaign now. The library refuses every proposal until the
// answer has come, so one that does not come within an election time-out is given up; who leads would not be
// allowed to claim for longer otherwise, and would end its process.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	done := make(chan error, 1)
	reply := new(raft.TimeoutNowResponse)
	// It ends with its connection, within RPCTimeout, or when the node cuts all of them.
	if !t.own(func() { done <- t.NetworkTransport.TimeoutNow(id, target, args, reply) }) {
		return ErrStopped
	}
	timer := time.NewTimer(t.timeoutNow)
	defer timer.Stop()
	select {
	case err := <-done:
		*resp = *reply
		return err
	case <-timer.C:
		return errTimeoutNowLate
	}
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// newTransport makes the transport; timeout bounds a call, timeoutNow the message of a transfer, which goes out on a goroutine of own.
func newTransport(layer raft.StreamLayer, provider raft.ServerAddressProvider, clock env.Clock, timeout, timeoutNow time.Duration,
	own func(func()) bool, logger hclog.Logger,
) *transport {
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(networkTransportConfig(layer, provider, timeout, logger)),
		followers:        followers{clock: clock}, timeoutNow: timeoutNow, own: own,
	}
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
