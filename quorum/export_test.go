package quorum

import controllerpb "github.com/quorate/quorate/proto/controller/v1"

// BrokerServer is what the node's gRPC listener serves to brokers, to be called without gRPC.
func (n *Node) BrokerServer() controllerpb.BrokerApiServer { return &brokerServer{n: n} }
