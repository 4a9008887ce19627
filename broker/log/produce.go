package log

// ProduceBatch is a batch of a client that has passed [ParseProduce].
type ProduceBatch struct{ batch Batch }

// Batch is the batch itself.
func (p ProduceBatch) Batch() Batch { return p.batch }

// ParseProduce tests what a client sent for one partition, in this order: exactly one batch, base offset 0, size,
// checksum, the rules of the header. It looks only at the header, so it is cheap, needs no lock, and belongs
// before [Log.Append]. The bytes stay the caller's, but Append patches them, so nobody else may read them.
//
// Refusals: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE. (Kafka: ProduceRequest.validateRecords,
// UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch.)
func ParseProduce(records []byte, messageBytesMax int32) (ProduceBatch, error) {
	if len(records) == 0 {
		return ProduceBatch{}, refuse(ErrInvalidRecord, "no record batch for the partition; exactly one is needed")
	}
	if len(records) > atMagic && records[atMagic] != magicV2 {
		return ProduceBatch{}, refuse(ErrInvalidRecord, "record batch of magic %d; only magic %d is accepted", records[atMagic], magicV2)
	}
	b, rest, err := NextBatch(records)
	if err != nil {
		return ProduceBatch{}, err
	}
	if len(rest) > 0 {
		return ProduceBatch{}, refuse(ErrInvalidRecord, "%d bytes follow the first record batch; exactly one batch a partition is accepted", len(rest))
	}
	if b.BaseOffset() != 0 {
		return ProduceBatch{}, refuse(ErrInvalidRecord, "record batch has base offset %d; a client must send 0", b.BaseOffset())
	}
	if len(b) > int(messageBytesMax) {
		return ProduceBatch{}, refuse(ErrMessageTooLarge, "record batch of %d bytes; max.message.bytes is %d", len(b), messageBytesMax)
	}
	if err := b.checkCRC(); err != nil {
		return ProduceBatch{}, err
	}
	if err := checkProduceHeader(b); err != nil {
		return ProduceBatch{}, err
	}
	return ProduceBatch{b}, nil
}

func checkProduceHeader(b Batch) error {
	switch {
	case b.IsControl():
		return refuse(ErrInvalidRecord, "record batch is a control batch; clients may not write those")
	case b.IsTransactional():
		return refuse(ErrInvalidRecord, "record batch is transactional; transactions are not served")
	case b.Codec() > CodecZstd:
		return refuse(ErrInvalidRecord, "record batch has codec %d; the highest known is %d (zstd)", b.Codec(), CodecZstd)
	case b.Count() <= 0:
		return refuse(ErrInvalidRecord, "record batch has %d records; at least one is needed", b.Count())
	case b.LastOffsetDelta() != b.Count()-1:
		return refuse(ErrInvalidRecord, "record batch of %d records has last offset delta %d instead of %d",
			b.Count(), b.LastOffsetDelta(), b.Count()-1)
	case b.ProducerID() < NoProducerID:
		return refuse(ErrInvalidRecord, "record batch has producer id %d", b.ProducerID())
	case b.ProducerID() != NoProducerID && b.BaseSequence() < 0:
		return refuse(ErrInvalidRecord, "record batch of producer %d has sequence %d; it must not be negative", b.ProducerID(), b.BaseSequence())
	case b.ProducerID() != NoProducerID && b.ProducerEpoch() < 0:
		return refuse(ErrInvalidRecord, "record batch of producer %d has producer epoch %d; it must not be negative", b.ProducerID(), b.ProducerEpoch())
	}
	return nil
}
