// Package quorumtest runs quorums of controllers in one process.
//
// # Purpose
//
// What one goroutine decides, Raft replicates and streams tell can be tested whole, with real stores and real gRPC, over
// a network that a test cuts and under a clock that a testing/synctest bubble holds.
//
// # Usage
//
//	synctest.Test(t, func(t *testing.T) {
//		c := quorumtest.Start(t, quorumtest.Options{Controllers: 3})
//		b := c.RegisterBroker(t, 1)
//		c.Isolate(c.Active(t))
//	})
//
// # Guarantees
//
// Everything that Start began has ended when the test's cleanup has run, also nodes that the test isolated.
//
// # Goroutines
//
// One a node, and those of the node; Start's cleanup waits for them.
package quorumtest
