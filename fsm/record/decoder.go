package record

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Field numbers of the three kinds that make up nearly all of a log and of a snapshot.
const (
	fieldRecordTopic           = 5
	fieldRecordPartition       = 6
	fieldRecordPartitionChange = 7

	fieldTopicID   = 1
	fieldPartition = 2
	fieldReplicas  = 3
	fieldISR       = 4
	fieldLeader    = 5
)

// Decoder decodes records one after the other. Topic, Partition and PartitionChange are taken apart by hand into memory that
// is used again; everything else goes through the generated code. Both ways accept and refuse the same bytes.
type Decoder struct {
	rec       metadatapb.Record
	partition metadatapb.Partition
	change    metadatapb.PartitionChange
	topic     metadatapb.Topic
	// Wrappers of the three, and room for the messages and pointers inside them.
	asPartition metadatapb.Record_Partition
	asChange    metadatapb.Record_PartitionChange
	asTopic     metadatapb.Record_Topic
	leaderID    int32
	leader      metadatapb.LeaderChange
	recovery    metadatapb.LeaderRecoveryState
	lists       [7]metadatapb.BrokerIds
}

// Decode decodes one record. The result is valid until the next call, and may refer to raw.
func (d *Decoder) Decode(raw []byte) (*metadatapb.Record, error) {
	if len(raw) == 0 {
		return Decode(raw)
	}
	tag, _, body, rest := shortField(raw)
	if rest == nil || len(rest) > 0 {
		return Decode(raw)
	}
	switch tag {
	case fieldRecordPartition<<3 | 2:
		if !d.decodePartition(body) {
			return Decode(raw) // for the error, or the unusual form
		}
		d.asPartition.Partition = &d.partition
		d.rec.Kind = &d.asPartition
		return &d.rec, nil
	case fieldRecordPartitionChange<<3 | 2:
		if !d.decodeChange(body) {
			return Decode(raw)
		}
		d.asChange.PartitionChange = &d.change
		d.rec.Kind = &d.asChange
		return &d.rec, nil
	case fieldRecordTopic<<3 | 2:
		if !d.decodeTopic(body) {
			return Decode(raw)
		}
		d.asTopic.Topic = &d.topic
		d.rec.Kind = &d.asTopic
		return &d.rec, nil
	}
	return Decode(raw)
}

// decodeTopic tells whether b was the usual form.
func (d *Decoder) decodeTopic(b []byte) bool {
	d.topic.Name, d.topic.TopicId = "", nil
	for len(b) > 0 {
		tag, _, bytes, rest := shortField(b)
		if rest == nil {
			return false
		}
		b = rest
		switch tag {
		case 1<<3 | 2:
			if !utf8.Valid(bytes) {
				return false
			}
			d.topic.Name = string(bytes)
		case 2<<3 | 2:
			d.topic.TopicId = bytes
		default:
			return false
		}
	}
	return true
}

// DecodeAt is Decode with an error that names the record's metadata offset.
func (d *Decoder) DecodeAt(offset MetadataOffset, raw []byte) (*metadatapb.Record, error) {
	r, err := d.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("offset %d: %w", offset, err)
	}
	return r, nil
}

// decodePartition tells whether b was the usual form: known fields with their usual wire types.
func (d *Decoder) decodePartition(b []byte) bool {
	p := &d.partition
	p.TopicId, p.Partition, p.Leader, p.LeaderEpoch, p.PartitionEpoch = nil, 0, nil, 0, 0
	p.LeaderRecoveryState = 0
	p.Replicas, p.Isr, p.Elr, p.LastKnownElr = p.Replicas[:0], p.Isr[:0], p.Elr[:0], p.LastKnownElr[:0]
	p.AddingReplicas, p.RemovingReplicas, p.OriginalReplicas = p.AddingReplicas[:0], p.RemovingReplicas[:0], p.OriginalReplicas[:0]
	for i := 0; i < len(b); {
		tag, value, n := shortTag(b[i:])
		if n == 0 {
			return false
		}
		i += n
		if tag&7 == 0 {
			if !d.partitionNumber(tag>>3, value) {
				return false
			}
			continue
		}
		if value > uint64(len(b)-i) || tag&7 != 2 {
			return false
		}
		bytes := b[i : i+int(value)]
		i += int(value)
		if tag>>3 == fieldTopicID {
			p.TopicId = bytes
			continue
		}
		list := partitionList(p, tag>>3)
		if list == nil {
			return false
		}
		var ok bool
		if *list, ok = appendPacked(*list, bytes); !ok {
			return false
		}
	}
	return true
}

func (d *Decoder) partitionNumber(num, value uint64) bool {
	p := &d.partition
	switch num {
	case fieldPartition:
		p.Partition = int32(value)
	case 5:
		d.leaderID = int32(value)
		p.Leader = &d.leaderID
	case 6:
		p.LeaderEpoch = int32(value)
	case 7:
		p.PartitionEpoch = int32(value)
	case 8:
		p.LeaderRecoveryState = metadatapb.LeaderRecoveryState(int32(value))
	default:
		return false
	}
	return true
}

