// Package controller decides what the active controller writes.
//
// # Purpose
//
// Each request and each event of the active controller is a pure function: a [View] and a request in, a [Decision]
// out. A decision is the records to write, the answer that is true once they are committed, and why. The package
// holds every rule of Kafka's KRaft controller that we keep; the file of an API lists its rules and its refusals in
// order of precedence.
//
// # Usage
//
//	d, err := controller.AlterPartition(view, request)
//	if err != nil { … }             // the request is refused as a whole and nothing is written
//	propose(d.Records, d.Atomic)    // the caller replays them into its pending image at once
//	if d.Liveness != nil { liveness = *d.Liveness }
//	answer(d.Response)              // after the commit of everything the view held
//
// # Guarantees
//
// A function reads only its arguments: no clock, no randomness but the one handed in, no shared state. The same view
// and request give the same decision. Records always replay on the image of the view. The records of a decision that
// is not atomic may be cut between any two of them: every prefix keeps every invariant, and what is left is decided
// again by whoever comes after. [Decision.Records] of an atomic one go into one entry. Only partition_change.go
// makes a PartitionChange and only elect.go picks a leader.
//
// # Goroutines
//
// The package starts none and holds no lock. A View may be used by one goroutine at a time, because its source of
// randomness may.
package controller
