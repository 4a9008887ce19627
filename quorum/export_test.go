package quorum

import (
	"context"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/raftnode"
)

// BrokerServer is what the node's gRPC listener serves to brokers, to be called without gRPC.
func (n *Node) BrokerServer() controllerpb.BrokerApiServer { return &brokerServer{n: n} }

// OperatorServer is the same for operators.
func (n *Node) OperatorServer() controllerpb.OperatorApiServer { return &operatorServer{n: n} }

// OperationBytesMax bounds what HoldBytes adds to and BytesHeld tells.
const OperationBytesMax = operationBytesMax

// HoldBytes pretends that a request of that size waits.
func (n *Node) HoldBytes(size int64) { n.loop.bytesHeld.Add(size) }

// BytesHeld are those of the requests that are not answered yet.
func (n *Node) BytesHeld() int64 { return n.loop.bytesHeld.Load() }

// Admit takes a server into the Raft configuration as a non-voter, past all that is checked.
func (n *Node) Admit(ctx context.Context, id raftnode.ServerID, address string) error {
	return n.raft.AddNonvoter(ctx, id, address, 0)
}
