// Package invariant names what must hold of every image, and of every step from one image to the next.
//
// # Purpose
//
// The predicates are the controller's promises (Kafka's, where it makes them). Transcripts, property tests, the model
// and simulations run them after each step, so that a decision that breaks one is found where it was made.
//
// # Usage
//
//	err := invariant.Image(im)           // every predicate of one image
//	err := invariant.Step(old, new)      // every predicate of one record's step
//	err := invariant.Record(old, new, r) // and what the reason in the record allows
//
// Each predicate can be called by itself. The error begins with the name of the predicate that is broken.
//
// # Guarantees
//
// Predicates read images and change nothing. They do not depend on the code that they check: indexes are recomputed,
// snapshots are loaded.
//
// # Goroutines
//
// The package starts none. Images may be shared.
package invariant
