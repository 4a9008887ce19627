// Package raftnode is everything between hashicorp/raft and a controller: stores, transport, identity, and the node's life.
//
// # Purpose
//
// The library is safe for a metadata quorum only with certain wrappers and settings, each of which answers a known fault of
// it. They are gathered here, each with its test, so that the rest of the project sees one [Node]: propose an entry and
// learn its fate, hear of leadership, read the log, change the membership.
//
//   - transport.go: no heartbeat fast path (GH-695), no pipelining (GH-611), a transfer that is not taken is given up in time
//   - votestore.go: term and candidate of a vote in one transaction (GH-661)
//   - watchdog.go: a store that fails or hangs ends the process (GH-503, GH-666)
//   - streamlayer.go, handshake.go: every connection names cluster, sender and addressed server
//   - supersession.go, probe.go: a server that an offline recovery left behind, or that was removed, has no say any more
//   - whole.go, facts.go: nothing starts from files that are gone or contradict each other
//   - boltcheck.go, checksum.go: a store that was cut, or in which a bit has changed, is found, not believed
//   - logcache.go, prefixdelete.go: recent entries in bounded memory, short deletes
//   - logcut.go, lastlog.go: a leader's snapshot replaces a log that diverges from it (GH-697)
//   - progress.go: how far followers are, which the library does not tell
//   - future.go, waiter.go: no wait outlives the node (GH-498)
//   - config.go: pre-vote on, RestoreCommittedLogs off, lease equal to the election timeout
//
// # Usage
//
//	node := raftnode.New(raftnode.Config{Env: e, Logger: logger, FSM: fsm, ClusterID: clusterID, ID: id, Dir: dir,
//		ListenAddress: ":9292", AdvertisedAddress: "c1:9292", Fatal: die})
//	if err := node.Open(ctx); err != nil { … }
//	defer node.Close()
//	waiter := node.StartWaiter(64)
//	waiter.Add(node.Apply(entry))
//	outcome := <-waiter.Outcomes() // select with your own stop signal and node.Stopped()
//
// `quorate format` calls [Bootstrap] on a temporary directory. Tools read with [OpenOffline] while the node is down.
//
// # Guarantees
//
// Entries that one goroutine proposes get increasing indexes. [FateNotInLog] is certain; [FateUnknown] may be retried only
// after reading committed state. A store that fails or hangs leads to one call of Config.Fatal; the node never goes on as if
// a write had not happened. Nothing is sent to a server other than the one that was meant, and nothing is taken that
// was meant for another. The package gives no proof of leadership: entries must be fenced where they are applied.
//
// # Goroutines
//
// Open starts the library's, the stream layer's, the watchdog and the drain of leadership notices; Close stops them and
// waits. Run works on its caller's, and has one more that ends before it returns; so do those that ask the voters. A [Waiter] has one,
// which Close waits for. Config.FSM is called on the library's goroutine, Config.Fatal on any. All methods of an open Node may be
// called from any goroutine, Close from any and repeatedly.
package raftnode
