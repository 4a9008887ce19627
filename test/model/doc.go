// Package model searches small worlds of the real rules, breadth first, for a state that breaks a promise.
//
// # Purpose
//
// A [World] is three brokers, a topic of one or two partitions, a controller that can fail over, and a network that loses,
// repeats and delays. Every decision is made by package quorum/controller, every partition step by package
// broker/partition, every record is replayed by package fsm/image, every entry that comes late is judged by package fsm.
// The model itself holds only what those are told apart by: logs as sequences of (leader epoch, value), messages, and who
// has applied what. The search visits every order of steps that a budget of harm allows. Harm is bounded, healing is not.
// Of one state in some hundreds it is also tried what becomes of it once harm stops: everything has to come to peace.
//
// # Usage
//
//	r := model.Search(model.Worlds()[0], model.NoBug, 20_000)
//	if r.Violation != nil { fmt.Print(r.Transcript()) }
//
// The test searches all of [Worlds] with a small budget of states; the environment variable MODEL_STATES gives another one,
// MODEL_WORLDS names some of the worlds (make model). [Bugs] are planted in the model's own wrappers around the real
// functions, and the search must find each. A path is printed step by step, with the lines of the controller's transcripts
// (package lines) and of package broker/partition, as a transcript that can be put into testdata.
//
// # Guarantees
//
// States are told apart by a fingerprint of their canonical form, 64 bits wide: among n states one is missed with a chance of
// about n²/2⁶⁵, for a million 3 in 100 million. A state is expanded once, and once more if it is reached again with more harm
// left. Entries of the metadata log that changed nothing leave no mark in a state once they are committed: otherwise a request that
// is refused and made again, which costs no harm, would lead to new states for ever. Worlds that wait to be expanded are not kept but made anew from their paths, so twenty million states take one or two
// gigabytes. The first violation found in a world has a shortest path, unless it is one that shows only in healing. The same
// world, bug and budget give the same search. What is merged or left out can hide a state, but never makes one up: each step
// of a path is a call of the real functions.
//
// Checked are, after every record and decision, the promises of package invariant, LastMemberStays, CancelRestoresReplicas,
// UncleanOnlyIfNobodyCanLead and PendingEqualsCommittedAtCommit; in every world [Predicates], and in the steps
// NoCommittedRecordLost, AcknowledgedIsCommitted, EpochsMonotonic, CommittedRecordReplays and MetadataLogMatching; of one
// world in some hundreds Converges: once harm stops, requests and producers are answered, images and logs are alike, brokers
// serve, reassignments are over. A test shows of each that it can fail.
//
// Left out: time (a broker's session or a follower's lag is over when the search says so), several partitions in one
// request, deletion of topics, and reads by clients beyond what the high watermark shows.
//
// # Goroutines
//
// The package starts none. A search belongs to the goroutine that runs it; several may run at once.
package model
