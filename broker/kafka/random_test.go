package kafka_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// scramble gives every field of a request a value that a hostile or confused client might send: often one that means
// something here.
func scramble(rng *rand.Rand, r *rig, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				scramble(rng, r, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := batch(-1, -1, -1, "v")
			if rng.IntN(2) == 0 {
				b = b[:rng.IntN(len(b))]
			}
			v.SetBytes(b)
			return
		}
		n := rng.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			scramble(rng, r, v.Index(i))
		}
	case reflect.Array:
		id := r.id([]string{"here", "there", "unknown"}[rng.IntN(3)])
		v.Set(reflect.ValueOf(id))
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			scramble(rng, r, v.Elem())
		}
	case reflect.String:
		v.SetString([]string{"here", "there", "lost", "unknown", "", "1", "a b", "retention.ms"}[rng.IntN(8)])
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{-2, -1, 0, 1, 2, 4, rng.Int64(), -rng.Int64()}[rng.IntN(8)])
	}
}

// Requests of every served key and version with scrambled contents are answered in a form that decodes, or close
// their connection; nothing else happens to anybody.
func TestScrambledRequests(t *testing.T) {
	r := cluster(t)
	rng := rand.New(rand.NewPCG(5, 6))
	w := r.dial()
	answered, closed := 0, 0
	for _, key := range []int16{0, 1, 2, 3, 18, 19, 20, 22, 23, 32, 60} {
		for _, version := range allVersions(key) {
			for range 12 {
				req := kmsg.RequestForKey(key)
				scramble(rng, r, reflect.ValueOf(req).Elem())
				req.SetVersion(version)
				switch q := req.(type) {
				case *kmsg.FetchRequest:
					q.MaxWaitMillis = rng.Int32N(2)
				case *kmsg.ProduceRequest:
					if q.TimeoutMillis = rng.Int32N(2); q.Acks == 0 {
						q.Acks = 1
					}
				}
				w.send(req)
				id, body, err := w.receive()
				var ne net.Error
				switch {
				case err == nil && id == w.next:
					decodeAnswer(t, req, body)
					answered++
				case errors.As(err, &ne) && ne.Timeout():
					t.Fatalf("%T v%d was not answered: %+v", req, version, req)
				case err != nil:
					closed++
					w = r.dial()
				default:
					t.Fatalf("answer to %d instead of %d", id, w.next)
				}
			}
		}
	}
	if answered < 10*closed || answered == 0 {
		t.Errorf("%d requests were answered, %d closed their connection", answered, closed)
	}
}

// Random bytes on many connections at once leave the listener serving.
func TestRandomBytes(t *testing.T) {
	r := start(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		w := r.dial()
		b := make([]byte, 1+rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // let it look like a frame
			b = append([]byte{0, 0, byte(len(b) >> 8), byte(len(b)), 0, byte(rng.IntN(70)), 0, byte(rng.IntN(14))}, b...)
		}
		w.nc.SetDeadline(time.Now().Add(10 * time.Second))
		w.nc.Write(b)
		w.nc.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, w.nc); err != nil {
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				t.Fatalf("a connection hangs after %x", b)
			}
		}
		w.nc.Close()
	}
	do[*kmsg.ApiVersionsResponse](r.dial(), at(kmsg.NewPtrApiVersionsRequest(), 0))
}
