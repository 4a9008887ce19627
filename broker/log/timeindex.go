package log

import "encoding/binary"

// timeEntryBytes is an entry of the time index: timestamp in milliseconds (int64) and offset relative to the
// segment's base (int32), big endian (Kafka: TimeIndex).
const timeEntryBytes = 12

// timeIndex maps timestamps to offsets: no batch before the offset of an entry holds a larger timestamp than the
// entry. The offset is the last one of the batch with that timestamp. Both rise from entry to entry.
type timeIndex struct{ sparseIndex }

type timeEntry struct {
	timestamp int64
	relative  int32
}

func readTimeEntry(e []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(e)), int32(binary.BigEndian.Uint32(e[8:]))}
}

func (x *timeIndex) add(h *handles, t timeEntry) error {
	var e [timeEntryBytes]byte
	binary.BigEndian.PutUint64(e[:], uint64(t.timestamp))
	binary.BigEndian.PutUint32(e[8:], uint32(t.relative))
	return x.sparseIndex.add(h, e[:])
}

// before is the last entry with a timestamp below the one asked for; ok is false when there is none. No record up
// to its offset has the timestamp asked for or a larger one.
func (x *timeIndex) before(h *handles, timestamp int64) (timeEntry, bool, error) {
	_, e, err := x.floor(h, func(entry []byte) bool { return readTimeEntry(entry).timestamp < timestamp })
	if e == nil {
		return timeEntry{}, false, err
	}
	return readTimeEntry(e), true, nil
}

// ends is the first and the newest of n entries.
func (x *timeIndex) ends(h *handles) (first, newest timeEntry, n int, err error) {
	a, b, n, err := x.sparseIndex.ends(h)
	if n == 0 || err != nil {
		return timeEntry{}, timeEntry{}, 0, err
	}
	return readTimeEntry(a), readTimeEntry(b), n, nil
}

// truncate drops entries at or after the relative offset.
func (x *timeIndex) truncate(h *handles, relative int32) error {
	n, _, err := x.floor(h, func(entry []byte) bool { return readTimeEntry(entry).relative < relative })
	if err != nil {
		return err
	}
	return x.keep(h, n)
}
