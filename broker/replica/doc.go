// Package replica copies partitions between brokers: the fetch stream, both ends.
//
// # Purpose
//
// A follower holds one gRPC stream to each broker that leads partitions it follows. The stream is a session (KIP-227):
// a request names only partitions whose position changed, an answer only partitions with something to tell. [Server] is
// the leader's end, [Manager] with its fetchers the follower's.
//
// # Usage
//
// The leader registers a Server with its gRPC server, tells it of every change, and closes it before the
// gRPC server stops, then waits for it:
//
//	server, err := replica.NewServer(serverConfig, source, clock, logger)
//	brokerpb.RegisterReplicaApiServer(grpcServer, server)
//	server.Notify(id)
//	server.Close()
//	grpcServer.GracefulStop()
//	server.Wait()
//
// The follower runs a Manager and tells it what metadata says:
//
//	m, err := replica.NewManager(config, replica.GRPC(network, tls), clock, logger)
//	go m.Run(ctx)
//	m.Remove(ids)
//	m.Add(assignments)
//
// # Guarantees
//
// When Remove returns, none of the partitions' logs is touched any more by a fetch. Add stops what runs under another
// leader or leader epoch before it reads where the log ends; what runs under the same goes on. A log is cut only where a leader
// of the present epoch says that the two part (KIP-101), never by the own high watermark. An answer is used only if it
// was asked for with the position and leader epoch that are still the partition's. A partition that fails for good is
// left alone until it is added again; any other error delays it, and only it.
//
// A fetch that finds something is answered at once; an idle one waits for a notification, on no goroutine of its own.
// Partitions take turns: one that did not fit into an answer is first in the next. The first partition with records
// gets at least one batch, whatever its size. A follower learns of a moved watermark without waiting for records.
//
// # Goroutines
//
// Manager.Run blocks and owns one goroutine a leader broker, and one more for each open stream's receiving side. The
// Server works on the goroutines of its gRPC server, and adds one a stream; Close ends them, Wait waits. All exported methods may be called
// from any goroutine.
package replica
