package cluster_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/test/cluster"
)

// Garbage, oversized claims and slow bytes on every listener, while real clients are served: bad connections are closed
// and counted, and no process grows by more than it may hold.
func TestBadBytesOnEveryListener(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Controllers: 3, Brokers: 3})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 100)
	broker, controller := c.Node(t, 1), c.Node(t, c.Active(t))
	targets := []badTarget{
		{broker, "kafka", kafkaBytes(), false, `quorate_kafka_connections_closed_total`},
		{broker, "grpc", foreignBytes("kafka"), true, `quorate_grpc_connections_closed_total{reason="another protocol"}`},
		{broker, "http", httpBytes(), true, `quorate_http_connections_unserved_total`},
		{controller, "grpc", foreignBytes("kafka"), true, `quorate_grpc_connections_closed_total{reason="another protocol"}`},
		{controller, "raft", foreignBytes("raft"), false, `quorate_raft_handshakes_total{result="malformed"}`},
		{controller, "http", httpBytes(), true, `quorate_http_connections_unserved_total`},
	}
	before := make([]float64, len(targets))
	for i, target := range targets {
		before[i] = metric(t, target.node, target.counter)
	}
	served := len(w.Acks())
	claim(t, broker.Addresses["kafka"])
	var attacks sync.WaitGroup
	for _, target := range targets {
		attacks.Go(func() { target.attack(t) })
	}
	for _, n := range []cluster.Node{broker, controller} {
		attacks.Go(func() { oversizedMessages(t, n.Addresses["grpc"]) })
	}
	w.AwaitAcks(t, served+200) // served beside the attack
	attacks.Wait()
	for i, target := range targets {
		closed := metric(t, target.node, target.counter) - before[i]
		t.Logf("node %d %s: %v counted as %s", target.node.ID, target.listener, closed, target.counter)
		if closed < 1 {
			t.Errorf("node %d: %s did not rise", target.node.ID, target.counter)
		}
	}
	// Slow handshakes come after the garbage: together they are more than the listener keeps open, and the oldest, whatever
	// it sent, is then counted as too_many.
	slow := badTarget{controller, "raft", nil, true, `quorate_raft_handshakes_total{result="too_slow"}`}
	tooSlow := metric(t, controller, slow.counter)
	slow.attack(t)
	if closed := metric(t, controller, slow.counter) - tooSlow; closed < 1 {
		t.Errorf("node %d: %s did not rise", controller.ID, slow.counter)
	}
	for _, n := range []cluster.Node{broker, controller} {
		peak := peakMiB(t, n)
		t.Logf("node %d: peak of resident memory %d MiB", n.ID, peak)
		if peak > 400 {
			t.Errorf("node %d grew to %d MiB", n.ID, peak)
		}
		c.AwaitReady(t, n.ID, time.Minute)
	}
	acked := len(w.Acks())
	w.AwaitAcks(t, acked+100)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
	c.SameDumps(t)
}

// claim opens connections that each claim a request near the limit and send a part of it, until the test ends.
func claim(t *testing.T, address string) {
	t.Helper()
	for range 60 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(sized(99<<20, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff)); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(noise(256 << 10)) // who has to wait for room does not read it
	}
}

// oversizedMessages are calls whose message is above the limit. They are refused, and the connection lives.
func oversizedMessages(t *testing.T, address string) {
	const limit = client.RequestBytesMax
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(2*limit)))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reader := controllerpb.NewReaderApiClient(conn)
	for range 3 {
		stream, err := reader.DescribeTopics(ctx, &controllerpb.DescribeTopicsRequest{Names: []string{strings.Repeat("x", limit)}})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message above the limit: %.200v", err)
		}
	}
	if _, err := reader.NodeStatus(ctx, &controllerpb.NodeStatusRequest{}); err != nil {
		t.Errorf("after oversized messages: %v", err)
	}
}

// badTarget is a listener and what is thrown at it.
type badTarget struct {
	node     cluster.Node
	listener string
	// bytes are sent on a connection each, which must be closed by the listener.
	bytes [][]byte
	// slow: connections that say a few bytes, or none, are closed too, within a test's patience.
	slow    bool
	counter string
}

// attack runs on a goroutine of its own.
func (b badTarget) attack(t *testing.T) {
	address := b.node.Addresses[b.listener]
	var all sync.WaitGroup
	defer all.Wait()
	for i, sent := range b.bytes {
		for range 3 {
			all.Go(func() {
				if err := closedAfter(address, sent); err != nil {
					t.Errorf("%s of node %d, input %d: %v", b.listener, b.node.ID, i, err)
				}
			})
		}
	}
	for _, few := range []string{"", "\x00", "P", "G"} {
		for range 5 {
			all.Go(func() {
				if b.slow && b.listener != "http" || few == "G" && b.listener == "http" { // an idle HTTP connection may stay a minute
					if err := closedAfter(address, []byte(few)); err != nil {
						t.Errorf("%s of node %d, slow %q: %v", b.listener, b.node.ID, few, err)
					}
				}
			})
		}
	}
}

// closedAfter sends bytes and wants the peer to hang up.
func closedAfter(address string, sent []byte) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := conn.Write(sent); err != nil && !hungUp(err) {
		return fmt.Errorf("write: %w", err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !hungUp(err) {
		return fmt.Errorf("not closed: %w", err)
	}
	return nil
}

func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// noise is bytes without a meaning, the same each time.
func noise(n int) []byte {
	out, state := make([]byte, n), uint32(2463534242)
	for i := range out {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		out[i] = byte(state)
	}
	return out
}

func sized(size int32, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), rest...)
}

// kafkaBytes are requests that no client sends: sizes below 0, above the limit and of nothing; unknown keys; a known key
// with an unknown version; bodies that do not decode; another protocol.
func kafkaBytes() [][]byte {
	header := func(key, version int16, body ...byte) []byte {
		out := binary.BigEndian.AppendUint16(nil, uint16(key))
		out = binary.BigEndian.AppendUint16(out, uint16(version))
		out = append(out, 0, 0, 0, 7, 0xff, 0xff)
		out = append(out, body...)
		return sized(int32(len(out)), out...)
	}
	return [][]byte{
		sized(-1), sized(1<<31 - 1), sized(0), sized(101 << 20), noise(4096), []byte("GET / HTTP/1.1\r\n\r\n"),
		header(999, 0), header(1, 99, noise(50)...), header(3, 12, noise(300)...), header(0, 9, noise(1000)...), header(1, 12, bytes.Repeat([]byte{0xff}, 64)...),
	}
}

// foreignBytes are what no gRPC and no Raft connection begins with.
func foreignBytes(kind string) [][]byte {
	out := [][]byte{noise(65536), bytes.Repeat([]byte{0xff}, 1<<20), sized(18, noise(18)...), []byte("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")}
	if kind != "raft" {
		// The right preface, then a frame that claims 16 MiB.
		out = append(out, append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1))
	}
	return out
}

func httpBytes() [][]byte {
	return [][]byte{noise(4096), append([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\nX: "), bytes.Repeat([]byte("a"), 1<<20)...), []byte("GET / HTTP/7.7\r\n\r\n")}
}
