package record

import "encoding/binary"

// ListMax is the most brokers that a [ShortList] holds.
const ListMax = 4

// ShortList is a list of at most four broker ids below 2¹⁴. Two of them are equal if their lists are.
type ShortList struct {
	// N is how many there are.
	N int
	// Lanes holds them in 16 bits each, the first one lowest; the others are 0.
	Lanes uint64
}

// ID is the i-th one.
func (l ShortList) ID(i int) uint16 { return uint16(l.Lanes >> (16 * i)) }

// ShortPartition is a Partition record as nearly all of a snapshot's are: a whole topic id, short lists, no
// reassignment, no negative number.
type ShortPartition struct {
	TopicID   [16]byte
	Partition int32
	// HasLeader tells whether Leader is one.
	HasLeader                             bool
	Leader                                uint32
	LeaderEpoch, PartitionEpoch, Recovery int32
	Replicas, ISR, ELR, LastKnownELR      ShortList
}

// Scan reads a record and tells whether it is such a Partition, as [Append] writes it: fields in the order of their
// numbers. What it does not take, and every error, is for [Decoder]; p is void then.
func (p *ShortPartition) Scan(raw []byte) bool {
	const head = 4 + 16
	if len(raw) < head || raw[0] != fieldRecordPartition<<3|2 || raw[1] >= 0x80 || int(raw[1]) != len(raw)-2 ||
		raw[2] != fieldTopicID<<3|2 || raw[3] != 16 {
		return false
	}
	p.TopicID = [16]byte(raw[4:head])
	// What is not as expected moves the position beyond the end, where no field is found any more.
	v, at := scanNumber(raw, head, fieldPartition<<3)
	p.Partition = int32(v)
	at = p.Replicas.scan(raw, at, 3<<3|2)
	at = p.ISR.scan(raw, at, 4<<3|2)
	before := at
	p.Leader, at = scanNumber(raw, at, 5<<3)
	p.HasLeader = at != before
	v, at = scanNumber(raw, at, 6<<3)
	p.LeaderEpoch = int32(v)
	v, at = scanNumber(raw, at, 7<<3)
	p.PartitionEpoch = int32(v)
	v, at = scanNumber(raw, at, 8<<3)
	p.Recovery = int32(v)
	at = p.ELR.scan(raw, at, 9<<3|2)
	at = p.LastKnownELR.scan(raw, at, 10<<3|2)
	return at == len(raw)
}

// scanNumber reads the field if it comes next; otherwise it is 0 and the position stays.
func scanNumber(b []byte, at int, tag byte) (v uint32, next int) {
	if at+1 >= len(b) || b[at] != tag {
		return 0, at
	}
	if b[at+1] < 0x80 {
		return uint32(b[at+1]), at + 2
	}
	return scanLong(b, at+1)
}

// scanLong reads a number of up to five bytes that fits 31 bits.
func scanLong(b []byte, at int) (v uint32, next int) {
	for shift := 0; shift < 35 && at < len(b); shift += 7 {
		c := b[at]
		if shift == 28 && c > 7 {
			break
		}
		at++
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v, at
		}
	}
	return 0, len(b) + 1
}

// scan reads a packed list if it comes next; otherwise it is empty and the position stays.
func (l *ShortList) scan(b []byte, at int, tag byte) (next int) {
	if at+1 >= len(b) || b[at] != tag {
		*l = ShortList{}
		return at
	}
	n := int(b[at+1])
	at += 2
	if n > ListMax || at+4 > len(b) {
		return l.scanLong(b, at, at+n)
	}
	x := uint64(binary.LittleEndian.Uint32(b[at:])) & (1<<(8*n) - 1)
	if x&0x80808080 != 0 {
		return l.scanLong(b, at, at+n)
	}
	// A byte each becomes 16 bits each.
	x = (x | x<<16) & 0x0000ffff0000ffff
	l.N, l.Lanes = n, (x|x<<8)&0x00ff00ff00ff00ff
	return at + n
}

// scanLong reads ids of one or two bytes each.
func (l *ShortList) scanLong(b []byte, at, end int) (next int) {
	*l = ShortList{}
	failed := len(b) + 1
	if end > len(b) {
		return failed
	}
	for at < end {
		id := uint64(b[at])
		at++
		if id >= 0x80 {
			if at == end || b[at] >= 0x80 {
				return failed
			}
			id = id&0x7f | uint64(b[at])<<7
			at++
		}
		if l.N == ListMax {
			return failed
		}
		l.Lanes |= id << (16 * l.N)
		l.N++
	}
	return end
}
