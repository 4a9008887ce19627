package record

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// field is the value of one field: value for numbers, bytes for what has a length.
type field struct {
	typ   protowire.Type
	value uint64
	bytes []byte
}

// eachField calls fn for each field of a message until it fails.
func eachField(b []byte, fn func(protowire.Number, field) error) error {
	for len(b) > 0 {
		num, f, n := consumeField(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		if err := fn(num, f); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// consumeField returns the first field and its length, negative if it is malformed.
func consumeField(b []byte) (protowire.Number, field, int) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, field{}, n
	}
	f := field{typ: typ}
	var m int
	switch typ {
	case protowire.VarintType:
		f.value, m = protowire.ConsumeVarint(b[n:])
	case protowire.Fixed64Type:
		f.value, m = protowire.ConsumeFixed64(b[n:])
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(b[n:])
	default:
		m = protowire.ConsumeFieldValue(num, typ, b[n:])
	}
	if m < 0 {
		return 0, f, m
	}
	return num, f, n + m
}

func (f field) need(t protowire.Type) error {
	if f.typ != t {
		return fmt.Errorf("%w: wire type %d instead of %d", ErrMalformed, f.typ, t)
	}
	return nil
}

func (f field) uint64(to *uint64) error {
	*to = f.value
	return f.need(protowire.VarintType)
}

func (f field) int64(to *int64) error {
	*to = int64(f.value)
	return f.need(protowire.VarintType)
}

func (f field) message(m proto.Message) error {
	if err := f.need(protowire.BytesType); err != nil {
		return err
	}
	if err := unmarshal(f.bytes, m); err != nil {
		return err
	}
	if num, in := unknownField(m.ProtoReflect()); num != 0 {
		return fmt.Errorf("%w: field %d of %s", ErrUnknown, num, in)
	}
	return nil
}
