package main

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object whose keys keep their order.
type object []field

// field is a key with its value: string, bool, int, int32, int64, uint64, object, list, []int32, or nil.
type field struct {
	key   string
	value any
}

// list is a JSON array. It is written as [] when it is empty.
type list []any

// print writes one document and a newline.
func (a *app) print(o object) {
	fmt.Fprintf(a.stdout, "%s\n", appendJSON(nil, o))
}

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case []int32:
		return appendList(b, v)
	case list:
		return appendList(b, v)
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.key), ':')
			b = appendJSON(b, f.value)
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("json: no form for %T", v))
}

func appendList[T any](b []byte, items []T) []byte {
	b = append(b, '[')
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, item)
	}
	return append(b, ']')
}

const hexDigits = "0123456789abcdef"

// appendString quotes s; what is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < 0x20 || r == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[s[i]>>4], hexDigits[s[i]&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
