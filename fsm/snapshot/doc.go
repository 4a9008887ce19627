// Package snapshot is the file form of an image: what Raft keeps, what a controller sends to a broker that is far behind.
//
// # Purpose
//
// A snapshot is a header with all that the verdict on the next entry depends on, then the image as records in
// canonical order, then a footer. One writer, one reader, and the records go through the same replay as the log.
//
// # Usage
//
//	err := snapshot.Write(w, header, im)
//	header, im, err := snapshot.Read(r)
//
// # Guarantees
//
// Equal headers and images give equal bytes. Read is all or nothing: it returns an image only after the checksum of
// every block, the footer's count and the end of the stream have been checked; any changed, missing or surplus byte
// is an error that wraps [ErrCorrupt] and names the block and its position; a block of a kind that this build does
// not know is an error that wraps [ErrUnknownBlock]. Memory stays within the image plus one block.
//
// # Goroutines
//
// The package starts none. All functions may be called from any goroutine.
package snapshot
