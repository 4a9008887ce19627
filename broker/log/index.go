package log

import (
	"encoding/binary"
)

// offsetEntryBytes is an entry of the offset index: offset relative to the segment's base (int32) and position in
// the file (int32), big endian (Kafka: OffsetIndex).
const offsetEntryBytes = 8

// offsetIndex maps offsets to positions. The offset of an entry is the last offset of the batch at its position.
type offsetIndex struct{ sparseIndex }

func (x *offsetIndex) add(h *handles, relative, position int32) error {
	var e [offsetEntryBytes]byte
	binary.BigEndian.PutUint32(e[:], uint32(relative))
	binary.BigEndian.PutUint32(e[4:], uint32(position))
	return x.sparseIndex.add(h, e[:])
}

type offsetEntry struct{ relative, position int32 }

func readOffsetEntry(e []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(e)), int32(binary.BigEndian.Uint32(e[4:]))}
}

// positionBefore is the position of a batch that ends at or before the relative offset, the last one that is indexed;
// 0 if none is.
func (x *offsetIndex) positionBefore(h *handles, relative int32) (int32, error) {
	_, e, err := x.floor(h, func(entry []byte) bool { return readOffsetEntry(entry).relative <= relative })
	if e == nil {
		return 0, err
	}
	return readOffsetEntry(e).position, nil
}

// ends is the first and the newest of n entries.
func (x *offsetIndex) ends(h *handles) (first, newest offsetEntry, n int, err error) {
	a, b, n, err := x.sparseIndex.ends(h)
	if n == 0 || err != nil {
		return offsetEntry{}, offsetEntry{}, 0, err
	}
	return readOffsetEntry(a), readOffsetEntry(b), n, nil
}

// truncate drops entries of batches that end at or after the relative offset.
func (x *offsetIndex) truncate(h *handles, relative int32) error {
	n, _, err := x.floor(h, func(entry []byte) bool { return readOffsetEntry(entry).relative < relative })
	if err != nil {
		return err
	}
	return x.keep(h, n)
}
