package quorum

import (
	"context"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/raftnode"
)

// BrokerServer is what the node's gRPC listener serves to brokers, to be called without gRPC.
func (n *Node) BrokerServer() controllerpb.BrokerApiServer { return &brokerServer{n: n} }

// Admit takes a server into the Raft configuration as a non-voter, past all that is checked.
func (n *Node) Admit(ctx context.Context, id raftnode.ServerID, address string) error {
	return n.raft.AddNonvoter(ctx, id, address, 0)
}
