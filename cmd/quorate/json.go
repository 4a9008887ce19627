package main

import (
	"fmt"
	"strconv"

	"github.com/quorate/quorate/fsm/image"
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
		return image.AppendJSONString(b, v)
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
			b = append(image.AppendJSONString(b, f.key), ':')
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
