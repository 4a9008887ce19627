package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// MetadataOffset is the dense number of a record in the metadata log; the first is 0.
type MetadataOffset int64

// NoOffset is the offset before the first record, and of things that have not happened.
const NoOffset MetadataOffset = -1

// Chain is the running hash over the accepted entries with records: it is 0 before the first, and after an entry
// the hash of that entry's bytes, which hold the chain before. Two nodes with equal offset and unequal chain have
// different histories.
type Chain uint64

// String returns 16 hex digits.
func (c Chain) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// ParseChain reads what [Chain.String] writes.
func ParseChain(s string) (Chain, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("record: chain %q is not 16 hex digits", s)
	}
	return Chain(v), nil
}

// ChainAfter returns the chain after an entry with records: the first eight bytes, big endian, of the SHA-256 of the
// entry message's bytes, the frame of the command aside.
func ChainAfter(entry []byte) Chain {
	sum := sha256.Sum256(entry)
	return Chain(binary.BigEndian.Uint64(sum[:8]))
}
