// Package cluster runs whole clusters of real processes for the tests beside it.
//
// # Purpose
//
// What the product promises is that nothing acknowledged is lost when nodes die. Only real processes, real disks and
// clients that nobody here wrote can show that. This package starts `quorate dev`, kills, pauses and restarts its
// nodes, produces and consumes with franz-go, and checks what was acknowledged against what is there.
//
// # Usage
//
//	c := cluster.Start(t, cluster.Options{Set: []string{"replica.lag.time.max.ms=3000"}})
//	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1})
//	c.Kill(t, c.Leader(t, "orders", 0))
//	w.Stop(t)
//	c.VerifyAcknowledged(t, w)
//
// A [Hook] kills a process exactly at one of the points that the code names with env.At:
//
//	h := cluster.NewHook(t, "log.roll.begin")
//	c.Restart(t, 2, h.Env())
//	h.Arm(t)
//	h.AwaitKill(t, time.Minute)
//
// # Guarantees
//
// Every process that a test started is gone when it ends: dev is told to stop, must exit 0, and what is left is
// killed by its pid and reported. When a test fails its data and logs are kept and the folder is named.
//
// # Goroutines
//
// Writers own theirs and stop with [Writers.Stop]. A Cluster may be used by several goroutines. A test that waits on
// conditions calls t.Parallel, and two run at a time; one that looks at gaps, time limits or memory does not, and runs alone.
package cluster
