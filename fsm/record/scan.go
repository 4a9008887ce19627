package record

import (
	"encoding/binary"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// recovered is the recovery state that a partition has as a rule; below is only the one that says nothing.
const recovered = int32(metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED)

const (
	// ListMax is the most brokers that a [ShortList] holds.
	ListMax = 4
	// ScanWindow is how many bytes from a record's first one [ShortPartition.Scan] wants to see. No field of a record that it
	// takes lies beyond, so it needs no other bound.
	ScanWindow = 128
	// scanMax is the longest record that it takes: below, a read of eight bytes at any position up to the end is within the window.
	scanMax = ScanWindow - 8
)

// ShortList is a list of at most four broker ids below 2¹⁴. Two of them are equal if their lists are.
type ShortList struct {
	// N is how many there are.
	N int
	// Lanes holds them in 16 bits each, the first one lowest; the others are 0.
	Lanes uint64
}

// ID is the i-th one.
func (l *ShortList) ID(i int) uint16 { return uint16(l.Lanes >> (16 * (i & 3))) }

// Slot is the first position that holds the id, -1 if none does.
func (l *ShortList) Slot(id uint32) int {
	for i := range l.N {
		if uint32(l.ID(i)) == id {
			return i
		}
	}
	return -1
}

// ShortPartition is a Partition record as nearly all of a snapshot's are: a whole topic id, short lists, no
// reassignment, no negative number.
type ShortPartition struct {
	// Topic is the topic id as two little-endian numbers.
	Topic                                 [2]uint64
	Partition                             int32
	LeaderEpoch, PartitionEpoch, Recovery int32
	Replicas                              ShortList
	// Healthy tells that the ISR is Replicas, that the first of them leads, has recovered if it had to, and that there is no
	// ELR; the other fields are void then.
	Healthy bool
	// HasLeader tells whether Leader is one.
	HasLeader              bool
	Leader                 uint32
	ISR, ELR, LastKnownELR ShortList
}

// Scan reads the record in the first end bytes of b and tells whether it is such a Partition, as [Append] writes it: fields
// in the order of their numbers. What it does not take, and every error, is for [Decoder]; p is void then. It
// takes nothing if b is shorter than [ScanWindow].
func (p *ShortPartition) Scan(b []byte, end int) bool {
	const head, length = fieldRecordPartition<<3 | 2 | (fieldTopicID<<3|2)<<16 | 16<<24, 1 << 8
	if len(b) < ScanWindow || end < 4+16 || end > scanMax {
		return false
	}
	w := (*[ScanWindow]byte)(b)
	if binary.LittleEndian.Uint32(w[:]) != head+uint32(end-2)*length {
		return false
	}
	p.Topic[0], p.Topic[1] = binary.LittleEndian.Uint64(w[4:]), binary.LittleEndian.Uint64(w[12:])
	v, at := uint32(0), 4+16
	if w[at] == fieldPartition<<3 {
		v, at = uint32(w[at+1]), at+2
		if v >= 0x80 {
			v, at = scanLong(w, at-1)
		}
	}
	p.Partition = int32(v)
	next := p.scanHealthy(w, at)
	if p.Healthy = next > 0 && p.scanEpochs(w, next) == end && p.Recovery <= recovered; p.Healthy {
		return true
	}
	at = p.Replicas.scan(w, at, fieldReplicas<<3|2)
	at = p.ISR.scan(w, at, fieldISR<<3|2)
	before := at
	p.Leader, at = scanNumber(w, at, fieldLeader<<3)
	p.HasLeader = at != before
	at = p.scanEpochs(w, at)
	at = p.ELR.scan(w, at, 9<<3|2)
	return p.LastKnownELR.scan(w, at, 10<<3|2) == end
}

// scanHealthy reads replicas, ISR and leader if all replicas are in the ISR, in their order, if the first one leads, and if all
// ids take a byte. It returns where they end, 0 if they are not like that.
func (p *ShortPartition) scanHealthy(w *[ScanWindow]byte, at int) (next int) {
	x := word(w, at)
	n := int(x >> 8 & 0xff)
	ids := x >> 16 & (1<<(8*n) - 1)
	next = at + 2 + n
	if byte(x) != fieldReplicas<<3|2 || n > ListMax || ids&0x80808080 != 0 ||
		(word(w, next)^x^(fieldReplicas^fieldISR)<<3)<<(8*(6-n)) != 0 ||
		uint16(word(w, next+2+n)) != uint16(fieldLeader<<3|ids<<8) {
		return 0
	}
	p.Replicas = ShortList{N: n, Lanes: spread(ids)}
	return next + 4 + n
}

// scanEpochs reads both epochs and the recovery state, which nearly always take a byte each.
func (p *ShortPartition) scanEpochs(w *[ScanWindow]byte, at int) (next int) {
	const recovery = 8 << 3
	if x := word(w, at); byte(x) == recovery && x&0x8000 == 0 {
		p.LeaderEpoch, p.PartitionEpoch, p.Recovery = 0, 0, int32(x>>8&0x7f)
		return at + 2
	}
	v, at := scanNumber(w, at, 6<<3)
	p.LeaderEpoch = int32(v)
	v, at = scanNumber(w, at, 7<<3)
	p.PartitionEpoch = int32(v)
	v, at = scanNumber(w, at, recovery)
	p.Recovery = int32(v)
	return at
}

// scanFailed is beyond every record. A position there, or one that a read from there leads to, is never a record's end: each
// of the few fields that can follow is short.
const scanFailed = 4 * ScanWindow

// scanNumber reads the field if it comes next; otherwise it is 0 and the position stays.
func scanNumber(w *[ScanWindow]byte, at int, tag byte) (v uint32, next int) {
	if w[at%ScanWindow] != tag {
		return 0, at
	}
	if v = uint32(w[(at+1)%ScanWindow]); v < 0x80 {
		return v, at + 2
	}
	return scanLong(w, at+1)
}

// scanLong reads a number of up to five bytes that fits 31 bits.
func scanLong(w *[ScanWindow]byte, at int) (v uint32, next int) {
	for shift := 0; shift < 35; shift += 7 {
		c := w[at%ScanWindow]
		if shift == 28 && c > 7 {
			break
		}
		at++
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v, at
		}
	}
	return 0, scanFailed
}

