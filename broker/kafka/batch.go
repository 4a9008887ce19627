package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Header of a record batch of format 2, big endian. Offsets are from the start of the batch.
const (
	batchLengthAt     = 8
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchProducerAt   = 43
	batchSequenceAt   = 53
	batchCountAt      = 57
	batchHeaderBytes  = 61

	batchMagic       = 2
	batchLogOverhead = 12 // base offset and length, which the length leaves out
	attributeCodec   = 0x07
	attributeTxn     = 0x10
	attributeControl = 0x20
	codecZstd        = 4
	zstdProduceMin   = 7 // KIP-110
	noProducer       = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckBatch makes the checks of a client's batch that need no partition. Refusals, in order:
//   - not exactly one whole batch of format 2 (Produce from version 3 on): INVALID_RECORD, or CORRUPT_MESSAGE if its
//     length and the bytes given disagree
//   - larger than bytesMax (max.message.bytes): MESSAGE_TOO_LARGE
//   - a wrong CRC-32C: CORRUPT_MESSAGE
//   - a base offset other than 0, no records, a last offset delta other than count - 1, a control batch, a producer id
//     without a sequence: INVALID_RECORD
//   - a transactional batch: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which makes clients stop
//   - an unknown codec, or zstd below version 7: UNSUPPORTED_COMPRESSION_TYPE
//
// The records themselves, compressed or not, are not looked into.
func CheckBatch(b []byte, version int16, bytesMax int) error {
	if len(b) < batchHeaderBytes {
		return fmt.Errorf("%w: %d bytes are less than a batch header of %d", kerr.InvalidRecord, len(b), batchHeaderBytes)
	}
	if b[batchMagicAt] != batchMagic {
		return fmt.Errorf("%w: batch has format %d, only %d is stored", kerr.InvalidRecord, b[batchMagicAt], batchMagic)
	}
	length := int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + batchLogOverhead
	switch {
	case length < batchHeaderBytes || length > int64(len(b)):
		return fmt.Errorf("%w: batch says %d bytes, %d were given", kerr.CorruptMessage, length, len(b))
	case length < int64(len(b)):
		return fmt.Errorf("%w: a partition takes exactly one batch a request; %d bytes follow the first", kerr.InvalidRecord, int64(len(b))-length)
	case len(b) > bytesMax:
		return fmt.Errorf("%w: batch has %d bytes, max.message.bytes is %d; split it or raise the limit", kerr.MessageTooLarge, len(b), bytesMax)
	}
	if sum := crc32.Checksum(b[batchAttributesAt:], castagnoli); sum != binary.BigEndian.Uint32(b[batchCRCAt:]) {
		return fmt.Errorf("%w: CRC-32C of the batch is %08x, its header says %08x", kerr.CorruptMessage, sum, binary.BigEndian.Uint32(b[batchCRCAt:]))
	}
	return checkBatchFields(b, version)
}

func checkBatchFields(b []byte, version int16) error {
	base := int64(binary.BigEndian.Uint64(b))
	count := int32(binary.BigEndian.Uint32(b[batchCountAt:]))
	lastDelta := int32(binary.BigEndian.Uint32(b[batchLastDeltaAt:]))
	attributes := binary.BigEndian.Uint16(b[batchAttributesAt:])
	producer := int64(binary.BigEndian.Uint64(b[batchProducerAt:]))
	sequence := int32(binary.BigEndian.Uint32(b[batchSequenceAt:]))
	switch {
	case base != 0:
		return fmt.Errorf("%w: base offset is %d, a client sends 0", kerr.InvalidRecord, base)
	case count <= 0:
		return fmt.Errorf("%w: batch has %d records", kerr.InvalidRecord, count)
	case lastDelta != count-1:
		return fmt.Errorf("%w: last offset delta is %d with %d records", kerr.InvalidRecord, lastDelta, count)
	case attributes&attributeControl != 0:
		return fmt.Errorf("%w: control batches are written by brokers only", kerr.InvalidRecord)
	case producer < noProducer, producer != noProducer && sequence < 0:
		return fmt.Errorf("%w: producer id %d with first sequence %d", kerr.InvalidRecord, producer, sequence)
	case attributes&attributeTxn != 0:
		return fmt.Errorf("%w: transactions are not supported", kerr.TransactionalIDAuthorizationFailed)
	}
	codec := attributes & attributeCodec
	if codec > codecZstd || codec == codecZstd && version < zstdProduceMin {
		return fmt.Errorf("%w: codec %d in Produce version %d", kerr.UnsupportedCompressionType, codec, version)
	}
	return nil
}
