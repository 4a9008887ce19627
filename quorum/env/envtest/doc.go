// Package envtest holds the test doubles of package env: a network in memory, a file system with faults and a clock
// that steps.
//
// # Purpose
//
// A whole cluster can run in one process, also inside a testing/synctest bubble, and a test can place a fault
// wherever a node meets the world: a cut in one direction, a delay, a connection closed in the middle of a frame, the n-th
// write of a file that fails or hangs, a full disk, a step of the clock.
//
// # Usage
//
//	network := envtest.NewNetwork()
//	defer network.Close()
//	faults := envtest.NewFaults()
//	e := &env.Env{
//		Network: network.Host("n1"),
//		FS:      envtest.NewFS(env.OS("").FS, faults),
//		Clock:   envtest.NewClock(),
//	}
//	network.Cut("n1", "n2")                                        // n2 hears nothing from n1
//	faults.Add(envtest.Rule{Kind: "sync", Name: "*.log", Nth: 3})  // the third sync of a log fails
//
// # Guarantees
//
// A connection behaves as TCP's does: bytes held up by a cut arrive in order once it is healed, none is lost from
// a connection that lives, a writer is held up when too much is under way, deadlines work. Nothing uses a socket, so
// virtual time goes on inside a bubble. The network and its connections must then be made inside the bubble.
//
// # Goroutines
//
// A connection has five goroutines, owned by its Network. They end when both ends of the connection are closed, or with
// [Network.Close], which waits for them. All methods may be called from any goroutine.
package envtest
