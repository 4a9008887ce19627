package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/raftnode"
	"github.com/quorate/quorate/quorum/reader"
)

const (
	// transferWait bounds the hand-over of leadership when the node stops.
	transferWait = 2 * time.Second
	// snapshotIntervalMin and snapshotIntervalMax bound the time between two looks at the number of entries.
	snapshotIntervalMin = time.Second
	snapshotIntervalMax = 15 * time.Second
	// serverStopWait bounds the time in which calls under way may end when the node stops.
	serverStopWait = time.Second
)

// Node is a controller. It is made by New and lives while Run does.
type Node struct {
	cfg         Config
	metrics     Metrics
	connections client.Connections
	fsm         *machine
	raft        *raftnode.Node
	loop        *loop
	server      *grpc.Server
	health      *health.Server
	client      *client.Client
	attached    *Attachment
	// replaying has a token for each image that is built from the log.
	replaying chan struct{}
	// changing is the change of the quorum under way, nil for none.
	changing atomic.Pointer[membershipChange]
	// waits are the changes that the active controller's keeper of the membership has not finished yet; nil for none.
	waits atomic.Pointer[[]membershipChange]
	// refusedAsRemoved is set when the active controller refused this node's registration because it was removed.
	refusedAsRemoved atomic.Bool
	// hasReplayed is set when the node has applied the claim of a leader that it knows, and so everything before it.
	hasReplayed atomic.Bool
	// open is set while Raft runs: before and after, the node knows nothing of the quorum.
	open atomic.Bool
}

// New checks the configuration. It does no work.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	machineConfig := fsm.DefaultConfig()
	machineConfig.ClusterID, machineConfig.Logger, machineConfig.OnHalt = cfg.ClusterID, cfg.Logger, cfg.Fatal
	machineConfig.VerifyEvery = cfg.VerifyEvery
	inner, err := fsm.New(machineConfig)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, fsm: &machine{FSM: inner}, replaying: make(chan struct{}, replaysMax)}
	if err := n.makeHistory(); err != nil {
		return nil, err
	}
	n.raft = raftnode.New(raftnode.Config{
		Env: cfg.Env, Logger: cfg.Logger, FSM: n.fsm, ClusterID: cfg.ClusterID,
		ID:            raftnode.ServerID{NodeID: int32(cfg.NodeID), DirectoryID: cfg.DirectoryID.String()},
		Dir:           filepath.Join(cfg.DataDir, "raft"),
		ListenAddress: cfg.RaftAddress, AdvertisedAddress: cfg.RaftAdvertised, TLS: cfg.TLS,
		ElectionTimeout:  cfg.ElectionTimeout,
		SnapshotInterval: snapshotInterval(cfg.SnapshotEntries),
		SnapshotEntries:  cfg.SnapshotEntries, SnapshotBytes: uint64(cfg.SnapshotBytes), TrailingEntries: cfg.TrailingEntries,
		Fatal: cfg.Fatal, StoreFault: cfg.StoreFault, Removed: n.isRemoved,
		SnapshotHeader: snapshotHeader, Begun: cfg.RaftBegun, Begin: cfg.BeginRaft,
		Lineage: func() int32 { return int32(n.fsm.Image().Lineage().Number) },
	})
	n.loop = newLoop(&n.cfg, &n.metrics, n.raft, n.fsm)
	n.loop.outOfQuorum = n.raft.OutOfQuorum()
	return n, nil
}

// snapshotHeader reads what a metadata snapshot says of itself.
func snapshotHeader(r io.Reader) (raftnode.SnapshotHeader, error) {
	h, err := snapshot.ReadHeader(r)
	if err != nil {
		return raftnode.SnapshotHeader{}, err
	}
	return raftnode.SnapshotHeader{Index: h.GetRaftIndex(), Term: h.GetClaimTerm(), ClusterID: h.GetClusterId()}, nil
}

// Attachment is the broker of the same process, which is served at this node's GRPC listener.
type Attachment struct {
	// Register adds what only a broker serves.
	Register func(grpc.ServiceRegistrar)
	// Wait answers WaitMetadata: the node has acted on an offset when its broker has.
	Wait func(context.Context, *controllerpb.WaitMetadataRequest) (image.MetadataOffset, error)
}

