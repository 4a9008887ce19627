package raftnode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCluster = "cluster-A"

// directoryID makes a directory id out of a word.
func directoryID(word string) string {
	sum := sha256.Sum256([]byte(word))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// applied is one entry as the test's FSM saw it.
type applied struct {
	index, term uint64
	data        string
}

// listFSM keeps what was applied.
type listFSM struct {
	mu      sync.Mutex
	entries []applied
	block   <-chan struct{}
}

func (f *listFSM) Apply(log *raft.Log) any {
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = append(f.entries, applied{log.Index, log.Term, string(log.Data)})
	return len(f.entries)
}

func (f *listFSM) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b bytes.Buffer
	for _, e := range f.entries {
		fmt.Fprintf(&b, "%d %d %q\n", e.index, e.term, e.data)
	}
	return fsmSnapshot(b.Bytes()), nil
}

func (f *listFSM) Restore(r io.ReadCloser) error {
	defer r.Close()
	var entries []applied
	for {
		var e applied
		if _, err := fmt.Fscanf(r, "%d %d %q\n", &e.index, &e.term, &e.data); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = entries
	return nil
}

func (f *listFSM) has(data string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.data == data {
			return true
		}
	}
	return false
}

type fsmSnapshot []byte

func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

func (fsmSnapshot) Release() {}

// logBuffer keeps a node's lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// member is a node of a test's cluster.
type member struct {
	id     ServerID
	host   string
	dir    string
	fsm    *listFSM
	faults *envtest.Faults
	log    *logBuffer
	fatal  chan error
	node   *Node
	opened bool
}

func (m *member) address() string { return m.host + ":9292" }

// cluster is a few nodes over a network in memory.
type cluster struct {
	t       *testing.T
	network *envtest.Network
	dir     string
	members []*member
	// prepare changes a node before it is opened.
	prepare func(*Node)
	tweak   func(*Config)
}

// newCluster formats a cluster of voters 1 to n. Nothing runs yet.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, network: envtest.NewNetwork(), dir: memoryDir(t), prepare: func(*Node) {}, tweak: func(*Config) {}}
	for i := 1; i <= n; i++ {
		c.members = append(c.members, c.newMember(int32(i), fmt.Sprintf("first disk of %d", i)))
	}
	for _, m := range c.members {
		c.format(m, c.servers())
	}
	return c
}

// memoryDir is a directory on a file system in memory where there is one: these tests are about order, not about disks, and
// each entry costs several syncs.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "raftnode")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (c *cluster) newMember(node int32, disk string) *member {
	return &member{
		id: ServerID{node, directoryID(disk)}, host: fmt.Sprintf("n%d", node), dir: filepath.Join(c.dir, disk),
		fsm: &listFSM{}, faults: envtest.NewFaults(), log: &logBuffer{}, fatal: make(chan error, 8),
	}
}

func (c *cluster) servers() []Server {
	var servers []Server
	for _, m := range c.members {
		servers = append(servers, Server{ID: m.id, Address: m.address(), Voter: true})
	}
	return servers
}

func (c *cluster) format(m *member, servers []Server) {
	c.t.Helper()
	if err := Bootstrap(env.OS(""), m.dir, servers); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) config(m *member) Config {
	cfg := Config{
		Env:           &env.Env{Network: c.network.Host(m.host), FS: env.OS("").FS, Clock: envtest.NewClock()},
		Logger:        slog.New(slog.NewTextHandler(m.log, nil)),
		FSM:           m.fsm,
		ClusterID:     testCluster,
		ID:            m.id,
		Dir:           m.dir,
		ListenAddress: m.address(),
		StoreFault:    func(call StoreCall) error { return m.faults.Call(string(call), "") },
		Fatal:         func(err error) { m.fatal <- err },
	}
	c.tweak(&cfg)
	return cfg
}

func (c *cluster) start(members ...*member) {
	c.t.Helper()
	if len(members) == 0 {
		members = c.members
	}
	for _, m := range members {
		m.node = New(c.config(m))
		c.prepare(m.node)
		if err := m.node.Open(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		m.opened = true
	}
}

func (c *cluster) stop(members ...*member) {
	c.t.Helper()
	for _, m := range members {
		if !m.opened {
			continue
		}
		m.opened = false
		if err := m.node.Close(); err != nil {
			c.t.Errorf("close %v: %v", m.id, err)
		}
	}
}

// close stops what runs. A bubble needs it before its function returns.
func (c *cluster) close() {
	c.network.HealAll()
	c.stop(c.members...)
	c.network.Close()
}

// until waits, in virtual time if in a bubble, until the condition holds.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	if !eventually(limit, condition) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

func eventually(limit time.Duration, condition func() bool) bool {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-timer.C:
			return condition()
		}
	}
	return true
}

// leader waits for a leader that has committed something of its term, among the members given or all.
func (c *cluster) leader(among ...*member) *member {
	c.t.Helper()
	if len(among) == 0 {
		among = c.members
	}
	var found *member
	until(c.t, 20*time.Second, "a leader that commits", func() bool {
		for _, m := range among {
			if m.opened && m.node.State() == raft.Leader && m.node.Leadership().Leader {
				if out := m.node.Apply([]byte("leader?")).Wait(); out.Fate == FateApplied {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found
}

func (c *cluster) others(than *member) []*member {
	var others []*member
	for _, m := range c.members {
		if m != than {
			others = append(others, m)
		}
	}
	return others
}

// commit proposes an entry on a leader and expects it to be applied.
func (c *cluster) commit(m *member, data string) Outcome {
	c.t.Helper()
	out := m.node.Apply([]byte(data)).Wait()
	if out.Fate != FateApplied {
		c.t.Fatalf("apply %q: %v, %v", data, out.Fate, out.Err)
	}
	return out
}

func (c *cluster) everybodyHas(data string, members ...*member) {
	c.t.Helper()
	for _, m := range members {
		until(c.t, 20*time.Second, fmt.Sprintf("%v has %q", m.id, data), func() bool { return m.fsm.has(data) })
	}
}

// rawPeer is a transport that speaks for a server without running raft, to send crafted messages.
func (c *cluster) rawPeer(from *member, servers []Server) *transport {
	c.t.Helper()
	layer := &streamLayer{
		clusterID: testCluster, self: peerAddress{from.host + ":9999", from.id}, network: c.network.Host(from.host + "-raw"),
		handshakeTimeout: time.Second, judge: judge,
		refusals: newRefusalLog(slog.New(slog.DiscardHandler), envtest.NewClock()), metrics: new(Metrics),
	}
	if err := layer.listen(context.Background(), from.host+":9999"); err != nil {
		c.t.Fatal(err)
	}
	var conf raft.Configuration
	for _, s := range servers {
		conf.Servers = append(conf.Servers, s.raft())
	}
	provider := newAddressProvider(layer.self, func() raft.Configuration { return conf })
	return newTransport(layer, provider, env.OS("").Clock, time.Second, time.Second, func(f func()) bool { go f(); return true }, newHCLog(slog.New(slog.DiscardHandler), env.OS("").Clock))
}

func (t *transport) closeAll() {
	t.CloseStreams()
	t.Close()
}
