package logtest

import (
	"encoding/binary"

	"github.com/quorate/quorate/broker/log"
)

// Batch says what a record batch is to hold. Its records have a value only, unless the bytes of a codec are given.
type Batch struct {
	BaseOffset  int64
	LeaderEpoch int32
	// Values are the records; none given means one record of no bytes.
	Values [][]byte
	// Timestamps are those of the records; a record without one has Timestamp.
	Timestamps []int64
	Timestamp  int64
	// ProducerEpoch and Sequence count when HasProducer is set.
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
	Sequence      int32
	// Attributes are as in the format: codec, control, transactional.
	Attributes uint16
	// Compress, if set, makes the records' bytes what the codec of Attributes would.
	Compress func([]byte) []byte
}

// Records returns n records of a size.
func Records(n, size int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		values[i] = make([]byte, size)
		for j := range values[i] {
			values[i][j] = byte('a' + (i+j)%26)
		}
	}
	return values
}

// Bytes is the whole batch with its checksum.
func (b Batch) Bytes() []byte {
	values := b.Values
	if len(values) == 0 {
		values = [][]byte{nil}
	}
	var records []byte
	newest := b.Timestamp
	for i, v := range values {
		ts := b.Timestamp
		if i < len(b.Timestamps) {
			ts = b.Timestamps[i]
		}
		newest = max(newest, ts)
		records = appendRecord(records, int64(i), ts-b.Timestamp, v)
	}
	if b.Compress != nil {
		records = b.Compress(records)
	}
	p := make([]byte, log.HeaderBytes, log.HeaderBytes+len(records))
	p = append(p, records...)
	binary.BigEndian.PutUint64(p[0:], uint64(b.BaseOffset))
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-12))
	binary.BigEndian.PutUint32(p[12:], uint32(b.LeaderEpoch))
	p[16] = 2
	binary.BigEndian.PutUint16(p[21:], b.Attributes)
	binary.BigEndian.PutUint32(p[23:], uint32(len(values)-1))
	binary.BigEndian.PutUint64(p[27:], uint64(b.Timestamp))
	binary.BigEndian.PutUint64(p[35:], uint64(newest))
	id, epoch, sequence := int64(-1), int16(-1), int32(-1)
	if b.HasProducer {
		id, epoch, sequence = b.ProducerID, b.ProducerEpoch, b.Sequence
	}
	binary.BigEndian.PutUint64(p[43:], uint64(id))
	binary.BigEndian.PutUint16(p[51:], uint16(epoch))
	binary.BigEndian.PutUint32(p[53:], uint32(sequence))
	binary.BigEndian.PutUint32(p[57:], uint32(len(values)))
	log.Batch(p).SealCRC()
	return p
}

func appendRecord(p []byte, offsetDelta, timestampDelta int64, value []byte) []byte {
	body := []byte{0} // attributes
	body = binary.AppendVarint(body, timestampDelta)
	body = binary.AppendVarint(body, offsetDelta)
	body = binary.AppendVarint(body, -1) // no key
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(body, value...)
	body = binary.AppendVarint(body, 0) // no headers
	p = binary.AppendVarint(p, int64(len(body)))
	return append(p, body...)
}
