package image

import (
	"math"
	"slices"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// A page of the arena holds 32 partitions of 32 bytes.
const pageLen = 32

type partitionPage [pageLen]packed

// packed is a partition in 32 bytes without pointers. Lists other than the replicas are lists of positions in
// replicas, in their order. What does not fit (see pack) is kept whole in the spill table under the same ordinal.
type packed struct {
	lanes          uint64 // replicas of 16 bits each, the first one lowest
	topic          uint32 // ordinal of the topic
	partition      int32
	leaderEpoch    int32
	partitionEpoch int32
	bits           uint64
}

// Layout of packed.bits. A list is a 3-bit count and four 2-bit slots.
const (
	maxSlots = 4
	noSlot   = 7

	bitPresent    = 1 << 0
	bitSpilled    = 1 << 1
	bitRecovering = 1 << 2

	shiftReplicas = 3 // 3 bits
	shiftLeader   = 6 // 3 bits, noSlot for none
	shiftISR      = 9
	shiftELR      = 20
	shiftLastELR  = 31
)

// replica is the broker in a slot.
func (r *packed) replica(slot int) BrokerID { return BrokerID(uint16(r.lanes >> (16 * (slot & 3)))) }

func (r *packed) present() bool { return r.bits&bitPresent != 0 }
func (r *packed) spilled() bool { return r.bits&bitSpilled != 0 }

// pack tells whether p fits, and if so writes it, topic and number aside, to r.
func (r *packed) pack(p *Partition) bool {
	if len(p.Replicas) > maxSlots || len(p.AddingReplicas)+len(p.RemovingReplicas)+len(p.OriginalReplicas) > 0 {
		return false
	}
	bits := uint64(bitPresent) | uint64(len(p.Replicas))<<shiftReplicas
	lanes := uint64(0)
	for i, id := range p.Replicas {
		if id > math.MaxUint16 {
			return false
		}
		lanes |= uint64(uint16(id)) << (16 * i)
	}
	leader := noSlot
	if p.Leader != NoBroker {
		if leader = slot(p.Replicas, p.Leader); leader < 0 {
			return false
		}
	}
	bits |= uint64(leader) << shiftLeader
	isr, ok1 := packList(p.Replicas, p.ISR)
	elr, ok2 := packList(p.Replicas, p.ELR)
	last, ok3 := packList(p.Replicas, p.LastKnownELR)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	bits |= isr<<shiftISR | elr<<shiftELR | last<<shiftLastELR
	if p.Recovering {
		bits |= bitRecovering
	}
	r.lanes, r.bits = lanes, bits
	r.leaderEpoch, r.partitionEpoch = int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	return true
}

func packList(replicas, list []BrokerID) (uint64, bool) {
	if len(list) > maxSlots {
		return 0, false
	}
	v := uint64(len(list))
	for i, id := range list {
		s := slot(replicas, id)
		if s < 0 {
			return 0, false
		}
		v |= uint64(s) << (3 + 2*i)
	}
	return v, true
}

// packRecord packs a record whose state fits and is in order, and returns the slots that are in the ISR and in one of
// the ELRs as masks. It is the short way for nearly every record of a snapshot; what it does not take, and every error,
// goes the long way.
func (r *packed) packRecord(p *metadatapb.Partition) (isr, elr uint8, ok bool) {
	n := len(p.Replicas)
	if n == 0 || n > maxSlots || len(p.AddingReplicas)+len(p.RemovingReplicas)+len(p.OriginalReplicas) > 0 ||
		p.LeaderEpoch < 0 || p.PartitionEpoch < 0 {
		return 0, 0, false
	}
	r.lanes = 0
	for i, id := range p.Replicas {
		if uint32(id) > math.MaxUint16 || slices.Contains(p.Replicas[:i], id) {
			return 0, 0, false
		}
		r.lanes |= uint64(id) << (16 * i)
	}
	leader := noSlot
	if p.Leader != nil {
		if leader = slices.Index(p.Replicas, *p.Leader); leader < 0 {
			return 0, 0, false
		}
	}
	r.bits = bitPresent | uint64(n)<<shiftReplicas | uint64(leader)<<shiftLeader
	switch p.LeaderRecoveryState {
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING:
		r.bits |= bitRecovering
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_UNSPECIFIED,
		metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED:
	default:
		return 0, 0, false
	}
	isr, ok1 := r.packIDs(p.Replicas, p.Isr, shiftISR)
	elr, ok2 := r.packIDs(p.Replicas, p.Elr, shiftELR)
	last, ok3 := r.packIDs(p.Replicas, p.LastKnownElr, shiftLastELR)
	r.partition, r.leaderEpoch, r.partitionEpoch = p.Partition, p.LeaderEpoch, p.PartitionEpoch
	return isr, elr | last, ok1 && ok2 && ok3
}

func (r *packed) packIDs(replicas, list []int32, shift int) (mask uint8, ok bool) {
	if len(list) > maxSlots {
		return 0, false
	}
	v := uint64(len(list))
	for i, id := range list {
		s := slices.Index(replicas, id)
		if s < 0 || mask&(1<<s) != 0 {
			return 0, false
		}
		mask |= 1 << s
		v |= uint64(s) << (3 + 2*i)
	}
	r.bits |= v << shift
	return mask, true
}

func slot(replicas []BrokerID, id BrokerID) int {
	for i, r := range replicas {
		if r == id {
			return i
		}
	}
	return -1
}

// unpackRoom is the number of ids that an unpacked partition can need.
const unpackRoom = 4 * maxSlots

// unpack writes the partition, which is not a spilled one, to p; its lists are cut from room.
func (r *packed) unpack(p *Partition, room []BrokerID) {
	n := int(r.bits >> shiftReplicas & 7)
	room = room[:0]
	for i := range n {
		room = append(room, r.replica(i))
	}
	p.Replicas, room = room[:n:n], room[n:]
	p.ISR, room = r.unpackList(r.bits>>shiftISR, room)
	p.ELR, room = r.unpackList(r.bits>>shiftELR, room)
	p.LastKnownELR, _ = r.unpackList(r.bits>>shiftLastELR, room)
	p.AddingReplicas, p.RemovingReplicas, p.OriginalReplicas = nil, nil, nil
	p.Leader = NoBroker
	if s := r.bits >> shiftLeader & 7; s != noSlot {
		p.Leader = r.replica(int(s))
	}
	p.LeaderEpoch, p.PartitionEpoch = LeaderEpoch(r.leaderEpoch), PartitionEpoch(r.partitionEpoch)
	p.Recovering = r.bits&bitRecovering != 0
}

func (r *packed) unpackList(v uint64, room []BrokerID) (list, rest []BrokerID) {
	n := int(v & 7)
	if n == 0 {
		return nil, room
	}
	for i := range n {
		room = append(room, r.replica(int(v>>(3+2*i))))
	}
	return room[:n:n], room[n:]
}

// size returns the number of ids in all lists.
func (r *packed) size() int {
	return int(r.bits>>shiftReplicas&7 + r.bits>>shiftISR&7 + r.bits>>shiftELR&7 + r.bits>>shiftLastELR&7)
}
