package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Read reads one snapshot up to the end of r, in pieces of [ReadBytes] or more.
func Read(r io.Reader) (*metadatapb.SnapshotHeader, *image.Image, error) {
	b := &blockReader{r: r}
	h, err := b.header()
	if err != nil {
		return nil, nil, err
	}
	d := image.Load()
	n := uint64(0)
	for {
		kind, payload, err := b.next()
		if err != nil {
			return nil, nil, err
		}
		switch kind {
		case blockRecords:
			if err := replay(d, image.MetadataOffset(h.MetadataOffset), payload, &n); err != nil {
				return nil, nil, b.name(err)
			}
		case blockFooter:
			if err := b.footer(payload, n); err != nil {
				return nil, nil, err
			}
			im := d.Seal(image.MetadataOffset(h.MetadataOffset), image.Chain(h.Chain))
			if got := im.Lineage().Number; int32(got) != h.Lineage {
				return nil, nil, b.name(fmt.Errorf("%w: the header is of lineage %d, the image of %d", ErrCorrupt, h.Lineage, got))
			}
			return h, im, nil
		default:
			return nil, nil, b.name(fmt.Errorf("%w: a block of kind %q", ErrUnknownBlock, kind))
		}
	}
}

// replay replays the records of a block.
func replay(d *image.Delta, offset image.MetadataOffset, payload []byte, n *uint64) error {
	for {
		taken, rest := d.LoadPartitions(payload)
		*n += uint64(taken)
		if payload = rest; len(payload) == 0 {
			return nil
		}
		size, w := binary.Uvarint(payload)
		if w <= 0 || size > uint64(len(payload)-w) {
			return fmt.Errorf("%w: record %d is longer than its block", ErrCorrupt, *n)
		}
		if err := d.ReplayEncoded(offset, payload[w:w+int(size)]); err != nil {
			return fmt.Errorf("record %d: %w", *n, err)
		}
		payload = payload[w+int(size):]
		*n++
	}
}

// ReadBytes is how much of a snapshot is asked for at a time.
const ReadBytes = 256 << 10

// blockReader reads blocks and checks them.
type blockReader struct {
	r     io.Reader
	crc   uint32
	at    int64 // position of the block that was read last
	end   int64 // position after it
	count int   // blocks read
	kind  byte
	// buf[from:to] was read ahead.
	buf      []byte
	from, to int
}

// take returns the next n bytes, valid until the next call. The error is io.EOF or io.ErrUnexpectedEOF if the snapshot ends before.
func (b *blockReader) take(n int) ([]byte, error) {
	if b.to-b.from < n {
		buf := b.buf
		if len(buf) < n {
			buf = make([]byte, max(n, ReadBytes))
		}
		b.to = copy(buf, b.buf[b.from:b.to])
		b.buf, b.from = buf, 0
		got, err := io.ReadAtLeast(b.r, b.buf[b.to:], n-b.to)
		if b.to += got; err != nil {
			return nil, err
		}
	}
	b.from += n
	return b.buf[b.from-n : b.from], nil
}

// name adds to an error which block it is about.
func (b *blockReader) name(err error) error {
	return fmt.Errorf("snapshot: block %d (%q) at byte %d: %w", b.count, b.kind, b.at, err)
}

// corrupt returns an error for a read that failed; an early end is corruption, anything else is the reader's error.
func (b *blockReader) corrupt(what string, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("%w: the snapshot ends within %s", ErrCorrupt, what)
	}
	return b.name(err)
}

func (b *blockReader) header() (*metadatapb.SnapshotHeader, error) {
	m, err := b.take(len(magic))
	if err != nil {
		return nil, b.corrupt("its first bytes", err)
	}
	if string(m) != magic {
		return nil, b.name(fmt.Errorf("%w: it does not begin like a snapshot", ErrCorrupt))
	}
	b.crc, b.end = crc32.Update(0, castagnoli, m), int64(len(magic))
	kind, payload, err := b.next()
	if err != nil {
		return nil, err
	}
	h := new(metadatapb.SnapshotHeader)
	switch {
	case kind != blockHeader:
		return nil, b.name(fmt.Errorf("%w: a block of kind %q in place of the header", ErrUnknownBlock, kind))
	case proto.Unmarshal(payload, h) != nil:
		return nil, b.name(fmt.Errorf("%w: the header is no message", ErrCorrupt))
	case h.Version != FormatVersion:
		return nil, b.name(fmt.Errorf("%w: version %d, known is %d", ErrUnknownBlock, h.Version, FormatVersion))
	case len(h.ProtoReflect().GetUnknown()) > 0:
		return nil, b.name(fmt.Errorf("%w: a field of the header", ErrUnknownBlock))
	case h.MetadataOffset < int64(image.NoOffset) || h.MetadataOffset == math.MaxInt64:
		return nil, b.name(fmt.Errorf("%w: metadata offset %d", ErrCorrupt, h.MetadataOffset))
	}
	return h, nil
}

// next reads a block. The payload is valid until the next call.
func (b *blockReader) next() (byte, []byte, error) {
	b.at, b.kind = b.end, '?'
	b.count++
	head, err := b.take(blockHeadLen)
	if err != nil {
		return 0, nil, b.corrupt("the head of a block", err)
	}
	b.kind = head[0]
	size := binary.LittleEndian.Uint32(head[1:])
	if size > blockBytesMax {
		return 0, nil, b.name(fmt.Errorf("%w: %d bytes, allowed are %d", ErrCorrupt, size, blockBytesMax))
	}
	b.crc = crc32.Update(b.crc, castagnoli, head)
	buf, err := b.take(int(size) + 4)
	if err != nil {
		return 0, nil, b.corrupt("a block", err)
	}
	b.crc = crc32.Update(b.crc, castagnoli, buf[:size])
	if sum := binary.LittleEndian.Uint32(buf[size:]); sum != b.crc {
		return 0, nil, b.name(fmt.Errorf("%w: checksum %08x, computed %08x", ErrCorrupt, sum, b.crc))
	}
	b.end += int64(blockHeadLen + len(buf))
	return b.kind, buf[:size], nil
}

func (b *blockReader) footer(payload []byte, n uint64) error {
	f := new(metadatapb.SnapshotFooter)
	if err := proto.Unmarshal(payload, f); err != nil {
		return b.name(fmt.Errorf("%w: the footer is no message", ErrCorrupt))
	}
	if len(f.ProtoReflect().GetUnknown()) > 0 {
		return b.name(fmt.Errorf("%w: a field of the footer", ErrUnknownBlock))
	}
	if f.Records != n {
		return b.name(fmt.Errorf("%w: %d records, the footer says %d", ErrCorrupt, n, f.Records))
	}
	switch _, err := b.take(1); err {
	case nil:
		return b.name(fmt.Errorf("%w: bytes after the footer", ErrCorrupt))
	case io.EOF:
		return nil
	default:
		return b.name(err)
	}
}
