package log

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
)

// Layout of the header of a record batch of magic 2 (Kafka: DefaultRecordBatch). All numbers are big endian.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	// HeaderBytes is the size of the fixed header of a record batch.
	HeaderBytes = 61
	// lengthPrefixBytes is what comes before the bytes that the length field counts.
	lengthPrefixBytes = 12

	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20

	magicV2 = 2
)

// NoProducerID stands in a batch of a producer that is not idempotent.
const NoProducerID int64 = -1

// NoTimestamp stands where a batch holds no timestamp.
const NoTimestamp int64 = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Codec is the compression of a batch's records.
type Codec uint8

// The codecs of Kafka.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// Batch is one whole record batch in its bytes. It is a view: whoever owns the bytes owns the batch.
// Its methods expect at least [HeaderBytes] bytes, as [NextBatch] hands them out.
type Batch []byte

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[atBaseOffset:])) }

// Size is the number of bytes of the whole batch as its header tells it.
func (b Batch) Size() int {
	return int(int32(binary.BigEndian.Uint32(b[atLength:]))) + lengthPrefixBytes
}

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[atLeaderEpoch:])) }

// Magic is the version of the format.
func (b Batch) Magic() byte { return b[atMagic] }

// CRC is the checksum that the header holds.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

func (b Batch) attributes() uint16 { return binary.BigEndian.Uint16(b[atAttributes:]) }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b.attributes() & attributeCodec) }

// IsLogAppendTime tells that the timestamp of every record is MaxTimestamp.
func (b Batch) IsLogAppendTime() bool { return b.attributes()&attributeLogAppendTime != 0 }

// IsTransactional tells that the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.attributes()&attributeTransactional != 0 }

// IsControl tells that the batch is a marker that brokers write.
func (b Batch) IsControl() bool { return b.attributes()&attributeControl != 0 }

// LastOffsetDelta is the offset of the last record relative to the first.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])) }

// LastOffset is the offset of the last record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the last record.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp is the timestamp that those of the records are relative to, in milliseconds since the epoch.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])) }

// MaxTimestamp is the largest timestamp of the records, in milliseconds since the epoch.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])) }

// ProducerID is the id of an idempotent producer, or [NoProducerID].
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[atProducerID:])) }

// ProducerEpoch is the epoch of that producer.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[atProducerEpoch:])) }

// BaseSequence is the sequence number of the first record.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[atBaseSequence:])) }

// LastSequence is the sequence number of the last record; 2147483647 is followed by 0.
func (b Batch) LastSequence() int32 { return addSequence(b.BaseSequence(), b.LastOffsetDelta()) }

// Count is the number of records.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[atCount:])) }

// SetBaseOffset writes the offset of the first record in place. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(offset))
}

// SetLeaderEpoch writes the epoch of the appending leader in place. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(epoch))
}

// SetLogAppendTime gives every record the broker's time and writes the checksum anew
// (message.timestamp.type=LogAppendTime).
func (b Batch) SetLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[atAttributes:], b.attributes()|attributeLogAppendTime)
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(ms))
	b.SealCRC()
}

// SealCRC writes the checksum that fits the bytes.
func (b Batch) SealCRC() {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

// addSequence counts on from a sequence number, from 2147483647 to 0.
func addSequence(sequence, delta int32) int32 {
	return int32((int64(sequence) + int64(delta)) & 0x7fffffff)
}

// NextBatch takes the first batch off the front of p. It reads only the length and the magic; [Batch.Check] does
// the rest. A refusal is [ErrCorruptBatch].
func NextBatch(p []byte) (b Batch, rest []byte, err error) {
	if len(p) < HeaderBytes {
		return nil, nil, refuse(ErrCorruptBatch, "%d bytes are left where a record batch has a header of %d", len(p), HeaderBytes)
	}
	size, err := headerSize(p)
	if err != nil {
		return nil, nil, err
	}
	if size > len(p) {
		return nil, nil, refuse(ErrCorruptBatch, "a record batch of %d bytes is cut off after %d", size, len(p))
	}
	return Batch(p[:size:size]), p[size:], nil
}

// headerSize reads the size of the batch whose header lies at the front of p.
func headerSize(p []byte) (int, error) {
	b := Batch(p[:HeaderBytes])
	if b.Magic() != magicV2 {
		return 0, refuse(ErrCorruptBatch, "a record batch has magic %d instead of %d", b.Magic(), magicV2)
	}
	size := b.Size()
	if size < HeaderBytes {
		return 0, refuse(ErrCorruptBatch, "a record batch claims %d bytes, less than its header of %d", size, HeaderBytes)
	}
	return size, nil
}

// Batches walks over the batches in p. After the first error it ends.
func Batches(p []byte) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for len(p) > 0 {
			b, rest, err := NextBatch(p)
			if !yield(b, err) || err != nil {
				return
			}
			p = rest
		}
	}
}

func (b Batch) checkCRC() error {
	if got := crc32.Checksum(b[atAttributes:], castagnoli); got != b.CRC() {
		return refuse(ErrCorruptBatch, "record batch at offset %d: checksum is %08x, header says %08x", b.BaseOffset(), got, b.CRC())
	}
	return nil
}

// Check tells whether a stored batch is whole: checksum, offset delta, count, codec. A refusal is [ErrCorruptBatch].
func (b Batch) Check() error {
	if err := b.checkCRC(); err != nil {
		return err
	}
	if b.BaseOffset() < 0 || b.LastOffsetDelta() < 0 {
		return refuse(ErrCorruptBatch, "record batch at offset %d: offset delta %d", b.BaseOffset(), b.LastOffsetDelta())
	}
	if b.Count() < 0 || int64(b.Count()) > int64(b.LastOffsetDelta())+1 {
		return refuse(ErrCorruptBatch, "record batch at offset %d: %d records for an offset delta of %d",
			b.BaseOffset(), b.Count(), b.LastOffsetDelta())
	}
	if b.Codec() > CodecZstd {
		return refuse(ErrCorruptBatch, "record batch at offset %d: unknown codec %d", b.BaseOffset(), b.Codec())
	}
	return nil
}