// Attach lets a broker of the same process share the GRPC listener. It is called before Run.
func (n *Node) Attach(a Attachment) { n.attached = &a }

// snapshotInterval is how often Raft counts entries: about as often as a busy quorum fills the number, so that a small
// number means what it says.
func snapshotInterval(entries uint64) time.Duration {
	return min(max(time.Duration(entries)*time.Millisecond, snapshotIntervalMin), snapshotIntervalMax)
}

// Run opens the stores, joins the quorum, serves, and blocks until the context ends or the node cannot go on. It then
// hands leadership over and stops in an order that leaves nothing acknowledged behind.
func (n *Node) Run(ctx context.Context) (err error) {
	listener, err := n.cfg.Env.Network.Listen(ctx, n.cfg.GRPCAddress)
	if err != nil {
		return fmt.Errorf("quorum: listen for GRPC on %s: %w; free the port or correct listeners", n.cfg.GRPCAddress, err)
	}
	listener = n.connections.Count(listener, n.cfg.TLS)
	endHistory := n.runHistory(ctx) // before Raft gives the machine what it has
	defer endHistory()
	if err := n.raft.Open(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	n.client, err = client.New(client.Config{
		Network: n.cfg.Env.Network, TLS: n.cfg.TLS, Controllers: n.cfg.Bootstrap, ClusterID: n.cfg.ClusterID, Logger: n.cfg.Logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close(), n.raft.Close())
	}
	n.open.Store(true)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { n.loop.run(running) })
	parts.Go(func() { n.raft.Run(running) })
	parts.Go(func() { n.keepRegistered(running) })
	parts.Go(func() { n.keepMembership(running) })
	failed := make(chan error, 1)
	n.serve(running, listener, &parts, failed)
	select {
	case <-ctx.Done():
	case err = <-failed:
	case <-n.raft.Stopped():
		err = raftnode.ErrStopped
	}
	return errors.Join(err, n.shutdown(stop, &parts))
}

// serve starts the gRPC server.
func (n *Node) serve(ctx context.Context, listener net.Listener, parts *sync.WaitGroup, failed chan<- error) {
	options := append(client.ServerOptions(n.cfg.TLS),
		grpc.ChainUnaryInterceptor(authorizeUnary, n.guardUnary), grpc.ChainStreamInterceptor(authorizeStream, n.guardStream))
	n.server = grpc.NewServer(options...)
	n.health = health.NewServer()
	controllerpb.RegisterBrokerApiServer(n.server, &brokerServer{n: n})
	controllerpb.RegisterOperatorApiServer(n.server, &operatorServer{n: n})
	controllerpb.RegisterControllerApiServer(n.server, &peerServer{n: n})
	controllerpb.RegisterMetadataStreamServer(n.server, &streamServer{n: n, stopped: ctx.Done()})
	controllerpb.RegisterReaderApiServer(n.server, reader.New(n))
	healthpb.RegisterHealthServer(n.server, n.health)
	if n.attached != nil {
		n.attached.Register(n.server)
	}
	reflection.Register(n.server)
	n.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	parts.Go(func() {
		select {
		case <-n.raft.OutOfQuorum():
			if n.attached == nil { // else its broker goes on serving
				n.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
			}
		case <-ctx.Done():
		}
	})
	parts.Go(func() {
		if err := n.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			failed <- fmt.Errorf("quorum: serve GRPC: %w", err)
		}
	})
}

// shutdown hands leadership over first: a planned stop then costs the cluster milliseconds, not an election.
func (n *Node) shutdown(stop context.CancelFunc, parts *sync.WaitGroup) error {
	n.health.Shutdown()
	if n.raft.Leadership().Leader && n.hasPeers() {
		ctx, cancel := context.WithTimeout(context.Background(), transferWait)
		if err := n.raft.TransferLeadership(ctx); err != nil {
			n.cfg.Logger.Warn("leadership not handed over", "error", err)
		}
		cancel()
	}
	stop()
	graceful := time.AfterFunc(serverStopWait, n.server.Stop)
	n.server.GracefulStop()
	graceful.Stop()
	parts.Wait()
	n.open.Store(false)
	return errors.Join(n.client.Close(), n.raft.Close())
}

