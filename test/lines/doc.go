// Package lines prints what the metadata log holds the way every transcript shows it.
//
// # Purpose
//
// The transcripts of package quorum/controller and the paths that package test/model prints say the same thing by the same
// words, so that a counterexample of the model can be read, and turned into a transcript, without translation.
//
// # Usage
//
//	fmt.Println(lines.Record(im, r)) // PartitionChange t-0 isr=[1,2] (lag)
//
// # Guarantees
//
// Equal records have equal lines. Ids that were made of a text show that text.
//
// # Goroutines
//
// The package starts none and keeps no state.
package lines
