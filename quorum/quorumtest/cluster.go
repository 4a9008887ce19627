package quorumtest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
	"github.com/quorate/quorate/quorum/raftnode"
)

// ClusterID is the cluster id of every quorum that this package starts.
const ClusterID = "quorumtest-cluster-aaa"

// Options configure a quorum.
type Options struct {
	// Controllers is 1, 3 or 5. Default 3.
	Controllers int
	// Configure changes a node's configuration before it starts.
	Configure func(*quorum.Config)
	// Prepare is called with each member whose directory is formatted, before it runs for the first time.
	Prepare func(*Member) error
	// RealNetwork uses loopback addresses instead of a network in memory. Such a quorum does not run in a bubble.
	RealNetwork bool
	// Logger receives the nodes' lines; nil: the test's output, shown when it fails.
	Logger *slog.Logger
}

// Cluster is a running quorum.
type Cluster struct {
	Network *envtest.Network
	Members []*Member
	// Former are members whose place another directory has taken.
	Former  []*Member
	Client  *client.Client
	options Options
}

// Member is one controller.
type Member struct {
	ID     int
	Config quorum.Config
	Clock  *envtest.Clock
	Node   *quorum.Node

	host   string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	err   error
	fatal error
}

// Start formats and runs a quorum.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Controllers == 0 {
		o.Controllers = 3
	}
	c := &Cluster{Network: envtest.NewNetwork(), options: o}
	var servers []raftnode.Server
	for i := range o.Controllers {
		m := c.member(t, i)
		c.Members = append(c.Members, m)
		servers = append(servers, raftnode.Server{
			ID:      raftnode.ServerID{NodeID: int32(m.Config.NodeID), DirectoryID: m.Config.DirectoryID.String()},
			Address: m.Config.RaftAddress, Voter: true,
		})
	}
	var addresses []string
	for _, m := range c.Members {
		addresses = append(addresses, m.Config.GRPCAddress)
	}
	t.Cleanup(func() { c.stop(t) })
	for _, m := range c.Members {
		m.Config.Bootstrap = addresses
		if err := raftnode.Bootstrap(m.Config.Env, filepath.Join(m.Config.DataDir, "raft"), servers); err != nil {
			t.Fatal(err)
		}
		if o.Prepare != nil {
			if err := o.Prepare(m); err != nil {
				t.Fatal(err)
			}
		}
		c.Run(t, m)
	}
	network := env.Network(c.Network.Host("client"))
	if o.RealNetwork {
		network = env.OS("").Network
	}
	var err error
	c.Client, err = client.New(client.Config{Network: network, Controllers: addresses, ClusterID: ClusterID})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cluster) member(t testing.TB, i int) *Member {
	t.Helper()
	id := 1001 + i
	host := fmt.Sprintf("c%d", i+1)
	m := &Member{ID: id, host: host, Clock: envtest.NewClock()}
	e := &env.Env{Network: c.Network.Host(host), FS: env.OS("").FS, Clock: m.Clock}
	grpcAddress, raftAddress := host+":9192", host+":9292"
	if c.options.RealNetwork {
		e = env.OS("")
		grpcAddress, raftAddress = freeAddress(t), freeAddress(t)
	}
	logger := c.options.Logger
	if logger == nil {
		logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	m.Config = quorum.Config{
		ClusterID: ClusterID, NodeID: image.BrokerID(id), DirectoryID: idOf(1, byte(i)), IncarnationID: idOf(2, byte(i)),
		DataDir: t.TempDir(), GRPCAddress: grpcAddress, RaftAddress: raftAddress,
		Listeners:   []*metadatapb.Listener{listenerOf("GRPC", grpcAddress), listenerOf("RAFT", raftAddress)},
		VerifyEvery: 1, Limits: controller.DefaultLimits(), Defaults: controller.DefaultDefaults(),
		Env: e, Logger: logger.With("node", id),
	}
	m.Config.Fatal = m.onFatal
	if c.options.Configure != nil {
		c.options.Configure(&m.Config)
	}
	return m
}

// Run starts a member, for the first time or again.
func (c *Cluster) Run(t testing.TB, m *Member) {
	t.Helper()
	node, err := quorum.New(m.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.Node, m.cancel, m.done = node, cancel, make(chan struct{})
	go func() {
		defer close(m.done)
		err := node.Run(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.err = err
	}()
}

func (m *Member) onFatal(err error) {
	m.mu.Lock()
	if m.fatal == nil {
		m.fatal = err
	}
	m.mu.Unlock()
	m.cancel()
}

// Fatal is why the member would have ended its process, nil if it would not have.
func (m *Member) Fatal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fatal
}

// Stop ends a member in order and waits.
func (m *Member) Stop() error {
	m.cancel()
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (c *Cluster) stop(t testing.TB) {
	t.Helper()
	if c.Client != nil {
		_ = c.Client.Close()
	}
	all := append(slices.Clone(c.Former), c.Members...)
	for _, m := range all {
		if m.cancel != nil {
			m.cancel()
		}
	}
	for _, m := range all {
		if m.done != nil {
			<-m.done
		}
	}
	c.Network.Close()
}

// Isolate holds up everything to and from a member.
func (c *Cluster) Isolate(m *Member) {
	c.Network.Cut(m.host, "*")
	c.Network.Cut("*", m.host)
}

// Join ends an isolation.
func (c *Cluster) Join(m *Member) {
	c.Network.Heal(m.host, "*")
	c.Network.Heal("*", m.host)
}

// Kill ends a member as a kill would, as far as others can tell: nothing it says after this is heard.
func (c *Cluster) Kill(t testing.TB, m *Member) {
	t.Helper()
	c.Isolate(m)
	_ = m.Stop()
	c.Join(m)
}

// IsActive tells whether the member serves as the active controller.
func (m *Member) IsActive() bool {
	a := m.Node.Status().GetActiveController()
	return a != nil && a.GetNodeId() == int32(m.ID)
}

// Active waits for the active controller among the members that are not excluded.
func (c *Cluster) Active(t testing.TB, except ...*Member) *Member {
	t.Helper()
	var active *Member
	Eventually(t, "an active controller", func() error {
		for _, m := range c.Members {
			if !contains(except, m) && m.IsActive() {
				active = m
				return nil
			}
		}
		return fmt.Errorf("none")
	})
	return active
}

func contains(list []*Member, m *Member) bool {
	for _, x := range list {
		if x == m {
			return true
		}
	}
	return false
}

// SameImages waits until all members hold the same image.
func (c *Cluster) SameImages(t testing.TB, except ...*Member) {
	t.Helper()
	Eventually(t, "equal images", func() error {
		var first *controllerpb.NodeStatusResponse
		for _, m := range c.Members {
			if contains(except, m) {
				continue
			}
			s := m.Node.Status()
			if first == nil {
				first = s
			}
			if s.GetMetadataOffset() != first.GetMetadataOffset() || s.GetChain() != first.GetChain() {
				return fmt.Errorf("%d at %d %x, %d at %d %x", first.GetNodeId(), first.GetMetadataOffset(), first.GetChain(),
					s.GetNodeId(), s.GetMetadataOffset(), s.GetChain())
			}
		}
		return nil
	})
}

// eventuallyMax bounds a wait; in a bubble it passes in no time. Each look costs real time, so the pauses between them grow.
const (
	eventuallyMax = 60 * time.Second
	pauseMin      = 10 * time.Millisecond
	pauseMax      = 300 * time.Millisecond
)

// Eventually polls until check returns nil.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(eventuallyMax)
	defer deadline.Stop()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v: %v", what, eventuallyMax, err)
		case <-time.After(pause):
		}
	}
}

// Running tells whether the member's node runs.
func (m *Member) Running() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}
