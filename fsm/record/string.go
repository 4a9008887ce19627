package record

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Kind returns the name of the record's kind, as in PartitionChange, or Unknown.
func Kind(r *metadatapb.Record) string {
	m := r.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if fd == nil {
		return "Unknown"
	}
	return string(fd.Message().Name())
}

// String returns one canonical line: the kind, then each field in the order of the message. Absent fields and empty
// lists are left out, numbers never; UUIDs are in Kafka's form, enum values without their prefix.
func String(r *metadatapb.Record) string {
	m := r.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if fd == nil {
		return "Unknown"
	}
	b := append(make([]byte, 0, 160), fd.Message().Name()...)
	return string(appendMessage(b, m.Get(fd).Message()))
}

func appendMessage(b []byte, m protoreflect.Message) []byte {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) && (fd.HasPresence() || fd.IsList() || !isNumber(fd.Kind())) {
			continue
		}
		b = append(append(append(b, ' '), fd.Name()...), '=')
		if !fd.IsList() {
			b = appendValue(b, fd, m.Get(fd))
			continue
		}
		b = append(b, '[')
		for j := range m.Get(fd).List().Len() {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, fd, m.Get(fd).List().Get(j))
		}
		b = append(b, ']')
	}
	return b
}

func isNumber(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return true
	}
	return false
}

func appendValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		if ids, ok := v.Message().Interface().(*metadatapb.BrokerIds); ok {
			return AppendIDs(b, ids.Ids)
		}
		if l, ok := v.Message().Interface().(*metadatapb.LeaderChange); ok {
			if l.Leader == nil {
				return append(b, "none"...)
			}
			return strconv.AppendInt(b, int64(*l.Leader), 10)
		}
		inner := appendMessage(nil, v.Message())
		return append(append(append(b, '{'), strings.TrimPrefix(string(inner), " ")...), '}')
	case protoreflect.BytesKind:
		if len(v.Bytes()) == 16 {
			return base64.RawURLEncoding.AppendEncode(b, v.Bytes())
		}
		return strconv.AppendQuote(b, string(v.Bytes()))
	case protoreflect.StringKind:
		return strconv.AppendQuote(b, v.String())
	case protoreflect.EnumKind:
		return append(b, enumName(fd.Enum(), v.Enum())...)
	}
	return append(b, v.String()...)
}

// AppendIDs appends a list of broker ids as [1,2,3].
func AppendIDs[ID ~int32](b []byte, ids []ID) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

// enumName returns LAG for CHANGE_REASON_LAG: the prefix is that of the zero value, which ends in UNSPECIFIED.
func enumName(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	vd := d.Values().ByNumber(n)
	if vd == nil {
		return strconv.Itoa(int(n))
	}
	prefix := strings.TrimSuffix(string(d.Values().Get(0).Name()), "UNSPECIFIED")
	return strings.TrimPrefix(string(vd.Name()), prefix)
}
