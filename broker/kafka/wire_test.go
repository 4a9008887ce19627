package kafka_test

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/kafka/kafkatest"
)

// The surface as it is advertised, word for word: clients take it at its word.
func TestApiVersionsAdvertisesTheTable(t *testing.T) {
	w := start(t).dial()
	want := "0:0-13 1:4-18 2:1-10 3:0-13 18:0-4 19:2-7 20:1-6 22:0-5 23:2-4 32:1-4 " +
		"33:0-2 37:0-3 43:0-2 44:0-1 45:0-1 46:0-0 55:0-2 57:0-2 60:0-2 64:0-0 75:0-0"
	for version := range int16(5) {
		req := at(kmsg.NewPtrApiVersionsRequest(), version)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "kafka-test", "1.0"
		resp := do[*kmsg.ApiVersionsResponse](w, req)
		var got []string
		for _, k := range resp.ApiKeys {
			got = append(got, itoa(k.ApiKey)+":"+itoa(k.MinVersion)+"-"+itoa(k.MaxVersion))
		}
		if resp.ErrorCode != 0 || strings.Join(got, " ") != want {
			t.Errorf("v%d: code %d\n%s, want\n%s", version, resp.ErrorCode, strings.Join(got, " "), want)
		}
	}
}

func itoa(n int16) string { return strconv.Itoa(int(n)) }

// A version of ApiVersions that is not served gets error 35 in the form of version 0, whatever follows the fixed
// header, and the connection goes on.
func TestApiVersionsTooNew(t *testing.T) {
	w := start(t).dial()
	for _, version := range []int16{5, 6, 99, 32767, -1} {
		body := []byte{0, 18, 0, 0, 0, 0, 0, 77, 0xff, 0xfe, 0xfd}
		binary.BigEndian.PutUint16(body[2:], uint16(version))
		w.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		id, raw, err := w.receive()
		if err != nil || id != 77 {
			t.Fatalf("v%d: id %d, %v", version, id, err)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(raw); err != nil || len(resp.AppendTo(nil)) != len(raw) {
			t.Fatalf("v%d: not in the form of version 0: %x, %v", version, raw, err)
		}
		if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	if resp := do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0)); resp.ErrorCode != 0 {
		t.Errorf("the connection is not usable afterwards: %+v", resp)
	}
}

func TestApiVersionsChecksTheClientsName(t *testing.T) {
	w := start(t).dial()
	for name, want := range map[string]int16{"apache-kafka-java": 0, "a": 0, "": 42, "-a": 42, "a b": 42, "a.": 42} {
		req := at(kmsg.NewPtrApiVersionsRequest(), 3)
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, "4.1.0"
		if resp := do[*kmsg.ApiVersionsResponse](w, req); resp.ErrorCode != want {
			t.Errorf("%q: code %d, want %d", name, resp.ErrorCode, want)
		}
	}
}

// What is not a request of ours costs its connection, is counted, and costs nobody else anything.
func TestGarbageClosesItsConnectionOnly(t *testing.T) {
	r := start(t)
	bystander := r.dial()
	sized := func(n uint32, b ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), b...) }
	head := func(key, version int16, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(append(b, 0, 0, 0, 1), rest...)
		return sized(uint32(len(b)), b...)
	}
	for _, c := range []struct {
		name   string
		bytes  []byte
		reason string
	}{
		{"TLS hello", []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}, "another protocol"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), "another protocol"},
		{"HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "another protocol"},
		{"negative size", sized(0xffffffff), "size out of bounds"},
		{"absurd size", sized(0x7fffffff), "size out of bounds"},
		{"size over the limit", sized(100<<20 + 1), "size out of bounds"},
		{"size of nothing", sized(0), "size out of bounds"},
		{"size below a header", sized(7, 0, 0, 0, 0, 0, 0, 0), "size out of bounds"},
		{"unknown key", head(999, 0, 0xff, 0xff), "unknown key"},
		{"negative key", head(-3, 0, 0xff, 0xff), "unknown key"},
		{"key not served", head(10, 0, 0xff, 0xff), "unknown key"},
		{"version too high", head(3, 99, 0xff, 0xff), "version not served"},
		{"version too low", head(0, 2, 0xff, 0xff), "version not served"},
		{"negative version", head(3, -1, 0xff, 0xff), "version not served"},
		{"cut header", head(3, 1), "malformed request"},
		{"client id longer than the frame", head(3, 1, 0x7f, 0xff), "malformed request"},
		{"cut body", head(3, 1, 0xff, 0xff, 0, 0), "malformed request"},
		{"endless tags", head(3, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f), "malformed request"},
	} {
		before := r.closes(c.reason)
		w := r.dial()
		w.nc.Write(c.bytes)
		if !w.isClosed() {
			t.Errorf("%s: the connection was not closed", c.name)
		}
		waitFor(t, func() bool { return r.closes(c.reason) == before+1 })
	}
	if resp := do[*kmsg.ApiVersionsResponse](bystander, at(kmsg.NewPtrApiVersionsRequest(), 0)); resp.ErrorCode != 0 {
		t.Error("another connection suffered")
	}
}

