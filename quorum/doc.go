// Package quorum is a controller node: a member of the Raft quorum that keeps the metadata log, and, while it
// leads it, the active controller.
//
// # Purpose
//
// Controllers agree on a log of facts about topics, partitions and brokers. One of them, the active controller,
// turns requests into facts: it decides on the pending image, which is the committed one plus everything that is
// already proposed, so that decisions need not wait for each other. Every controller applies the log, serves reads
// of its own image, and feeds brokers that follow it.
//
// # Usage
//
//	node, err := quorum.New(cfg) // checks the configuration, does no work
//	err = node.Run(ctx)          // blocks until the context ends or the node cannot go on
//
// # Guarantees
//
// A change is answered after it is committed by a majority, and never by a controller that has lost its claim: each
// entry names the claim, the sequence and the state it was decided on, and every replica gives it the same verdict.
// A controller serves only when its claim is applied, which proves that everything before it is applied too. What a
// reader sees is committed. When leadership ends, what was only decided is dropped; callers whose decision is
// certainly not in the log get NOT_CONTROLLER, the others are told that the outcome is unknown.
//
// # Goroutines
//
// Run owns all of them and returns when they have ended: the loop, which alone decides, and while it has a large decision
// made beside it, the one that makes it; one that awaits outcomes; one that serves gRPC, and beside each of its streams one that
// ends it; one that tells the health service when the node is superseded; one that keeps the node's registration
// current; one that finishes changes of the quorum that were begun; one that takes a snapshot when enough bytes were logged, and
// asks voters out of touch for their lineage; those of the history. Methods of Node may be called from any goroutine.
package quorum
