// Package chaos kills and pauses nodes of real clusters at random moments, and checks what must never break.
//
// # Purpose
//
// The tests in test/cluster each place one fault. Here a seed draws them: in each round one controller and one broker
// die or stand still at random moments, while idempotent and plain producers write.
//
// # Usage
//
//	make chaos ROUNDS=20
//	make chaos ROUNDS=1 SEED=4711    # the schedule of a failure once more
//
// # Guarantees
//
// After each round every acknowledged record stands at its offset on every in-sync replica, once if its producer is
// idempotent; meanwhile a follower of the metadata log has seen each record and held every invariant of test/invariant,
// and all nodes have shown equal chains at equal offsets.
//
// # Goroutines
//
// The observer and the writers own theirs and end with the test.
package chaos