// A request other than Produce may not be as large as a Produce.
func TestControlRequestsAreSmaller(t *testing.T) {
	r := start(t, func(c *kafka.Config) { c.ControlBytesMax = 4096 })
	r.b.CreateTopic("t", 1, 1)
	w := r.dial()
	resp := do[*kmsg.ProduceResponse](w, produceTo(9, 1, "t", 0, batch(-1, -1, -1, strings.Repeat("x", 100_000))))
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("a large Produce: code %d", code)
	}
	req := at(kmsg.NewPtrListOffsetsRequest(), 4)
	for range 200 {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = strings.Repeat("x", 30)
		req.Topics = append(req.Topics, topic)
	}
	w.send(req)
	if !w.isClosed() {
		t.Error("a large ListOffsets was taken")
	}
}

// A request in many small pieces, and a large one in steps, arrive whole.
func TestRequestsArriveInPieces(t *testing.T) {
	r := start(t)
	r.b.CreateTopic("t", 1, 1)
	w := r.dial()
	req := at(kmsg.NewPtrApiVersionsRequest(), 0)
	w.sent[1] = req
	for _, b := range frame(req, 1) {
		w.write([]byte{b})
	}
	if id, _ := w.answer(); id != 1 {
		t.Errorf("answer to %d", id)
	}
	big := kmsg.NewPtrProduceRequest()
	big.Version, big.Acks, big.TimeoutMillis = 9, 1, 1000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	const batches = 9
	for range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = batch(-1, -1, -1, strings.Repeat("x", 900<<10))
		topic.Partitions = append(topic.Partitions, p)
	}
	big.Topics = append(big.Topics, topic)
	for i, p := range do[*kmsg.ProduceResponse](w, big).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Errorf("batch %d: %+v", i, p)
		}
	}
}

func TestConnectionLimits(t *testing.T) {
	r := start(t, func(c *kafka.Config) { c.ConnectionsMax, c.ConnectionsPerAddressMax = 3, 2 })
	a, b := r.dial(), r.dial()
	do[*kmsg.ApiVersionsResponse](a, at(kmsg.NewPtrApiVersionsRequest(), 0))
	do[*kmsg.ApiVersionsResponse](b, at(kmsg.NewPtrApiVersionsRequest(), 0))
	if c := r.dial(); !c.isClosed() {
		t.Error("a third connection of one address was taken")
	}
	if r.closes("too many connections of one address") != 1 {
		t.Error("the refusal was not counted")
	}
	a.nc.Close()
	waitFor(t, func() bool { return r.closes("peer closed") == 1 })
	d := r.dial()
	// The place of a closed connection is free a moment after the close is counted.
	waitFor(t, func() bool {
		d.nc.SetDeadline(time.Now().Add(time.Second))
		d.nc.Write(frame(at(kmsg.NewPtrApiVersionsRequest(), 0), 1))
		if _, _, err := d.receive(); err == nil {
			return true
		}
		d = r.dial()
		return false
	})
}

// TLS is served where it is configured, and plain text is refused there.
func TestTLS(t *testing.T) {
	server, client := kafkatest.TLS(t)
	r := start(t, func(c *kafka.Config) { c.TLS = server; c.StallMax = 5 * time.Second })
	nc, err := tls.Dial("tcp", r.addr, client)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w := &wire{t: t, nc: nc, sent: map[int32]kmsg.Request{}}
	do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))

	plain := r.dial()
	plain.nc.Write(frame(at(kmsg.NewPtrApiVersionsRequest(), 0), 1))
	plain.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 64)
	for {
		if _, err := plain.nc.Read(buf); err != nil { // an alert may come first
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Error("plain text on a TLS listener was not closed")
			}
			break
		}
	}
	waitFor(t, func() bool { return r.closes("TLS handshake failed") == 1 })
}
