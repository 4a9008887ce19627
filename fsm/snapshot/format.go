package snapshot

import (
	"errors"
	"hash/crc32"
)

// A snapshot is the magic, then blocks. A block is its kind (1 byte), the length of its payload (4 bytes, little
// endian), the payload, and a CRC-32C (4 bytes, little endian) over all bytes of the snapshot before it, checksums
// aside. The header block holds a SnapshotHeader, records blocks hold records, each after its length as a varint, and
// the footer block holds a SnapshotFooter and ends the snapshot.
const (
	magic = "QUORATE\x01"

	blockHeader  = 'H'
	blockRecords = 'R'
	blockFooter  = 'F'

	blockHeadLen = 5

	// FormatVersion is the version that the header bears.
	FormatVersion = 1

	// blockBytesTarget is the payload at which a block of records is closed.
	blockBytesTarget = 64 << 10
	// blockBytesMax bounds what a reader takes in at once. It is above the largest Raft entry, so above any record.
	blockBytesMax = 4 << 20
)

var (
	// ErrCorrupt tells that the bytes are not those of a whole snapshot.
	ErrCorrupt = errors.New("snapshot: corrupt")
	// ErrUnknownBlock tells of a block or a version that a newer build wrote.
	ErrUnknownBlock = errors.New("snapshot: unknown content; this build is too old for the snapshot")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
