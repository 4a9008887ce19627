// Package image holds the state that the metadata log describes.
//
// # Purpose
//
// An [Image] is everything that controllers and brokers agree on at one metadata offset: topics, partitions,
// registrations, configs, features, producer ids, pending deletions, and the indexes that decisions need.
// The only way to another image is a [Delta]: fork, replay records, seal.
//
// # Usage
//
//	d := im.Fork()
//	for i, r := range records {
//		if err := d.Replay(base+image.MetadataOffset(i), r); err != nil { … } // the log is broken
//	}
//	next := d.Seal(last, chain)
//
// [Image.Records] is the snapshot form: replayed into the delta of [Load] it gives an equal image.
// [LocalChanges] tells what lies between two images for one broker, [Diff] for everybody.
//
// # Guarantees
//
// An image never changes. A fork costs O(1); a change copies only the pages it touches; no page is shared by two
// writers. Replay makes no choice: no election, no clock, no randomness, so the same records give the same image
// everywhere. Indexes equal what a full scan would find. Equal images have equal fingerprints, records and JSON.
//
// # Goroutines
//
// The package starts none. An Image may be read and forked by any number of goroutines at once.
// A Delta belongs to one goroutine.
package image
