// Package client finds and follows the active controller over gRPC.
//
// # Purpose
//
// Brokers, their AlterPartition manager and the commands all have the same question: who decides now, and what
// became of my request if that changes under me. The answer is given here once.
//
// # Usage
//
// [New] takes the addresses that a person configured. A [Client] is a grpc.ClientConnInterface, so a client from
// the generated code talks to whoever is active:
//
//	c, err := client.New(cfg)
//	defer c.Close()
//	resp, err := controllerpb.NewBrokerApiClient(c).BrokerHeartbeat(ctx, req)
//	if r, ok := client.AsRefusal(err); ok { … r.Code … }
//
// [Client.Do] does the same for a request that is more than one call or streams its answer. [Client.Conn] is a connection to
// one node, for the metadata stream and for waits. [DialOptions] and [ServerOptions] are the settings that both ends agree on.
//
// # Guarantees
//
// All known controllers are asked at once (NodeStatus, [ProbeTimeout] each), and the one that says of itself that it is active in the newest
// lineage under the highest controller epoch is followed; a paused or unreachable controller never holds up the others. While a
// request waits longer than that, they are asked again, and the request leaves a controller that has been superseded. What a
// controller of an older lineage acknowledges counts as not answered.
//
// A request that was certainly not executed is sent again until its context ends: refused as NOT_CONTROLLER, or never written
// to a connection. One that was written and not answered is repeated at most once, and only if a repetition does no harm;
// otherwise the error is [ErrOutcomeUnknown]: read before trying again. Reads are repeated freely.
//
// # Goroutines
//
// A probe runs on goroutines that the client owns; it ends within [ProbeTimeout] or with [Client.Close], which waits for
// it. A request's watcher ends with the request. All methods may be called from any goroutine.
package client
