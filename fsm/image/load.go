package image

import (
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// loadPartition is addPartition of an encoded record of a snapshot, without a message in between; it tells whether the record was
// one that can be taken like that. A snapshot is partitions and little else, and a controller serves nobody while it
// loads one. Everything unusual, and every error, goes the long way, so both ways must take the same bytes for the same state.
func (d *Delta) loadPartition(raw []byte) bool {
	p := &d.short
	if !p.Scan(raw) {
		return false
	}
	e := d.lastTopic
	if e == nil || e.id != UUID(p.TopicID) {
		found, err := d.findTopic(p.TopicID[:])
		if err != nil {
			return false
		}
		e = found
	}
	if p.Partition != e.count {
		return false
	}
	var rec packed
	leader, isr, elr, ok := rec.packShort(p)
	if !ok {
		return false
	}
	e, ordinal := d.growTopic(e)
	rec.topic = e.ordinal
	*d.editPacked(ordinal) = rec
	d.partitionCount++
	if d.hashedTopic != e {
		d.hashedTopic, d.topicHash = e, hash(kindPartition).uuid(e.id)
	}
	d.sum += d.topicHash.packed(&rec)
	for i := range p.Replicas.N {
		c := d.indexReplica(BrokerID(rec.replicas[i]), ordinal)
		if isr&(1<<i) == 0 {
			c.outside.put(d.gen, ordinal, true)
		}
		if elr&(1<<i) != 0 {
			c.elr.put(d.gen, ordinal, true)
		}
		if i == leader {
			c.leaders++
		}
	}
	switch leader {
	case 0:
	case noSlot:
		d.indexes.leaderless.put(d.gen, ordinal, true)
	default:
		d.indexes.notPreferred.put(d.gen, ordinal, true)
	}
	return true
}

// packShort is packRecord for the short form; leader is the leader's slot.
func (r *packed) packShort(p *record.ShortPartition) (leader int, isr, elr uint8, ok bool) {
	n := p.Replicas.N
	for i := 0; i < maxSlots; i++ {
		r.replicas[i] = p.Replicas.ID(i)
	}
	ids := &r.replicas
	if n == 0 || n > 1 && ids[0] == ids[1] || n > 2 && (ids[0] == ids[2] || ids[1] == ids[2]) ||
		n > 3 && (ids[0] == ids[3] || ids[1] == ids[3] || ids[2] == ids[3]) {
		return 0, 0, 0, false
	}
	leader = noSlot
	if p.HasLeader {
		if leader = shortSlot(&p.Replicas, p.Leader); leader < 0 {
			return 0, 0, 0, false
		}
	}
	r.bits = bitPresent | uint64(n)<<shiftReplicas | uint64(leader)<<shiftLeader
	switch metadatapb.LeaderRecoveryState(p.Recovery) {
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING:
		r.bits |= bitRecovering
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_UNSPECIFIED,
		metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED:
	default:
		return 0, 0, 0, false
	}
	isr, ok = r.packShortList(&p.Replicas, &p.ISR, shiftISR)
	if ok && p.ELR.N+p.LastKnownELR.N > 0 {
		var last uint8
		var ok2 bool
		elr, ok = r.packShortList(&p.Replicas, &p.ELR, shiftELR)
		last, ok2 = r.packShortList(&p.Replicas, &p.LastKnownELR, shiftLastELR)
		elr, ok = elr|last, ok && ok2
	}
	r.partition, r.leaderEpoch, r.partitionEpoch = p.Partition, p.LeaderEpoch, p.PartitionEpoch
	return leader, isr, elr, ok
}

// inOrder is a list of all slots in their order, count aside.
const inOrder = 0<<3 | 1<<5 | 2<<7 | 3<<9

func (r *packed) packShortList(replicas, list *record.ShortList, shift int) (mask uint8, ok bool) {
	if *list == *replicas {
		v := uint64(inOrder)&(1<<(3+2*list.N)-1) | uint64(list.N)
		r.bits |= v << shift
		return 1<<list.N - 1, true
	}
	v := uint64(list.N)
	for i := range list.N {
		s := shortSlot(replicas, uint32(list.ID(i)))
		if s < 0 || mask&(1<<s) != 0 {
			return 0, false
		}
		mask |= 1 << s
		v |= uint64(s) << (3 + 2*i)
	}
	r.bits |= v << shift
	return mask, true
}

func shortSlot(replicas *record.ShortList, id uint32) int {
	for i := range replicas.N {
		if uint32(replicas.ID(i)) == id {
			return i
		}
	}
	return -1
}
