package record

import (
	"google.golang.org/protobuf/encoding/protowire"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// AppendPartition appends the bytes of a record that holds the partition: those of [Append], for a fraction of the time.
func AppendPartition(b []byte, p *metadatapb.Partition) []byte {
	b = protowire.AppendTag(b, fieldRecordPartition, protowire.BytesType)
	// A partition nearly always takes less than 128 bytes: leave room for a length of one byte.
	at := len(b)
	b = appendPartition(append(b, 0), p)
	size := len(b) - at - 1
	if size < 0x80 {
		b[at] = byte(size)
		return b
	}
	more := protowire.SizeVarint(uint64(size)) - 1
	b = append(b, make([]byte, more)...)
	copy(b[at+1+more:], b[at+1:at+1+size])
	protowire.AppendVarint(b[:at], uint64(size))
	return b
}

func appendPartition(b []byte, p *metadatapb.Partition) []byte {
	if len(p.TopicId) > 0 {
		b = protowire.AppendBytes(append(b, fieldTopicID<<3|2), p.TopicId)
	}
	b = appendInt32(b, fieldPartition, p.Partition)
	b = appendPackedField(b, 3, p.Replicas)
	b = appendPackedField(b, 4, p.Isr)
	if p.Leader != nil {
		b = protowire.AppendVarint(append(b, 5<<3), uint64(*p.Leader))
	}
	b = appendInt32(b, 6, p.LeaderEpoch)
	b = appendInt32(b, 7, p.PartitionEpoch)
	b = appendInt32(b, 8, int32(p.LeaderRecoveryState))
	b = appendPackedField(b, 9, p.Elr)
	b = appendPackedField(b, 10, p.LastKnownElr)
	b = appendPackedField(b, 11, p.AddingReplicas)
	b = appendPackedField(b, 12, p.RemovingReplicas)
	return appendPackedField(b, 13, p.OriginalReplicas)
}

func appendInt32(b []byte, num byte, v int32) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, num<<3), uint64(v))
}

func appendPackedField(b []byte, num byte, ids []int32) []byte {
	if len(ids) == 0 {
		return b
	}
	size := 0
	for _, id := range ids {
		size += protowire.SizeVarint(uint64(id))
	}
	b = protowire.AppendVarint(append(b, num<<3|2), uint64(size))
	for _, id := range ids {
		b = protowire.AppendVarint(b, uint64(id))
	}
	return b
}
