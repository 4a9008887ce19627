package log

import (
	"encoding/binary"
)

// Decompress returns the records of a batch as they were before the codec. It bounds what it returns.
type Decompress func(codec Codec, records []byte) ([]byte, error)

// recordTime is what a lookup by time needs of a record.
type recordTime struct {
	offset    int64
	timestamp int64
}

// walkRecords visits the records of a batch until visit returns false. readable is false when the records cannot be
// read: a codec without a decompressor, or bytes that are no records; what was visited until then is right.
func walkRecords(b Batch, decompress Decompress, visit func(recordTime) bool) (readable bool) {
	p := []byte(b[HeaderBytes:])
	if b.Codec() != CodecNone {
		if decompress == nil {
			return false
		}
		plain, err := decompress(b.Codec(), p)
		if err != nil {
			return false
		}
		p = plain
	}
	for range b.Count() {
		length, n := binary.Varint(p)
		if n <= 0 || length < 1 || length > int64(len(p)-n) {
			return false
		}
		record := p[n : n+int(length)]
		p = p[n+int(length):]
		timestampDelta, n := binary.Varint(record[1:]) // after the attributes
		if n <= 0 {
			return false
		}
		offsetDelta, m := binary.Varint(record[1+n:])
		if m <= 0 {
			return false
		}
		r := recordTime{b.BaseOffset() + offsetDelta, b.BaseTimestamp() + timestampDelta}
		if b.IsLogAppendTime() {
			r.timestamp = b.MaxTimestamp()
		}
		if !visit(r) {
			return true
		}
	}
	return true
}

// firstAt is the first record of a batch, at or after an offset, whose timestamp is one or a larger one. If the records
// cannot be read it is the batch's first offset with its largest timestamp: too early, never too late.
func firstAt(b Batch, decompress Decompress, offset, timestamp int64) (r recordTime, ok bool) {
	readable := walkRecords(b, decompress, func(t recordTime) bool {
		if t.offset >= offset && t.timestamp >= timestamp {
			r, ok = t, true
		}
		return !ok
	})
	if !readable && !ok {
		return recordTime{max(offset, b.BaseOffset()), b.MaxTimestamp()}, true
	}
	return r, ok
}

// newestOf is the first record of a batch that has its largest timestamp; the batch's last offset if the records
// cannot be read.
func newestOf(b Batch, decompress Decompress) recordTime {
	newest := recordTime{b.LastOffset(), b.MaxTimestamp()}
	found := false
	walkRecords(b, decompress, func(t recordTime) bool {
		if t.timestamp == b.MaxTimestamp() {
			newest, found = t, true
		}
		return !found
	})
	return newest
}
