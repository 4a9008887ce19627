package kafka_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/kafka/kafkatest"
	"github.com/quorate/quorate/quorum/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server over a fake broker.
type rig struct {
	t       testing.TB
	b       *kafkatest.Backend
	s       *kafka.Server
	addr    string
	network env.Network
	reg     *prometheus.Registry
	stop    func() // ends Run and waits
}

// start serves on loopback until the test ends.
func start(t testing.TB, change ...func(*kafka.Config)) *rig {
	t.Helper()
	return startOn(t, env.OS("").Network, "127.0.0.1:0", change...)
}

func startOn(t testing.TB, network env.Network, address string, change ...func(*kafka.Config)) *rig {
	t.Helper()
	cfg := kafka.DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := network.Listen(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, b: kafkatest.New(1), addr: ln.Addr().String(), network: network, reg: prometheus.NewRegistry()}
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	r.b.SetBroker(kafkatest.Broker{ID: 1, Host: host, Port: number})
	r.s = kafka.NewServer(cfg, r.b.Kafka(), env.OS("").Clock, slog.New(slog.NewTextHandler(io.Discard, nil)), kafka.NewMetrics(r.reg))
	r.b.OnChange(r.s.Notify)
	done := make(chan error, 1)
	go func() { done <- r.s.Run(ctx, ln) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// closes is how many connections were closed for a reason; each is told from the start.
func (r *rig) closes(reason string) float64 {
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "quorate_kafka_connections_closed_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	r.t.Errorf("no metric tells of the reason %q", reason)
	return 0
}

// wire is a client that speaks frames.
type wire struct {
	t    testing.TB
	nc   net.Conn
	next int32
	sent map[int32]kmsg.Request
}

func (r *rig) dial() *wire {
	r.t.Helper()
	nc, err := r.network.Dial(r.t.Context(), r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	return &wire{t: r.t, nc: nc, sent: map[int32]kmsg.Request{}}
}

// frame is a request with its size.
func frame(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, correlation)
}

func (w *wire) send(req kmsg.Request) int32 {
	w.t.Helper()
	w.next++
	w.sent[w.next] = req
	w.write(frame(req, w.next))
	return w.next
}

func (w *wire) write(b []byte) {
	w.t.Helper()
	w.nc.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := w.nc.Write(b); err != nil {
		w.t.Fatalf("write: %v", err)
	}
}

// receive reads the next answer: its correlation id and what follows.
func (w *wire) receive() (int32, []byte, error) {
	w.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	var head [4]byte
	if _, err := io.ReadFull(w.nc, head[:]); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(w.nc, body); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(body)), body[4:], nil
}

// answer reads the next answer and decodes it as that of the request it names.
func (w *wire) answer() (int32, kmsg.Response) {
	w.t.Helper()
	id, body, err := w.receive()
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	req := w.sent[id]
	if req == nil {
		w.t.Fatalf("answer to unknown request %d", id)
	}
	return id, decodeAnswer(w.t, req, body)
}

func decodeAnswer(t testing.TB, req kmsg.Request, body []byte) kmsg.Response {
	t.Helper()
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != 18 {
		if body[0] != 0 {
			t.Fatalf("answer to %T v%d has tags in its header", req, req.GetVersion())
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatalf("answer to %T v%d: %v", req, req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
		t.Fatalf("answer to %T v%d does not encode to the same bytes:\n%x\n%x", req, req.GetVersion(), body, again)
	}
	return resp
}

// do sends one request and returns its answer.
func do[T kmsg.Response](w *wire, req kmsg.Request) T {
	w.t.Helper()
	id := w.send(req)
	got, resp := w.answer()
	if got != id {
		w.t.Fatalf("answer to request %d, want %d", got, id)
	}
	return resp.(T)
}

// isClosed tells whether the server has closed the connection without another byte.
func (w *wire) isClosed() bool {
	w.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := w.nc.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return false
	}
	return n == 0 && err != nil
}

// at sets the version of a request.
func at[T kmsg.Request](req T, version int16) T {
	req.SetVersion(version)
	return req
}

// allTopics asks for the metadata of everything.
func allTopics() kmsg.Request { return at(kmsg.NewPtrMetadataRequest(), 9) }