func partitionList(p *metadatapb.Partition, num uint64) *[]int32 {
	switch num {
	case 3:
		return &p.Replicas
	case 4:
		return &p.Isr
	case 9:
		return &p.Elr
	case 10:
		return &p.LastKnownElr
	case 11:
		return &p.AddingReplicas
	case 12:
		return &p.RemovingReplicas
	case 13:
		return &p.OriginalReplicas
	}
	return nil
}

// changeList returns the place of a list of brokers by its field number.
func (d *Decoder) changeList(num uint64) (**metadatapb.BrokerIds, int) {
	c := &d.change
	switch num {
	case 4:
		return &c.Isr, 0
	case 5:
		return &c.Elr, 1
	case 6:
		return &c.LastKnownElr, 2
	case 8:
		return &c.Replicas, 3
	case 9:
		return &c.AddingReplicas, 4
	case 10:
		return &c.RemovingReplicas, 5
	case 11:
		return &c.OriginalReplicas, 6
	}
	return nil, 0
}

func (d *Decoder) decodeChange(b []byte) bool {
	c := &d.change
	c.TopicId, c.Partition, c.Leader, c.LeaderRecoveryState, c.Reason = nil, 0, nil, nil, 0
	c.Isr, c.Elr, c.LastKnownElr, c.Replicas = nil, nil, nil, nil
	c.AddingReplicas, c.RemovingReplicas, c.OriginalReplicas = nil, nil, nil
	for len(b) > 0 {
		num, v, bytes, rest := shortField(b)
		if rest == nil {
			return false
		}
		b = rest
		switch num {
		case fieldTopicID<<3 | 2:
			c.TopicId = bytes
		case fieldPartition << 3:
			c.Partition = int32(v)
		case 3<<3 | 2:
			if c.Leader != nil || !d.decodeLeader(bytes) {
				return false
			}
			c.Leader = &d.leader
		case 7 << 3:
			d.recovery = metadatapb.LeaderRecoveryState(int32(v))
			c.LeaderRecoveryState = &d.recovery
		case 12 << 3:
			c.Reason = metadatapb.ChangeReason(int32(v))
		default:
			list, i := d.changeList(num >> 3)
			if list == nil || num&7 != 2 || *list != nil || !decodeIDs(&d.lists[i], bytes) {
				return false
			}
			*list = &d.lists[i]
		}
	}
	return true
}

func (d *Decoder) decodeLeader(b []byte) bool {
	d.leader.Leader = nil
	if len(b) == 0 {
		return true
	}
	num, v, _, rest := shortField(b)
	if num != 1<<3 || rest == nil || len(rest) > 0 {
		return false
	}
	d.leaderID = int32(v)
	d.leader.Leader = &d.leaderID
	return true
}

// decodeIDs reads a BrokerIds message: nothing, or one packed list.
func decodeIDs(to *metadatapb.BrokerIds, b []byte) bool {
	to.Ids = to.Ids[:0]
	if len(b) == 0 {
		return true
	}
	num, _, bytes, rest := shortField(b)
	if num != 1<<3|2 || rest == nil || len(rest) > 0 {
		return false
	}
	var ok bool
	to.Ids, ok = appendPacked(to.Ids, bytes)
	return ok
}

// shortTag reads a tag of one byte and the number after it: the value of a varint field, the length of a bytes field.
// n is 0 if b does not begin like that.
func shortTag(b []byte) (tag, value uint64, n int) {
	if len(b) < 2 || b[0] >= 0x80 || b[0] < 8 {
		return 0, 0, 0
	}
	if b[1] < 0x80 {
		return uint64(b[0]), uint64(b[1]), 2
	}
	return longTag(b)
}

func longTag(b []byte) (tag, value uint64, n int) {
	value, n = protowire.ConsumeVarint(b[1:])
	if n < 0 {
		return 0, 0, 0
	}
	return uint64(b[0]), value, 1 + n
}

// shortField reads a field whose tag is one byte and whose type is varint or bytes. rest is nil if it is not such a
// field or is cut short, and not nil, if perhaps empty, otherwise.
func shortField(b []byte) (tag, value uint64, bytes, rest []byte) {
	tag, value, n := shortTag(b)
	if n == 0 {
		return 0, 0, nil, nil
	}
	b = b[n:]
	switch tag & 7 {
	case 0:
		return tag, value, nil, b
	case 2:
		if value <= uint64(len(b)) {
			return tag, 0, b[:value:value], b[value:]
		}
	}
	return 0, 0, nil, nil
}

// appendPacked appends the numbers of a packed list.
func appendPacked(to []int32, b []byte) ([]int32, bool) {
	if cap(to)-len(to) < len(b) {
		to = slices.Grow(to, len(b))
	}
	short := to[len(to) : len(to)+len(b)]
	for i, c := range b {
		if c >= 0x80 {
			return appendLong(to, b)
		}
		short[i] = int32(c)
	}
	return to[:len(to)+len(b)], true
}

func appendLong(to []int32, b []byte) ([]int32, bool) {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return to, false
		}
		to = append(to, int32(v))
		b = b[n:]
	}
	return to, true
}