// hasPeers tells whether there is another voter to hand leadership to.
func (n *Node) hasPeers() bool {
	configuration, err := n.raft.GetConfiguration()
	voters := 0
	for _, s := range configuration.Servers {
		if s.Voter {
			voters++
		}
	}
	return err == nil && voters > 1
}

// Metrics are the node's counters.
func (n *Node) Metrics() *Metrics { return &n.metrics }

// Register exposes the node's metrics to Prometheus. They may be read before Run and after: what Raft does not know yet is 0.
func (n *Node) Register(r prometheus.Registerer) error {
	opened := func(read func() uint64) func() float64 {
		return func() float64 {
			if !n.open.Load() {
				return 0
			}
			return float64(read())
		}
	}
	collectors := slices.Concat(n.connections.Collectors(), n.handshakes(), n.historyCollectors(), []prometheus.Collector{newStateCollector(n.fsm.Image)})
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return n.metrics.register(r, map[string]func() float64{
		"quorate_controller_active": func() float64 {
			if n.loop.active.Load() != nil {
				return 1
			}
			return 0
		},
		"quorate_controller_superseded": func() float64 {
			if n.raft.Superseded() != nil {
				return 1
			}
			return 0
		},
		"quorate_metadata_offset":        func() float64 { return float64(n.fsm.Image().Offset()) },
		"quorate_metadata_topics":        func() float64 { return float64(n.fsm.Image().TopicCount()) },
		"quorate_metadata_partitions":    func() float64 { return float64(n.fsm.Image().PartitionCount()) },
		"quorate_metadata_leaderless":    func() float64 { return float64(n.fsm.Image().LeaderlessCount()) },
		"quorate_raft_term":              opened(n.raft.CurrentTerm),
		"quorate_raft_applied_index":     func() float64 { return float64(n.fsm.AppliedIndex()) },
		"quorate_raft_commit_index":      opened(n.raft.CommitIndex),
		"quorate_raft_snapshots_damaged": func() float64 { return float64(n.raft.Metrics().SnapshotsDamaged.Load()) },
		"quorate_raft_log_cuts":          func() float64 { return float64(n.raft.Metrics().LogCuts.Load()) },
		"quorate_raft_snapshots_taken":   func() float64 { return float64(n.raft.Metrics().SnapshotsTaken.Load()) },
		"quorate_raft_takeovers":         func() float64 { return float64(n.raft.Metrics().Takeovers.Load()) },
		"quorate_controller_queue_depth": func() float64 { return float64(n.loop.depth()) },
	})
}

// handshakes counts what came to the RAFT listener, by how it ended.
func (n *Node) handshakes() []prometheus.Collector {
	var out []prometheus.Collector
	for i, label := range raftnode.HandshakeLabels() {
		out = append(out, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_raft_handshakes_total", Help: "Incoming connections of the RAFT listener, by how their handshake ended.",
			ConstLabels: prometheus.Labels{"result": label},
		}, func() float64 { return float64(n.raft.Metrics().Handshakes[i].Load()) }))
	}
	return out
}

// Notice says what an operator should know although the node takes part; empty for nothing.
func (n *Node) Notice() string { return n.fsm.Image().Lineage().Notice() }

// Ready tells whether the node takes part: it knows a leader and has applied what it knows to be committed. After a start that
// is so once the claim of the present leader is applied, which stands behind everything that was committed before.
func (n *Node) Ready() (ok bool, reason string) {
	if !n.open.Load() {
		return false, "the node is starting or stopping"
	}
	_, _, known := n.raft.Leader()
	if isMember, removed, why := n.membership(); removed || !isMember && !known {
		return false, why
	}
	if !known {
		return false, "no Raft leader is known"
	}
	if !n.hasReplayed.Load() {
		// Right after a start nothing is known to be committed, and nothing can be behind it.
		if claimed, term := n.fsm.State().ClaimTerm, n.raft.CurrentTerm(); claimed != term {
			return false, fmt.Sprintf("the log is replayed: the newest claim applied is of Raft term %d, the leader's is %d", claimed, term)
		}
		n.hasReplayed.Store(true)
	}
	if applied, committed := n.fsm.AppliedIndex(), n.raft.CommitIndex(); applied < committed {
		return false, fmt.Sprintf("applied Raft index %d is behind commit index %d", applied, committed)
	}
	return true, ""
}
