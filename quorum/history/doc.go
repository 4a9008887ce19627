// Package history keeps what a controller has applied in files of its own, beyond what the Raft log still holds, and
// tells the history of one partition from it.
//
// # Purpose
//
// The Raft log is cut behind each snapshot. Whoever asks a day later why a leader changed needs the entries themselves.
// A [History] appends every applied entry to segment files, knows what it lacks, and fetches that from the node's own
// log or from another controller.
//
// # Usage
//
//	h, err := history.New(cfg)
//	h.Open()                    // before the state machine replays its log
//	go h.Run(ctx)               // writes, removes what is too old, fills gaps
//	h.Offer(entries)            // behind Apply: moves pointers, never waits
//	h.Restored(mark, recovered) // a snapshot took the place of entries; where the lineage before it ended
//	err = h.Read(ctx, from, end, nil, take)
//
// # Guarantees
//
// The history is a convenience: no entry waits for it, none is synced by itself, and no failure of it stops the
// controller. What it returns is checked all the same: every frame has a checksum, every entry follows the one before by
// chain, and what is missing is a [Gap] with a reason, never silence. Entries that come again after a restart are
// recognised by offset and chain. A torn tail is cut; a damaged frame is named and becomes a gap, the rest stays
// readable. Memory is bounded by the queue, one segment while a file is scanned, and a page and a small index a read.
//
// # Goroutines
//
// Run owns the writer and the filler and waits for both. Offer and Restored may be called by one goroutine at a time;
// everything else from any.
package history
