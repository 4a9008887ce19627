package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Write writes the image under the header, whose version, offset, chain and lineage it fills in. The error is that of w.
func Write(w io.Writer, h *metadatapb.SnapshotHeader, im *image.Image) error {
	h = proto.CloneOf(h)
	h.Version, h.MetadataOffset, h.Chain = FormatVersion, int64(im.Offset()), uint64(im.Chain())
	h.Lineage = int32(im.Lineage().Number)
	b := &blockWriter{w: w}
	b.write([]byte(magic))
	b.message(blockHeader, h)
	b.open()
	n := uint64(0)
	for at := range im.EncodedRecords() {
		n++
		b.record(at)
		if b.err != nil {
			break
		}
	}
	b.close(blockRecords)
	b.message(blockFooter, &metadatapb.SnapshotFooter{Records: n})
	if b.err != nil {
		return fmt.Errorf("snapshot: write: %w", b.err)
	}
	return nil
}

// blockWriter gathers a block; it remembers the first error.
type blockWriter struct {
	w     io.Writer
	crc   uint32
	block []byte // head and payload
	err   error
}

func (b *blockWriter) write(p []byte) {
	b.crc = crc32.Update(b.crc, castagnoli, p)
	if b.err == nil {
		_, b.err = b.w.Write(p)
	}
}

func (b *blockWriter) open() { b.block = append(b.block[:0], make([]byte, blockHeadLen)...) }

func (b *blockWriter) record(raw []byte) {
	b.block = append(binary.AppendUvarint(b.block, uint64(len(raw))), raw...)
	if len(b.block) >= blockBytesTarget {
		b.close(blockRecords)
		b.open()
	}
}

// close writes the block, unless its payload is empty.
func (b *blockWriter) close(kind byte) {
	if len(b.block) == blockHeadLen && kind == blockRecords {
		return
	}
	b.block[0] = kind
	binary.LittleEndian.PutUint32(b.block[1:], uint32(len(b.block)-blockHeadLen))
	b.crc = crc32.Update(b.crc, castagnoli, b.block)
	b.block = binary.LittleEndian.AppendUint32(b.block, b.crc)
	if b.err == nil {
		_, b.err = b.w.Write(b.block)
	}
}

func (b *blockWriter) message(kind byte, m proto.Message) {
	b.open()
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b.block, m)
	if b.err == nil {
		b.err = err
	}
	b.block = out
	b.close(kind)
}