// word is the eight bytes at a position.
func word(w *[ScanWindow]byte, at int) uint64 {
	return binary.LittleEndian.Uint64(w[min(uint(at), ScanWindow-8):])
}

// spread makes 16 bits each of up to four bytes.
func spread(ids uint64) uint64 {
	ids = (ids | ids<<16) & 0x0000ffff0000ffff
	return (ids | ids<<8) & 0x00ff00ff00ff00ff
}

// scan reads a packed list if it comes next; otherwise it is empty and the position stays.
func (l *ShortList) scan(w *[ScanWindow]byte, at int, tag byte) (next int) {
	x := word(w, at)
	if byte(x) != tag {
		*l = ShortList{}
		return at
	}
	n := int(byte(x >> 8))
	x = x >> 16 & (1<<(8*n) - 1)
	if n > ListMax || x&0x80808080 != 0 {
		return l.scanLong(w, at+2, at+2+n)
	}
	l.N, l.Lanes = n, spread(x)
	return at + 2 + n
}

// scanLong reads ids of one or two bytes each.
func (l *ShortList) scanLong(w *[ScanWindow]byte, at, end int) (next int) {
	*l = ShortList{}
	if end > ScanWindow {
		return scanFailed
	}
	for at < end {
		id := uint64(w[at])
		at++
		if id >= 0x80 {
			if at == end || w[at] >= 0x80 {
				return scanFailed
			}
			id = id&0x7f | uint64(w[at])<<7
			at++
		}
		if l.N == ListMax {
			return scanFailed
		}
		l.Lanes |= id << (16 * l.N)
		l.N++
	}
	return end
}
