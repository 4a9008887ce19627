package broker

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/quorate/quorate/broker/log"
)

// decompressedBytesMax bounds the records of one batch, so that a small batch of a stranger cannot fill the memory.
const decompressedBytesMax = 64 << 20

// errDecompressedSize says that a batch holds more than the limit.
var errDecompressedSize = errors.New("broker: decompressed records are larger than the limit")

// decompress implements [log.Decompress] for the codecs of Kafka's record batches. Records are stored as sent; only a
// lookup by time looks inside.
func decompress(codec log.Codec, records []byte) ([]byte, error) {
	return decompressUpTo(decompressedBytesMax, codec, records)
}

func decompressUpTo(bytesMax int, codec log.Codec, records []byte) ([]byte, error) {
	switch codec {
	case log.CodecNone:
		return records, nil
	case log.CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(records))
		if err != nil {
			return nil, err
		}
		return readBounded(bytesMax, r)
	case log.CodecSnappy:
		return decompressSnappy(bytesMax, records)
	case log.CodecLZ4:
		return readBounded(bytesMax, lz4.NewReader(bytes.NewReader(records)))
	case log.CodecZstd:
		r, err := zstd.NewReader(bytes.NewReader(records), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(bytesMax, zstdWindowMin))))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return readBounded(bytesMax, r)
	default:
		return nil, fmt.Errorf("broker: unknown codec %d", codec)
	}
}

// zstdWindowMin is the least memory that a decoder works with.
const zstdWindowMin = 8 << 20

func readBounded(bytesMax int, r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, int64(bytesMax)+1))
	if err == nil && len(out) > bytesMax {
		return nil, fmt.Errorf("%w of %d bytes", errDecompressedSize, bytesMax)
	}
	return out, err
}

// xerialHeader begins the framing of snappy-java: this magic, two version numbers, then blocks with their length.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderBytes = 16

// decompressSnappy takes a plain block, or the blocks of snappy-java.
func decompressSnappy(bytesMax int, p []byte) ([]byte, error) {
	if !bytes.HasPrefix(p, xerialHeader) || len(p) < xerialHeaderBytes {
		return appendSnappy(bytesMax, nil, p)
	}
	var out []byte
	for p = p[xerialHeaderBytes:]; len(p) > 0; {
		if len(p) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(p)
		if p = p[4:]; int64(n) > int64(len(p)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = appendSnappy(bytesMax, out, p[:n]); err != nil {
			return nil, err
		}
		p = p[n:]
	}
	return out, nil
}

func appendSnappy(bytesMax int, out, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if len(out)+n > bytesMax {
		return nil, fmt.Errorf("%w of %d bytes", errDecompressedSize, bytesMax)
	}
	plain, err := s2.Decode(nil, block)
	return append(out, plain...), err
}
