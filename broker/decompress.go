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

// decompressedBytesMax bounds the records of one batch, so that a small batch of a stranger cannot keep a lookup busy.
const decompressedBytesMax = 64 << 20

// zstdWindowBytesMax bounds what a zstd frame may make its decoder remember; any compressor's level but the "ultra" ones
// needs less.
const zstdWindowBytesMax = 8 << 20

// errDecompressedSize says that a batch holds more than the limit.
var errDecompressedSize = errors.New("broker: decompressed records are larger than the limit")

// decompress implements [log.Decompress] for the codecs of Kafka's record batches. Records are stored as sent; only a
// lookup by time looks inside, and it reads them as a stream: what a batch grows to is never held.
func decompress(codec log.Codec, records []byte) (io.ReadCloser, error) {
	return decompressUpTo(decompressedBytesMax, codec, records)
}

func decompressUpTo(bytesMax int, codec log.Codec, records []byte) (io.ReadCloser, error) {
	switch codec {
	case log.CodecNone:
		return io.NopCloser(bytes.NewReader(records)), nil
	case log.CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(records))
		if err != nil {
			return nil, err
		}
		return &bounded{r, r.Close, bytesMax}, nil
	case log.CodecSnappy:
		plain, err := decompressSnappy(bytesMax, records)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(plain)), nil
	case log.CodecLZ4:
		return &bounded{lz4.NewReader(bytes.NewReader(records)), nil, bytesMax}, nil
	case log.CodecZstd:
		r, err := zstd.NewReader(bytes.NewReader(records), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowBytesMax))
		if err != nil {
			return nil, err
		}
		return &bounded{r, func() error { r.Close(); return nil }, bytesMax}, nil
	default:
		return nil, fmt.Errorf("broker: unknown codec %d", codec)
	}
}

// bounded reads up to a number of bytes and refuses to go on.
type bounded struct {
	r     io.Reader
	close func() error // may be nil
	left  int
}

func (b *bounded) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if n > b.left {
		return b.left, errDecompressedSize
	}
	b.left -= n
	return n, err
}

func (b *bounded) Close() error {
	if b.close == nil {
		return nil
	}
	return b.close()
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
