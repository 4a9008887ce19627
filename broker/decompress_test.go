package broker

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/quorate/quorate/broker/log"
)

func gzipped(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

func lz4ed(p []byte) []byte {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

func zstded(p []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(p, nil)
}

func xerial(p []byte) []byte {
	out := append(bytes.Clone(xerialHeader), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(p) > 0 {
		n := min(len(p), 1000)
		block := s2.EncodeSnappy(nil, p[:n])
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
		p = p[n:]
	}
	return out
}

// readAll opens and reads a batch's records.
func readAll(bytesMax int, codec log.Codec, p []byte) ([]byte, error) {
	r, err := decompressUpTo(bytesMax, codec, p)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestDecompress(t *testing.T) {
	plain := bytes.Repeat([]byte("a record and another one; "), 400)
	for _, tc := range []struct {
		name   string
		codec  log.Codec
		encode func([]byte) []byte
	}{
		{"none", log.CodecNone, bytes.Clone},
		{"gzip", log.CodecGzip, gzipped},
		{"snappy", log.CodecSnappy, func(p []byte) []byte { return s2.EncodeSnappy(nil, p) }},
		{"snappy of Java", log.CodecSnappy, xerial},
		{"lz4", log.CodecLZ4, lz4ed},
		{"zstd", log.CodecZstd, zstded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readAll(decompressedBytesMax, tc.codec, tc.encode(plain))
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes of %d, %v", len(got), len(plain), err)
			}
			if tc.codec == log.CodecNone {
				return
			}
			for _, bad := range [][]byte{tc.encode(plain)[:20], []byte("this is no compressed block at all")} {
				if got, err := readAll(decompressedBytesMax, tc.codec, bad); err == nil && bytes.Equal(got, plain) {
					t.Errorf("%q was taken", bad)
				}
			}
		})
	}
	if _, err := readAll(decompressedBytesMax, 9, plain); err == nil {
		t.Error("an unknown codec was taken")
	}
}

func TestDecompressIsBounded(t *testing.T) {
	const bytesMax = 10_000
	for _, tc := range []struct {
		codec  log.Codec
		encode func([]byte) []byte
	}{
		{log.CodecGzip, gzipped}, {log.CodecSnappy, func(p []byte) []byte { return s2.EncodeSnappy(nil, p) }},
		{log.CodecSnappy, xerial}, {log.CodecLZ4, lz4ed}, {log.CodecZstd, zstded},
	} {
		if _, err := readAll(bytesMax, tc.codec, tc.encode(make([]byte, bytesMax+1))); !errors.Is(err, errDecompressedSize) {
			t.Errorf("codec %d: %v", tc.codec, err)
		}
		if _, err := readAll(bytesMax, tc.codec, tc.encode(make([]byte, bytesMax))); err != nil {
			t.Errorf("codec %d at the limit: %v", tc.codec, err)
		}
	}
}

// TestDecompressHoldsLittle reads a batch that is ten thousand times larger inside: it must not be held whole.
func TestDecompressHoldsLittle(t *testing.T) {
	const plainBytes = 32 << 20
	for _, tc := range []struct {
		codec  log.Codec
		encode func([]byte) []byte
	}{{log.CodecGzip, gzipped}, {log.CodecLZ4, lz4ed}, {log.CodecZstd, zstdStreamed}} {
		bomb := tc.encode(make([]byte, plainBytes))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := decompress(tc.codec, bomb)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		r.Close()
		runtime.ReadMemStats(&after)
		if n != plainBytes || err != nil {
			t.Errorf("codec %d: %d bytes of %d, %v", tc.codec, n, plainBytes, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > plainBytes/2 {
			t.Errorf("codec %d: %d bytes were allocated for %d", tc.codec, took, plainBytes)
		}
	}
}

func zstdStreamed(p []byte) []byte {
	var b bytes.Buffer
	w, _ := zstd.NewWriter(&b)
	w.Write(p)
	w.Close()
	return b.Bytes()
}
