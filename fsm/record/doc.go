// Package record is the codec of the metadata log: what one Raft command holds, byte by byte.
//
// # Purpose
//
// A Raft command is a Claim or an Entry. The active controller encodes an entry once; those bytes are what Raft
// replicates, what the chain hashes, and what every metadata stream sends. This package writes them, takes them
// apart, and knows the policy for what it cannot read.
//
// # Usage
//
//	data, chain := record.EncodeEntry(header, decisions)  // decisions as EncodeDecision wrote them
//	cmd, err := record.DecodeCommand(data)
//	for i, raw := range cmd.Entry.Records() {             // not decoded yet
//		r, err := decoder.Decode(raw)
//	}
//
// [String] gives one canonical line for a record.
//
// # Guarantees
//
// Equal messages give equal bytes. Nothing is ever skipped: a record without a known kind, or an unknown field in a
// record, a decision, an entry or a command, is an error that wraps [ErrUnknown] and names the field; bytes that are
// no message at all wrap [ErrMalformed]. Whoever applies records stops on either, for a skipped fact would let
// replicas of one log drift apart. Unknown fields of a Cause are no facts and are let pass.
//
// # Goroutines
//
// The package starts none. A [Decoder] belongs to one goroutine; everything else may be called from any.
package record
