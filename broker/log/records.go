package log

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// Decompress opens the records of a batch as they were before the codec. It bounds what can be read, and the memory
// that reading takes. The reader is closed by the lookup.
type Decompress func(codec Codec, records []byte) (io.ReadCloser, error)

// decompressingMax is how many batches of all logs of a manager are being decompressed at a time. A decoder takes some
// megabytes, and any client can ask for a lookup.
const decompressingMax = 4

// atMost lets n readers be open at a time; the next one waits.
func (d Decompress) atMost(n int) Decompress {
	if d == nil {
		return nil
	}
	slots := make(chan struct{}, n)
	return func(codec Codec, records []byte) (io.ReadCloser, error) {
		slots <- struct{}{}
		r, err := d(codec, records)
		if err != nil {
			<-slots
			return nil, err
		}
		return &slotReader{r, slots}, nil
	}
}

type slotReader struct {
	io.ReadCloser
	slots chan struct{}
}

func (r *slotReader) Close() error {
	defer func() { <-r.slots }()
	return r.ReadCloser.Close()
}

// recordTime is what a lookup by time needs of a record.
type recordTime struct {
	offset    int64
	timestamp int64
}

// recordFrontBytes is the most that a record's attributes, timestamp delta and offset delta take.
const recordFrontBytes = 1 + 2*binary.MaxVarintLen64

// walkRecords visits the records of a batch until visit returns false. readable is false when the records cannot be
// read: a codec without a decompressor, or bytes that are no records; what was visited until then is right.
func walkRecords(b Batch, decompress Decompress, visit func(recordTime) bool) (readable bool) {
	var plain io.Reader = bytes.NewReader(b[HeaderBytes:])
	if b.Codec() != CodecNone {
		if decompress == nil {
			return false
		}
		r, err := decompress(b.Codec(), b[HeaderBytes:])
		if err != nil {
			return false
		}
		defer r.Close()
		plain = r
	}
	p := bufio.NewReader(plain)
	for range b.Count() {
		timestampDelta, offsetDelta, ok := nextRecord(p)
		if !ok {
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

// nextRecord reads the front of a record and skips the rest.
func nextRecord(p *bufio.Reader) (timestampDelta, offsetDelta int64, ok bool) {
	length, err := binary.ReadVarint(p)
	if err != nil || length < 1 || length > math.MaxInt32 {
		return 0, 0, false
	}
	front, err := p.Peek(int(min(length, recordFrontBytes)))
	if err != nil {
		return 0, 0, false
	}
	timestampDelta, n := binary.Varint(front[1:]) // after the attributes
	if n <= 0 {
		return 0, 0, false
	}
	offsetDelta, m := binary.Varint(front[1+n:])
	if m <= 0 {
		return 0, 0, false
	}
	_, err = p.Discard(int(length))
	return timestampDelta, offsetDelta, err == nil
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
