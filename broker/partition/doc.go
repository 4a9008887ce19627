// Package partition decides what the leader or a follower of one partition does.
//
// # Purpose
//
// A [State] is one replica's view of its partition: its role, the epochs that fence it, the ISR with at most one
// pending change, what is known of each follower, and the high watermark. [State.Step] takes it through an [Event]
// to the next state and names in [Effects] what is to be carried out: a proposal to submit, a watermark that moved,
// waiters to look at again. Beside it stand the judgements that produce and fetch need: may this append be accepted,
// is this acks=all append decided, may this read be served, where do two logs part.
//
// # Usage
//
//	s, effects := s.Step(facts, partition.FollowerFetched{…})
//	if effects.Submit != nil { … } // after the partition's lock was released
//
// The broker keeps a State behind the lock of its partition, steps it inside, and carries the effects out after it
// has let go of the lock.
//
// # Guarantees
//
// The same state, facts and event give the same result. A step never changes the state it was given: what an old
// value's slices hold stays. The maximal ISR holds every replica of every ISR that could be elected from: a pending
// expansion counts from the moment it is proposed, a pending shrink only when it is known to be committed. The high
// watermark never moves back within a leader epoch. At most one proposal is pending; it is given up only on proof that
// it was not and will not be applied. Every state prints itself as one canonical line.
//
// # Goroutines
//
// The package starts none and takes no lock. A State is a value; whoever shares one guards it.
package partition
