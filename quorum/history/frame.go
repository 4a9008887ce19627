package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// A segment is a header, then frames. All numbers are little endian.
//
//	header  magic 8, offset 8 and chain 8 of the mark before the first frame, time 8 (ms), reason 1, zeros 3, CRC-32C 4
//	frame   magic 4, length of the entry 4, CRC-32C 4 over length, index and entry, Raft index 8, entry
const (
	segmentMagic = "QUOHIST\x01"
	headerBytes  = 40

	frameMagic     = 0x31454851 // QHE1
	frameHeadBytes = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// errDamaged tells of bytes that are not what was written.
	errDamaged = errors.New("history: damaged")
	// errTorn tells of a frame that the file ends in.
	errTorn = errors.New("history: the file ends within a frame")
)

// header is what a segment begins with.
type header struct {
	before Mark
	timeMs int64
	reason Reason
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerBytes), segmentMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.before.Offset))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.before.Chain))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.timeMs))
	b = append(b, byte(h.reason), 0, 0, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeHeader(b []byte) (header, error) {
	if len(b) < headerBytes {
		return header{}, fmt.Errorf("%w: %d bytes are no header", errTorn, len(b))
	}
	b = b[:headerBytes]
	if string(b[:8]) != segmentMagic || binary.LittleEndian.Uint32(b[headerBytes-4:]) != crc32.Checksum(b[:headerBytes-4], castagnoli) {
		return header{}, fmt.Errorf("%w: the header", errDamaged)
	}
	return header{
		before: Mark{
			Offset: image.MetadataOffset(binary.LittleEndian.Uint64(b[8:])),
			Chain:  image.Chain(binary.LittleEndian.Uint64(b[16:])),
		},
		timeMs: int64(binary.LittleEndian.Uint64(b[24:])),
		reason: Reason(b[32]),
	}, nil
}

// appendFrame appends the frame of an entry.
func appendFrame(b []byte, raftIndex uint64, entry []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, frameMagic)
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entry)))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, raftIndex)
	b = append(b, entry...)
	binary.LittleEndian.PutUint32(b[start+4:], frameSum(b[start:]))
	return b
}

// frameSum is the checksum of a frame without its magic.
func frameSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// frameLength reads the head of a frame and returns the size of the whole frame.
func frameLength(head []byte) (int, error) {
	if len(head) < frameHeadBytes {
		return 0, errTorn
	}
	if binary.LittleEndian.Uint32(head) != frameMagic {
		return 0, fmt.Errorf("%w: no frame begins here", errDamaged)
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > frameBytesMax {
		return 0, fmt.Errorf("%w: an entry of %d bytes, the limit is %d", errDamaged, n, frameBytesMax)
	}
	return frameHeadBytes + int(n), nil
}

// decodeFrame reads a whole frame.
func decodeFrame(b []byte) (item, error) {
	if binary.LittleEndian.Uint32(b[8:]) != frameSum(b[4:]) {
		return item{}, fmt.Errorf("%w: the checksum differs", errDamaged)
	}
	raw, err := record.ScanEntry(b[frameHeadBytes:])
	if err != nil {
		return item{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return newItem(binary.LittleEndian.Uint64(b[12:]), raw), nil
}

// item is an entry with the mark before it.
type item struct {
	*fsm.Entry
	before Mark
}

func (i item) after() Mark { return Mark{i.LastOffset, i.Chain} }

func newItem(raftIndex uint64, raw *record.RawEntry) item {
	return item{
		Entry: &fsm.Entry{
			Bytes: raw.Bytes, BaseOffset: raw.BaseOffset, LastOffset: raw.LastOffset(), Records: raw.Count,
			Chain: raw.ChainAfter(), TimeMs: raw.TimeMs, Index: raftIndex, Term: raw.Term,
		},
		before: Mark{raw.BaseOffset - 1, raw.Chain},
	}
}

// EntryOf takes the bytes of an entry, as they stand in the log, for what they are.
func EntryOf(raftIndex uint64, entry []byte) (*fsm.Entry, error) {
	raw, err := record.ScanEntry(entry)
	if err != nil {
		return nil, err
	}
	return newItem(raftIndex, raw).Entry, nil
}

// itemOf finds the mark before an entry.
func itemOf(e *fsm.Entry) (item, error) {
	raw, err := record.ScanEntry(e.Bytes)
	if err != nil {
		return item{}, err
	}
	return item{Entry: e, before: Mark{raw.BaseOffset - 1, raw.Chain}}, nil
}
