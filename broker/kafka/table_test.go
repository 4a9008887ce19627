package kafka

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill gives every field of a message a random value.
func fill(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(rng, v.Field(i))
			}
		}
	case reflect.Slice:
		n := rng.IntN(4)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = rng.IntN(40)
		}
		if n == 0 && rng.IntN(2) == 0 {
			return // null
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem())
		}
	case reflect.String:
		v.SetString(strings.Repeat("topic-ä", rng.IntN(4)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(rng.Int64() >> rng.IntN(64))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(rng.Int64()))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	}
}

// randomRequest is a request of a served key and version with random content.
func randomRequest(rng *rand.Rand, e *entry, version int16) kmsg.Request {
	req := e.newRequest()
	fill(rng, reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

// Every version of every served key, request and response, keeps random values on its way through frames.
func TestTableRoundTrips(t *testing.T) {
	table := newTable()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range table.entries {
		e := &table.entries[i]
		for version := e.min; version <= e.max; version++ {
			for range 20 {
				req := randomRequest(rng, e, version)
				raw := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 7)[4:]
				h, err := parseFixed(raw)
				if err != nil || h.key != e.key || h.version != version || h.correlationID != 7 {
					t.Fatalf("%s v%d: header %+v, %v", e.name, version, h, err)
				}
				again := e.newRequest()
				again.SetVersion(version)
				body, err := h.parseRest(raw, again.IsFlexible())
				if err == nil {
					err = decode(again, body)
				}
				if err != nil || h.clientID != "me" || !bytes.Equal(again.AppendTo(nil), req.AppendTo(nil)) {
					t.Fatalf("%s v%d: request changed on its way, client %q, %v", e.name, version, h.clientID, err)
				}

				resp := req.ResponseKind()
				fill(rng, reflect.ValueOf(resp).Elem())
				resp.SetVersion(version)
				out := appendResponse([]byte("before"), 9, resp)[6:]
				r := kbin.Reader{Src: out}
				if size := r.Int32(); int(size) != len(out)-4 {
					t.Fatalf("%s v%d: size %d of %d", e.name, version, size, len(out))
				}
				if id := r.Int32(); id != 9 {
					t.Fatalf("%s v%d: correlation id %d", e.name, version, id)
				}
				if resp.IsFlexible() && e.key != int16(kmsg.ApiVersions) {
					if tags := r.Uvarint(); tags != 0 {
						t.Fatalf("%s v%d: %d tags in the header of an answer", e.name, version, tags)
					}
				}
				back := req.ResponseKind()
				if err := back.ReadFrom(r.Src); err != nil || !bytes.Equal(back.AppendTo(nil), resp.AppendTo(nil)) {
					t.Fatalf("%s v%d: response changed on its way, %v", e.name, version, err)
				}
			}
		}
	}
}

// The table holds what it should: versions that the decoder knows, names, sorted keys, one handler each.
func TestTableIsSound(t *testing.T) {
	table := newTable()
	last := int16(-1)
	for i := range table.entries {
		e := &table.entries[i]
		if e.key <= last {
			t.Errorf("%s: key %d does not follow %d", e.name, e.key, last)
		}
		last = e.key
		if e.handle == nil || e.name == "" || table.find(e.key) != e {
			t.Errorf("key %d: incomplete entry %+v", e.key, e)
		}
		if e.min > e.max || e.max > e.newRequest().MaxVersion() || e.advertisedMin > e.min {
			t.Errorf("%s: versions %d..%d advertised from %d, decoder knows 0..%d", e.name, e.min, e.max, e.advertisedMin, e.newRequest().MaxVersion())
		}
		if e.advertisedMin != e.min && e.key != int16(kmsg.Produce) {
			t.Errorf("%s: advertised from %d, served from %d; only Produce may differ", e.name, e.advertisedMin, e.min)
		}
	}
	for _, key := range []int16{-1, -32768, 4, 127, 128, 999, 32767} {
		if table.find(key) != nil {
			t.Errorf("key %d is served", key)
		}
	}
}

// Whatever bytes come as a frame, decoding them ends with a request or an error.
func FuzzFrame(f *testing.F) {
	table := newTable()
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range table.entries {
		e := &table.entries[i]
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, randomRequest(rng, e, e.max), 1)[4:])
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, randomRequest(rng, e, e.min), 1)[4:])
	}
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte{0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFixed(b)
		if err != nil {
			return
		}
		e := table.find(h.key)
		if e == nil || h.version < e.min || h.version > e.max {
			return
		}
		req := e.newRequest()
		req.SetVersion(h.version)
		body, err := h.parseRest(b, req.IsFlexible())
		if err == nil && decode(req, body) == nil {
			req.AppendTo(nil)
		}
	})
}

// A Produce that announces more than it holds is refused before the decoder allocates for it.
func TestProduceCounts(t *testing.T) {
	for _, version := range []int16{3, 9, 13} {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		t1 := kmsg.NewProduceRequestTopic()
		t1.Partitions = make([]kmsg.ProduceRequestTopicPartition, produceItemsMax-1)
		req.Topics = append(req.Topics, t1)
		if err := checkProduceCounts(req.AppendTo(nil), version); err != nil {
			t.Errorf("v%d: %d items: %v", version, produceItemsMax, err)
		}
		req.Topics[0].Partitions = make([]kmsg.ProduceRequestTopicPartition, produceItemsMax)
		if err := checkProduceCounts(req.AppendTo(nil), version); err == nil {
			t.Errorf("v%d: %d items were accepted", version, produceItemsMax+1)
		}
		b := req.AppendTo(nil)
		if err := checkProduceCounts(b[:len(b)/2], version); err == nil {
			t.Errorf("v%d: a cut request was accepted", version)
		}
	}
}
