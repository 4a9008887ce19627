package raftnode

import (
	"context"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// Probe asks whether a member of the quorum runs: it connects to the member's RAFT address and goes through the handshake as from,
// and closes the connection. The member answers if and only if it listens there under that very identity, whatever it
// thinks of the sender. The error says what came instead; nothing is sent but the handshake. It is bounded by the context.
func Probe(ctx context.Context, e *env.Env, clusterID string, from ServerID, to Server) error {
	metrics := new(Metrics)
	layer := &streamLayer{
		clusterID: clusterID, self: peerAddress{id: from}, network: e.Network, ctx: ctx, metrics: metrics,
		refusals: newRefusalLog(slog.New(slog.DiscardHandler), e.Clock),
	}
	conn, err := e.Network.Dial(ctx, to.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	v, listener, err := layer.greetServer(conn, peerAddress{hostPort: to.Address, id: to.ID})
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return err
	}
	if raft.ServerID(listener) == to.ID.Raft() {
		return nil
	}
	return layer.refused(v, peerAddress{hostPort: to.Address, id: to.ID}, listener)
}
