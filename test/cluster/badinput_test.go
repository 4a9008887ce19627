package cluster_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/quorate/quorate/test/cluster"
)

// result is what a command printed and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

func resultOf(stdout, stderr string, code int) result { return result{stdout, stderr, code} }

// wantRefusal wants exit 1 and one line of a reason, which holds all the words.
func wantRefusal(t *testing.T, r result, words ...string) {
	t.Helper()
	if r.code != 1 {
		t.Errorf("exit %d, want 1\n%s", r.code, r.stderr)
	}
	var reasons []string
	for line := range strings.Lines(r.stderr) {
		if strings.HasPrefix(line, "error: ") {
			reasons = append(reasons, line)
		}
	}
	if len(reasons) != 1 || !strings.HasSuffix(r.stderr, reasons[0]) {
		t.Fatalf("%d lines of a reason, want one, at the end:\n%s", len(reasons), r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(reasons[0], w) {
			t.Errorf("%q is not in %q", w, reasons[0])
		}
	}
}

// fingerprint is the content of a folder but for the pid of who used it last.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "pid" {
			return err
		}
		fmt.Fprintln(sum, path, d.IsDir())
		if d.IsDir() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A node that cannot have its directory or its ports says why and what to do, exits 1 and leaves everything as it was.
func TestStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Controllers: 1, Brokers: 2, Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "2", "--replication-factor", "2")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1})
	w.AwaitAcks(t, 50)
	controller, other, own := c.Node(t, 1001), c.Node(t, 1), c.Node(t, 2)
	for _, n := range []cluster.Node{controller, own} {
		pid := strings.TrimSpace(readFile(t, filepath.Join(n.DataDir, "pid")))
		wantRefusal(t, resultOf(c.RunNode(t, n.ID)), "in use by process "+pid, "stop it first")
		c.AwaitReady(t, n.ID, time.Minute)
	}
	w.Stop(t)
	c.Kill(t, own.ID)
	dir := func(name string, files map[string]string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	identity := readFile(t, filepath.Join(own.DataDir, "meta.properties"))
	foreign := dir("foreign", nil) // formatted below, as an operator would who has made the directory
	foreignConfig := filepath.Join(t.TempDir(), "foreign.properties")
	if err := os.WriteFile(foreignConfig, []byte(readFile(t, own.Argv[slices.Index(own.Argv, "--config")+1])+"log.dirs="+foreign+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(c.Must(t, "random-uuid"))
	if _, errs, code := cluster.Run(t, "format", "--config", foreignConfig, "--cluster-id", id); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	for name, refused := range map[string]struct {
		dir   string
		words []string
	}{
		"unformatted":     {dir("empty", nil), []string{"not formatted", "run quorate format"}},
		"another node's":  {other.DataDir, []string{"belongs to node 1", "node.id is 2", "correct"}},
		"not a directory": {filepath.Join(dir("file", map[string]string{"x": ""}), "x"), []string{"not a directory", "log.dirs"}},
		"garbage":         {dir("garbage", map[string]string{"meta.properties": "\x00\xfe\x01 not what it was"}), []string{"meta.properties", "restore the file"}},
		"cut":             {dir("cut", map[string]string{"meta.properties": identity[:len(identity)/2]}), []string{"meta.properties", "restore the file"}},
		"newer":           {dir("newer", map[string]string{"meta.properties": strings.Replace(identity, "version=1", "version=2", 1)}), []string{`version is "2"`, "reads 1"}},
		"another cluster": {foreign, []string{"another cluster", id, c.ClusterID, "correct log.dirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := ""
			if name != "another cluster" && name != "another node's" { // it begins a life before it hears of it; it is in use
				before = fingerprint(t, refused.dir)
			}
			wantRefusal(t, resultOf(c.RunNode(t, own.ID, "--set", "log.dirs="+refused.dir)), refused.words...)
			if before != "" && fingerprint(t, refused.dir) != before {
				t.Error("the directory was changed")
			}
		})
	}
	wantRefusal(t, resultOf(c.RunNode(t, own.ID, "--set", "num.partition=3")), "num.partition", "did you mean num.partitions?")
	for _, listener := range []string{"kafka", "grpc", "http"} {
		t.Run("port of "+listener, func(t *testing.T) {
			address := own.Addresses[listener]
			taken := listen(t, address)
			defer taken.Close()
			before := fingerprint(t, own.DataDir)
			wantRefusal(t, resultOf(c.RunNode(t, own.ID)), address, "address already in use", "free the port")
			if fingerprint(t, own.DataDir) != before {
				t.Error("the data directory was changed")
			}
		})
	}
	c.Restart(t, own.ID)
	c.AwaitInSync(t, own.ID, 2*time.Minute, "orders")
	c.VerifyReplica(t, own.ID, "orders", w.Acks())
}

// The same for a controller's ports.
func TestControllerPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	s := cluster.NewSolo(t)
	if _, errs, code := cluster.Run(t, s.Format()...); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	for name, address := range map[string]string{"GRPC": s.GRPC, "RAFT": s.Raft, "HTTP": s.HTTP} {
		taken := listen(t, address)
		wantRefusal(t, resultOf(cluster.Run(t, s.Server()...)), name, address, "address already in use", "free the port")
		taken.Close()
	}
	s.Serves(t)
}

// listen takes a port that nobody listens on.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var taken net.Listener
	cluster.Eventually(t, 20*time.Second, "the port "+address, func() (err error) {
		taken, err = net.Listen("tcp", address)
		return err
	})
	return taken
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A full disk at format and at start: refused, nothing damaged, and all is well once there is space.
func TestFullDiskAtStart(t *testing.T) {
	s := cluster.NewSolo(t)
	mount := filepath.Dir(s.DataDir)
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs the right to mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(mount, "filler")
	fill := func() {
		t.Helper()
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	free := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	wantRefusal(t, resultOf(cluster.Run(t, s.Format()...)), "no space left", "free some space")
	if left, _ := os.ReadDir(mount); len(left) != 1 {
		t.Errorf("left after a format on a full disk: %v", left)
	}
	free()
	if _, errs, code := cluster.Run(t, s.Format()...); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	fill()
	before := fingerprint(t, s.DataDir)
	wantRefusal(t, resultOf(cluster.Run(t, s.Server()...)), "no space left", "free some space")
	if fingerprint(t, s.DataDir) != before {
		t.Error("the data directory was changed")
	}
	free()
	s.Serves(t)
}

// A broker dies, and its newest segments end in garbage, in half a batch, and in a batch with a flipped byte: each tail
// is cut and fetched again.
func TestTornTailsAreCutAndRefetched(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1, Pad: 100})
	w.AwaitAcks(t, 1000)
	const victim = 2
	c.Kill(t, victim)
	dir := c.Node(t, victim).DataDir
	damages := map[string]func(*os.File, int64) error{
		"orders-0": func(f *os.File, size int64) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 1000), size)
			return err
		},
		"orders-1": func(f *os.File, size int64) error { return f.Truncate(size - 17) },
		"orders-2": func(f *os.File, size int64) error {
			var b [1]byte
			if _, err := f.ReadAt(b[:], size-5); err != nil {
				return err
			}
			b[0] ^= 0x10
			_, err := f.WriteAt(b[:], size-5)
			return err
		},
	}
	for partition, damage := range damages {
		segments := slices.DeleteFunc(activeSegments(t, dir), func(s string) bool { return filepath.Base(filepath.Dir(s)) != partition })
		if len(segments) != 1 {
			t.Fatalf("%s: segments %v", partition, segments)
		}
		f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
		if err == nil {
			info, _ := f.Stat()
			err = errors.Join(damage(f, info.Size()), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Restart(t, victim)
	c.AwaitInSync(t, victim, 2*time.Minute, "orders")
	log := c.LogOf(t, victim)
	for partition := range damages {
		if !strings.Contains(log, `msg="log cut in recovery" broker=2 log=`+partition) {
			t.Errorf("the log does not tell that %s was cut", partition)
		}
	}
	c.WholeISRs(t, time.Minute)
	w.Stop(t)
	c.VerifyReplicas(t, "orders", w.Acks(), nil)
	c.VerifyAcknowledged(t, w)
}

// flipByte damages a file in its middle.
func flipByte(t *testing.T, name string) {
	t.Helper()
	data := []byte(readFile(t, name))
	data[len(data)/2] ^= 0x01
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func snapshotsOf(t *testing.T, n cluster.Node) []string {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(n.DataDir, "raft", "snapshots", "*-*", "state.bin"))
	if err != nil {
		t.Fatal(err)
	}
	states = slices.DeleteFunc(states, func(s string) bool { return strings.HasSuffix(filepath.Dir(s), ".tmp") })
	slices.SortFunc(states, func(a, b string) int { return strings.Compare(modTime(t, a), modTime(t, b)) })
	return states
}

func modTime(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000")
}

// A flipped byte in a controller's newest metadata snapshot: it is refused and named; the controller goes on from the
// older one, or ends. With every snapshot damaged it ends, and the others go on.
func TestDamagedMetadataSnapshot(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Brokers: 1, Set: []string{"metadata.log.snapshot.entries=20", "metadata.log.trailing.entries=100"}})
	victim := c.Active(t)
	n := 0
	cluster.Eventually(t, 2*time.Minute, "two snapshots", func() error {
		n++
		c.Must(t, "topic", "create", fmt.Sprintf("t%d", n), "--partitions", "1", "--replication-factor", "1")
		if found := snapshotsOf(t, c.Node(t, victim)); len(found) < 2 {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	c.Kill(t, victim)
	found := snapshotsOf(t, c.Node(t, victim))
	newest := found[len(found)-1]
	flipByte(t, newest)
	c.Restart(t, victim)
	c.AwaitReady(t, victim, time.Minute)
	if log := c.LogOf(t, victim); !strings.Contains(log, "metadata snapshot refused") || !strings.Contains(log, filepath.Dir(newest)) {
		t.Errorf("the log does not name %s", newest)
	}
	c.SameDumps(t)
	c.Kill(t, victim)
	for _, s := range snapshotsOf(t, c.Node(t, victim)) {
		if s != newest { // that one is damaged already, if it is still there
			flipByte(t, s)
		}
	}
	dir := filepath.Join(c.Node(t, victim).DataDir, "raft", "snapshots")
	before := fingerprint(t, dir)
	wantRefusal(t, resultOf(c.RunNode(t, victim)), "2 snapshots are damaged in "+dir, "format it anew")
	if fingerprint(t, dir) != before {
		t.Error("the snapshots were changed")
	}
	c.Must(t, "topic", "create", "after", "--partitions", "1", "--replication-factor", "1")
}

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
	const limit = 64 << 20
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

// metric is the sum of a node's counters whose name and labels begin so.
func metric(t *testing.T, n cluster.Node, name string) float64 {
	t.Helper()
	var body string
	cluster.Eventually(t, time.Minute, "metrics", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addresses["http"]+"/metrics", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		body = string(data)
		return err
	})
	sum := 0.0
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			fields := strings.Fields(line)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// peakMiB is the most memory that a node's process ever held.
func peakMiB(t *testing.T, n cluster.Node) int {
	t.Helper()
	pid := strings.TrimSpace(readFile(t, filepath.Join(n.DataDir, "pid")))
	for line := range strings.Lines(readFile(t, "/proc/"+pid+"/status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
