// Package logtest has what tests of partition logs need: batches made to measure, and a file system in memory that
// loses what was not synced.
//
// # Purpose
//
// A log's promises are about what is there after a crash. On a real disk a test cannot see what a power failure would
// have left; here it can.
//
// # Usage
//
// [NewFS] is an environment's file system. [FS.Freeze] stops every call, as a kill does; [FS.Restart] opens the
// file system to the next life with everything that was written; [FS.PowerCut] does so with what was synced and a
// part of the rest, chosen by a source of randomness that the test owns. [Batch] builds a record batch.
//
// # Guarantees
//
// A power cut keeps synced content, keeps of the unsynced writes of a file a part that is torn at any byte or filled
// with zeros, and keeps of the unsynced changes of a directory the first few. Calls are counted by kind.
//
// # Goroutines
//
// The package starts none. All methods may be called from any goroutine.
package logtest
