// Package recovery brings a metadata quorum back that has lost its majority, from what one controller still has.
//
// # Purpose
//
// When more than half of the voters are gone for good, nobody can be elected any more. An operator then gives the data directories
// that are left to `quorate quorum recover --offline`. This package finds the furthest of their logs, refuses while the quorum may
// still be alive, and makes the Raft state with which one node goes on alone: a new lineage of the log (package fsm), the node
// as the only voter, a term above any that was seen. The library's own RecoverCluster is not used: it keeps the term, says
// nothing of a break in history, and takes the state machine with it.
//
// # Usage
//
//	plan, err := recovery.Prepare(ctx, recovery.Options{…})
//	err = plan.Write(e, tmp) // tmp is renamed to the node's Raft directory
//
// # Guarantees
//
// Prepare changes nothing. A majority that answers is refused always; a member that neither answers nor has its directory given is
// refused unless it is forced. What Write makes is synced when it returns. Equal directories and times give equal content.
//
// # Goroutines
//
// Prepare asks the members on goroutines that have ended when it returns. The functions may be called from any goroutine; a
// directory must not be in use, which the caller holds by its lock.
package recovery
