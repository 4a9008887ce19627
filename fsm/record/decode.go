package record

import (
	"errors"
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

var (
	// ErrUnknown tells of a kind or a field that this build does not know: it was written by a newer one.
	ErrUnknown = errors.New("record: unknown kind or field; this build is too old for the log")
	// ErrMalformed tells of bytes that are no message.
	ErrMalformed = errors.New("record: malformed")
)

// Command is a Raft command; one of both is set.
type Command struct {
	Claim *metadatapb.Claim
	Entry *RawEntry
}

// RawEntry is an entry whose records are not decoded yet. It must not be changed.
type RawEntry struct {
	EntryHeader
	// Bytes is the entry message as it stands in the log.
	Bytes []byte
	// Count is the number of records in all decisions.
	Count int
	// More tells that the last decision goes on in the next entry.
	More bool
}

// LastOffset returns the metadata offset of the last record, that before the first if there is none.
func (e *RawEntry) LastOffset() MetadataOffset { return e.BaseOffset + MetadataOffset(e.Count) - 1 }

// ChainAfter returns the chain after the entry: unchanged if it has no records.
func (e *RawEntry) ChainAfter() Chain {
	if e.Count == 0 {
		return e.Chain
	}
	return ChainAfter(e.Bytes)
}

// DecodeCommand takes a Raft command apart. The entry keeps a reference to data.
func DecodeCommand(data []byte) (Command, error) {
	var c Command
	err := eachField(data, func(num protowire.Number, f field) error {
		if c != (Command{}) {
			return fmt.Errorf("%w: a command with two contents", ErrMalformed)
		}
		var err error
		switch num {
		case fieldCommandClaim:
			c.Claim = new(metadatapb.Claim)
			err = f.message(c.Claim)
		case fieldCommandEntry:
			if err = f.need(protowire.BytesType); err == nil {
				c.Entry, err = ScanEntry(f.bytes)
			}
		default:
			err = fmt.Errorf("%w: field %d of a command", ErrUnknown, num)
		}
		return err
	})
	if err == nil && c == (Command{}) {
		err = fmt.Errorf("%w: an empty command", ErrMalformed)
	}
	return c, err
}

// ScanEntry reads the header of an entry and walks over its records without decoding them.
func ScanEntry(entry []byte) (*RawEntry, error) {
	e := &RawEntry{Bytes: entry}
	err := eachField(entry, func(num protowire.Number, f field) error {
		switch num {
		case fieldEntryClaimIndex:
			return f.uint64(&e.ClaimIndex)
		case fieldEntryTerm:
			return f.uint64(&e.Term)
		case fieldEntrySequence:
			return f.uint64(&e.Sequence)
		case fieldEntryBaseOffset:
			return f.int64((*int64)(&e.BaseOffset))
		case fieldEntryChain:
			e.Chain = Chain(f.value)
			return f.need(protowire.Fixed64Type)
		case fieldEntryTimeMs:
			return f.int64(&e.TimeMs)
		case fieldEntryDecisions:
			if err := f.need(protowire.BytesType); err != nil {
				return err
			}
			return e.scanDecision(f.bytes)
		}
		return fmt.Errorf("%w: field %d of an entry", ErrUnknown, num)
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *RawEntry) scanDecision(decision []byte) error {
	e.More = false
	return eachField(decision, func(num protowire.Number, f field) error {
		switch num {
		case fieldDecisionCause:
			return f.need(protowire.BytesType)
		case fieldDecisionMore:
			var v uint64
			err := f.uint64(&v)
			e.More = v != 0
			return err
		case fieldDecisionRecords:
			e.Count++
			return f.need(protowire.BytesType)
		}
		return fmt.Errorf("%w: field %d of a decision", ErrUnknown, num)
	})
}

// Records returns the encoded records with their positions in the entry.
func (e *RawEntry) Records() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		i := 0
		_ = eachField(e.Bytes, func(num protowire.Number, f field) error {
			if num != fieldEntryDecisions {
				return nil
			}
			return eachField(f.bytes, func(num protowire.Number, f field) error {
				if num != fieldDecisionRecords {
					return nil
				}
				if i++; !yield(i-1, f.bytes) {
					return errStop
				}
				return nil
			})
		})
	}
}

var errStop = errors.New("stop")

// DecodeEntry decodes an entry whole, records included.
func DecodeEntry(entry []byte) (*metadatapb.Entry, error) {
	if _, err := ScanEntry(entry); err != nil {
		return nil, err
	}
	e := new(metadatapb.Entry)
	if err := unmarshal(entry, e); err != nil {
		return nil, err
	}
	at := MetadataOffset(e.BaseOffset)
	for _, d := range e.Decisions {
		for _, r := range d.Records {
			if err := check(r); err != nil {
				return nil, fmt.Errorf("offset %d: %w", at, err)
			}
			at++
		}
	}
	return e, nil
}

// EachRecord calls fn for each encoded record of what [EncodeDecision] wrote, in order, until it fails. The cause is not looked at.
func EachRecord(decision []byte, fn func(raw []byte) error) error {
	return eachField(decision, func(num protowire.Number, f field) error {
		switch num {
		case fieldDecisionCause:
			return f.need(protowire.BytesType)
		case fieldDecisionMore:
			return f.need(protowire.VarintType)
		case fieldDecisionRecords:
			if err := f.need(protowire.BytesType); err != nil {
				return err
			}
			return fn(f.bytes)
		}
		return fmt.Errorf("%w: field %d of a decision", ErrUnknown, num)
	})
}

// Decode decodes one record.
func Decode(raw []byte) (*metadatapb.Record, error) {
	r := new(metadatapb.Record)
	if err := unmarshal(raw, r); err != nil {
		return nil, err
	}
	return r, check(r)
}

func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// check applies the policy for unknown content to a record.
func check(r *metadatapb.Record) error {
	if r.Kind == nil {
		num, _, n := protowire.ConsumeTag(r.ProtoReflect().GetUnknown())
		if n < 0 {
			return fmt.Errorf("%w: a record without a kind", ErrMalformed)
		}
		return fmt.Errorf("%w: a record of kind %d", ErrUnknown, num)
	}
	if u := r.ProtoReflect().GetUnknown(); len(u) == 0 && isFlat(r) {
		return nil
	}
	if num, in := unknownField(r.ProtoReflect()); num != 0 {
		return fmt.Errorf("%w: field %d of %s in a record %s", ErrUnknown, num, in, Kind(r))
	}
	return nil
}

// isFlat tells of the frequent kinds without messages inside that they have no unknown field.
func isFlat(r *metadatapb.Record) bool {
	switch k := r.Kind.(type) {
	case *metadatapb.Record_Topic:
		return len(k.Topic.ProtoReflect().GetUnknown()) == 0
	case *metadatapb.Record_Partition:
		return len(k.Partition.ProtoReflect().GetUnknown()) == 0
	case *metadatapb.Record_Config:
		return len(k.Config.ProtoReflect().GetUnknown()) == 0
	}
	return false
}

// unknownField returns the number of an unknown field anywhere in the message, and the name of the message that has it.
func unknownField(m protoreflect.Message) (num protowire.Number, in protoreflect.Name) {
	if u := m.GetUnknown(); len(u) > 0 {
		num, _, _ = protowire.ConsumeTag(u)
		return num, m.Descriptor().Name()
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() != protoreflect.MessageKind {
			return true
		}
		if !fd.IsList() {
			num, in = unknownField(v.Message())
			return num == 0
		}
		for i := range v.List().Len() {
			if num, in = unknownField(v.List().Get(i).Message()); num != 0 {
				return false
			}
		}
		return true
	})
	return num, in
}
