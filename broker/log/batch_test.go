package log_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

// sealed changes bytes of a batch and makes its checksum right again.
func sealed(b logtest.Batch, change func(p []byte)) []byte {
	p := b.Bytes()
	change(p)
	log.Batch(p).SealCRC()
	return p
}

func put32(at int, v uint32) func([]byte) {
	return func(p []byte) { binary.BigEndian.PutUint32(p[at:], v) }
}

func TestParseProduce(t *testing.T) {
	good := logtest.Batch{Values: logtest.Records(3, 20), Timestamp: 1000}
	idempotent := logtest.Batch{HasProducer: true, ProducerID: 5, Sequence: 7}
	for _, c := range []struct {
		name string
		p    []byte
		want error
	}{
		{"good", good.Bytes(), nil},
		{"idempotent", idempotent.Bytes(), nil},
		{"nothing", nil, log.ErrInvalidRecord},
		{"two batches", append(good.Bytes(), good.Bytes()...), log.ErrInvalidRecord},
		{"a byte more", append(good.Bytes(), 0), log.ErrInvalidRecord},
		{"a byte less", good.Bytes()[:len(good.Bytes())-1], log.ErrCorruptBatch},
		{"half a header", good.Bytes()[:30], log.ErrCorruptBatch},
		{"magic 1", sealed(good, func(p []byte) { p[16] = 1 }), log.ErrInvalidRecord},
		{"base offset 1", sealed(good, func(p []byte) { p[7] = 1 }), log.ErrInvalidRecord},
		{"too large", logtest.Batch{Values: logtest.Records(1, 2000)}.Bytes(), log.ErrMessageTooLarge},
		{"length below the header", sealed(good, put32(8, 3)), log.ErrCorruptBatch},
		{"negative length", sealed(good, put32(8, 1<<31)), log.ErrCorruptBatch},
		{"flipped byte", func() []byte { p := good.Bytes(); p[70] ^= 1; return p }(), log.ErrCorruptBatch},
		{"control batch", sealed(good, func(p []byte) { p[22] |= 0x20 }), log.ErrInvalidRecord},
		{"transactional batch", sealed(good, func(p []byte) { p[22] |= 0x10 }), log.ErrInvalidRecord},
		{"codec 4", sealed(good, func(p []byte) { p[22] |= 4 }), nil},
		{"codec 5", sealed(good, func(p []byte) { p[22] |= 5 }), log.ErrInvalidRecord},
		{"no records", sealed(good, put32(57, 0)), log.ErrInvalidRecord},
		{"negative records", sealed(good, put32(57, 1<<31)), log.ErrInvalidRecord},
		{"delta is not count-1", sealed(good, put32(23, 3)), log.ErrInvalidRecord},
		{"negative sequence", sealed(idempotent, put32(53, 1<<31)), log.ErrInvalidRecord},
		{"negative producer epoch", sealed(idempotent, func(p []byte) { p[51] = 0x80 }), log.ErrInvalidRecord},
		{"producer id -2", sealed(idempotent, func(p []byte) { binary.BigEndian.PutUint64(p[43:], ^uint64(1)) }), log.ErrInvalidRecord},
		// The leader epoch a client sends means nothing.
		{"leader epoch", sealed(good, put32(12, 77)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := log.ParseProduce(c.p, 1000)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && b.Batch() != nil {
				t.Error("a refused batch was handed out")
			}
		})
	}
}

func TestBatchFields(t *testing.T) {
	b := log.Batch(logtest.Batch{
		BaseOffset: 40, LeaderEpoch: 6, Values: logtest.Records(3, 5), Timestamp: 100, Timestamps: []int64{100, 170, 120},
		HasProducer: true, ProducerID: 9, ProducerEpoch: 2, Sequence: 1<<31 - 2,
	}.Bytes())
	if b.LastOffset() != 42 || b.NextOffset() != 43 || b.MaxTimestamp() != 170 || b.BaseTimestamp() != 100 ||
		b.LastSequence() != 0 || b.Count() != 3 || b.ProducerEpoch() != 2 || b.Size() != len(b) {
		t.Errorf("fields are wrong: %v", b)
	}
	before := b.CRC()
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(99)
	if err := b.Check(); err != nil || b.CRC() != before {
		t.Errorf("checksum covers what the broker writes: %v", err)
	}
}

func FuzzBatches(f *testing.F) {
	good := logtest.Batch{Values: logtest.Records(2, 10)}.Bytes()
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add(append(bytes.Clone(good), good[:50]...))
	f.Add(sealed(logtest.Batch{}, put32(8, 1<<31-1)))
	f.Add(sealed(logtest.Batch{}, put32(57, 1<<31-1)))
	f.Fuzz(func(t *testing.T, p []byte) {
		total := 0
		for b, err := range log.Batches(p) {
			if err != nil {
				break
			}
			if len(b) != b.Size() || len(b) < log.HeaderBytes {
				t.Fatalf("a batch of %d bytes says %d", len(b), b.Size())
			}
			total += len(b)
			_ = b.Check()
		}
		if total > len(p) {
			t.Fatalf("%d bytes of batches in %d", total, len(p))
		}
		parsed, err := log.ParseProduce(p, 1<<20)
		if err != nil {
			return
		}
		if b := parsed.Batch(); len(b) != len(p) || b.Check() != nil || b.LastOffset() < 0 {
			t.Fatalf("accepted, but not one whole batch")
		}
	})
}
