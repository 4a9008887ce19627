package image

import (
	"encoding/binary"

	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// LoadPartitions takes Partition records from the head of a snapshot's block, in which each record follows its length,
// for as long as it can take them without a message in between. It returns how many it took, and what is left of the block.
//
// A snapshot is partitions and little else, and a controller serves nobody while it loads one. Everything unusual, and every
// error, goes the long way of [Delta.ReplayEncoded], so both must take the same bytes for the same state. The last few
// records of a block go that way too.
func (d *Delta) LoadPartitions(block []byte) (n int, rest []byte) {
	d.mustBeOpen()
	for len(block) > record.ScanWindow {
		size := int(block[0])
		if !d.short.Scan(block[1:], size) || !d.loadPartition(&d.short) {
			break
		}
		block = block[1+size:]
		n++
	}
	return n, block
}

// loadPartition is addPartition of a record in its short form; it tells whether the record was taken.
func (d *Delta) loadPartition(p *record.ShortPartition) bool {
	e := d.lastTopic
	if e == nil || binary.LittleEndian.Uint64(e.id[:8]) != p.Topic[0] || binary.LittleEndian.Uint64(e.id[8:]) != p.Topic[1] {
		if e = d.shortTopic(p); e == nil {
			return false
		}
	}
	if p.Partition != e.count || hasTwice(&p.Replicas) {
		return false
	}
	leader, bits := 0, healthyBits[p.Replicas.N]
	var outside, elr uint8
	if !p.Healthy {
		if bits, leader, outside, elr = packShort(p); leader < 0 {
			return false
		}
	}
	e, ordinal := d.growTopic(e)
	rec := d.editPacked(ordinal)
	// Field by field: a literal is put together elsewhere and copied, which waits for its own writes.
	rec.lanes, rec.topic, rec.bits = p.Replicas.Lanes, e.ordinal, bits
	rec.partition, rec.leaderEpoch, rec.partitionEpoch = p.Partition, p.LeaderEpoch, p.PartitionEpoch
	d.partitionCount++
	if d.hashedTopic != e {
		d.hashedTopic, d.topicHash = e, hash(kindPartition).uuid(e.id)
	}
	d.sum += d.topicHash.packed(rec)
	d.indexLoaded(ordinal, &p.Replicas, leader)
	if !p.Healthy {
		d.indexUnusual(ordinal, rec, leader, outside, elr)
	}
	return true
}

// indexLoaded notes the replicas of a new partition, and which of them leads, by their brokers.
func (d *Delta) indexLoaded(ordinal uint32, replicas *record.ShortList, leader int) {
	if d.recent == nil {
		d.keepRecent()
	}
	recent, page, at, bit := d.recent, ordinal/bitsPerPage, ordinal/64%bitWords, uint64(1)<<(ordinal%64)
	n, lanes := replicas.N, replicas.Lanes
	for i := range n {
		id := BrokerID(uint16(lanes))
		lanes >>= 16
		c := &recent[uint(id)&uint(len(recent)-1)]
		if c.id != id || c.page != page {
			d.editReplicas(id, page)
		}
		c.on[at] |= bit
		c.index.on.n++
		if i == leader {
			c.index.leaders++
		}
	}
}

// healthyBits are the bits of a partition by its number of replicas, if they are all in the ISR and the first one leads.
var healthyBits = func() (bits [maxSlots + 1]uint64) {
	for n := range bits {
		bits[n] = bitPresent | uint64(n)<<shiftReplicas | allInOrder(n)<<shiftISR
	}
	return bits
}()

// allInOrder is the list of the first n slots.
func allInOrder(n int) uint64 {
	const four = 0<<3 | 1<<5 | 2<<7 | 3<<9
	return four&(1<<(3+2*n)-1) | uint64(n)
}

// hasTwice tells whether the list is empty or names a broker twice.
func hasTwice(l *record.ShortList) bool {
	n, x := l.N, l.Lanes
	// Neighbours, then the first and the third, the second and the fourth, then the first and the last.
	y, z := x^x>>16, x^x>>32
	return n == 0 || n > 1 && uint16(y) == 0 || n > 2 && (uint16(y>>16) == 0 || uint16(z) == 0) ||
		n > 3 && (uint16(y>>32) == 0 || uint16(z>>16) == 0 || uint16(x^x>>48) == 0)
}

// shortTopic returns the topic of a record, nil if there is none.
func (d *Delta) shortTopic(p *record.ShortPartition) *topicEntry {
	var id UUID
	binary.LittleEndian.PutUint64(id[:8], p.Topic[0])
	binary.LittleEndian.PutUint64(id[8:], p.Topic[1])
	e, err := d.findTopic(id[:])
	if err != nil {
		return nil
	}
	return e
}

// indexUnusual notes of a new partition that some replicas are outside its ISR or in an ELR, both as masks of slots, or that
// another replica than the first leads it, or none.
func (d *Delta) indexUnusual(ordinal uint32, r *packed, leader int, outside, elr uint8) {
	for i := range maxSlots {
		if outside&(1<<i) != 0 {
			d.editIndex(r.replica(i)).outside.put(d.gen, ordinal, true)
		}
		if elr&(1<<i) != 0 {
			d.editIndex(r.replica(i)).elr.put(d.gen, ordinal, true)
		}
	}
	switch leader {
	case 0:
	case noSlot:
		d.indexes.leaderless.put(d.gen, ordinal, true)
	default:
		d.indexes.notPreferred.put(d.gen, ordinal, true)
	}
}

// packShort gives the bits of a record in its short form, the slot of its leader, below zero if the record cannot be taken
// like this, and masks of the slots that are not in the ISR, and that are in one of the ELRs.
func packShort(p *record.ShortPartition) (bits uint64, leader int, outside, elr uint8) {
	leader = noSlot
	if p.HasLeader {
		if leader = p.Replicas.Slot(p.Leader); leader < 0 {
			return 0, -1, 0, 0
		}
	}
	bits = bitPresent | uint64(p.Replicas.N)<<shiftReplicas | uint64(leader)<<shiftLeader
	recovering, err := isRecovering(metadatapb.LeaderRecoveryState(p.Recovery))
	if recovering {
		bits |= bitRecovering
	}
	isr, in, ok1 := packShortList(&p.Replicas, &p.ISR)
	now, mask1, ok2 := packShortList(&p.Replicas, &p.ELR)
	last, mask2, ok3 := packShortList(&p.Replicas, &p.LastKnownELR)
	if err != nil || !ok1 || !ok2 || !ok3 {
		return 0, -1, 0, 0
	}
	bits |= isr<<shiftISR | now<<shiftELR | last<<shiftLastELR
	return bits, leader, uint8(1<<p.Replicas.N-1) &^ in, mask1 | mask2
}

// packShortList is packList, with the slots as a mask as well, of a list that must not name a broker twice.
func packShortList(replicas, list *record.ShortList) (v uint64, mask uint8, ok bool) {
	if *list == *replicas {
		return allInOrder(list.N), 1<<list.N - 1, true
	}
	v = uint64(list.N)
	for i := range list.N {
		s := replicas.Slot(uint32(list.ID(i)))
		if s < 0 || mask&(1<<s) != 0 {
			return 0, 0, false
		}
		mask |= 1 << s
		v |= uint64(s) << (3 + 2*i)
	}
	return v, mask, true
}
