// Package kafka serves the Kafka protocol to clients.
//
// # Purpose
//
// It turns bytes from strangers into calls of a broker, and the broker's answers into bytes: connections and their
// limits, framing, versions, the order of answers, waiting requests, and one handler a Kafka API. What it serves is
// stated once, in table.go, and advertised from there. It holds no partition and decides nothing about the cluster:
// records go to [Partitions], changes to [Admin], and everything else is read from the broker's image.
//
// # Usage
//
//	cfg := kafka.DefaultConfig()
//	if err := cfg.Validate(); err != nil { … }
//	s := kafka.NewServer(cfg, kafka.Backend{ … }, env.Clock, log, kafka.NewMetrics(registry))
//	ln, err := env.Network.Listen(ctx, address)
//	err = s.Run(ctx, ln)       // until ctx ends
//	s.Notify(partition)        // by the partitions, whenever a waiting request may be decided
//
// # Guarantees
//
// Answers leave a connection in the order of its requests, whatever order they are decided in; requests of one
// connection take effect in their order. A request is answered once, or its connection is closed. A client never
// sees NOT_CONTROLLER: a change whose outcome is not certain is REQUEST_TIMED_OUT. An acknowledged produce with acks
// -1 was replicated as [Partition].IsReplicated says, in an unbroken leadership.
//
// Garbage, unknown keys, sizes out of bounds and peers that stall cost the connection they came on and nothing else.
// Memory is bounded by [Config]: bytes of requests being received, records being answered, requests pending on a
// connection, and connections.
//
// # Goroutines
//
// [Server.Run] starts one accept loop, one loop for waiting requests, two goroutines a connection, and one for each
// forwarded request up to ForwardedMax; it waits for all of them. A waiting Produce or Fetch has none. Handlers run
// on the connection's reader; large answers are built on its writer. [Server.Notify] may be called from anywhere.
package kafka
