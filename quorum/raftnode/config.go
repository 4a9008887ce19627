package raftnode

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// Defaults of [Config].
const (
	DefaultElectionTimeout  = 300 * time.Millisecond
	DefaultCommitTimeout    = 10 * time.Millisecond
	DefaultRPCTimeout       = 2 * time.Second
	DefaultMaxAppendEntries = 128
	DefaultSnapshotEntries  = 8192
	DefaultSnapshotBytes    = 20 << 20
	DefaultSnapshotInterval = 15 * time.Second
	DefaultTrailingEntries  = 20000
	DefaultCacheEntries     = 1024
	DefaultCacheBytes       = 32 << 20
	DefaultStoreTimeout     = 5 * time.Second
	DefaultShutdownTimeout  = 10 * time.Second
)

// Config of a [Node]. Zero values of durations and numbers mean their defaults.
type Config struct {
	// Env is the node's seam to the world. Bolt and the snapshot store open their files through package os.
	Env *env.Env
	// Logger takes the node's and the library's lines.
	Logger *slog.Logger
	// FSM is what committed entries are applied to. Its errors travel in responses; a panic ends the process.
	FSM raft.FSM

	// ClusterID, ID: from meta.properties. They open every connection.
	ClusterID string
	ID        ServerID
	// Dir holds the log, the votes and the snapshots. It is made if it is missing.
	Dir string
	// ListenAddress is the RAFT listener's host:port; AdvertisedAddress the one that the others dial, as the Raft
	// configuration holds it. Empty: the listen address.
	ListenAddress, AdvertisedAddress string
	// TLS for both directions, with client certificates if it asks for them. Nil: plain TCP.
	TLS *tls.Config

	// ElectionTimeout is the time without a leader after which a voter campaigns; heartbeat and lease times equal it,
	// heartbeats go out each tenth to fifth of it. Default 300 ms: a failover takes about 600 ms.
	ElectionTimeout time.Duration
	// CommitTimeout is how long a follower may wait to hear of a commit when nothing follows it. Default 10 ms.
	CommitTimeout time.Duration
	// RPCTimeout covers one append with the follower's disk sync, and a handshake. Default 2 s.
	RPCTimeout time.Duration
	// MaxAppendEntries bounds entries in one append, in one disk write and in the queue before the main loop. Default 128,
	// at most 1024, at least twice the entries that a controller keeps in flight.
	MaxAppendEntries int

	// SnapshotEntries is how many entries after the last snapshot call for the next. Default 8192.
	SnapshotEntries uint64
	// SnapshotBytes is how many bytes of entries do. Default 20 MiB.
	SnapshotBytes uint64
	// SnapshotInterval is how often the library counts entries, up to twice this. Default 15 s.
	SnapshotInterval time.Duration
	// TrailingEntries stay in the log behind a snapshot, for followers that return and for brokers. Default 20000.
	TrailingEntries uint64

	// CacheEntries and CacheBytes bound the recent entries kept in memory: replication reads each back once per follower.
	// Defaults 1024 and 32 MiB.
	CacheEntries int
	CacheBytes   int

	// StoreTimeout is how long a call of a store may take before the process ends, counted in the watchdog's own ticks of
	// 100 ms. Default 5 s.
	StoreTimeout time.Duration
	// ShutdownTimeout bounds Close. Default 10 s.
	ShutdownTimeout time.Duration

	// Fatal ends the process: a store failed or hangs, and going on could lose entries or stop the cluster. It is called at
	// most once, from any goroutine, and must not wait for the node.
	Fatal func(error)

	// Removed tells whether a server was taken out of the quorum for good. One that was, and is not in this node's
	// configuration, is refused at the listener. Nil: none was. Called from any goroutine; it must not block.
	Removed func(ServerID) bool

	// Lineage is that of the FSM, which changes with a snapshot only. Of two controllers the one of the older lineage is
	// superseded. Nil: 0 always. Called from any goroutine; it must not block.
	Lineage func() int32

	// SnapshotHeader reads what a snapshot's content says of itself, to compare it with its meta data. Nil: it is not compared.
	SnapshotHeader func(io.Reader) (SnapshotHeader, error)

	// Begun tells that the node has had a Raft state: if there is none, it is lost. Begin notes so for the next life, outside Dir and
	// synced, before anybody is told of the first entry or snapshot. Nil: it is not noted, and a state that is lost as a whole is
	// taken for none.
	Begun bool
	Begin func() error

	// StoreFault is called before each call of a store; it may block, and its error becomes the call's. For tests.
	StoreFault func(StoreCall) error
	// ObserveStore is told of each call of a store, how long it took and its error. It must not block.
	ObserveStore func(call StoreCall, took time.Duration, err error)
}

func (c Config) withDefaults() Config {
	duration := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	number := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	count := func(n *uint64, value uint64) {
		if *n == 0 {
			*n = value
		}
	}
	duration(&c.ElectionTimeout, DefaultElectionTimeout)
	duration(&c.CommitTimeout, DefaultCommitTimeout)
	duration(&c.RPCTimeout, DefaultRPCTimeout)
	duration(&c.SnapshotInterval, DefaultSnapshotInterval)
	duration(&c.StoreTimeout, DefaultStoreTimeout)
	duration(&c.ShutdownTimeout, DefaultShutdownTimeout)
	number(&c.MaxAppendEntries, DefaultMaxAppendEntries)
	number(&c.CacheEntries, DefaultCacheEntries)
	number(&c.CacheBytes, DefaultCacheBytes)
	count(&c.SnapshotEntries, DefaultSnapshotEntries)
	count(&c.SnapshotBytes, DefaultSnapshotBytes)
	count(&c.TrailingEntries, DefaultTrailingEntries)
	if c.AdvertisedAddress == "" {
		c.AdvertisedAddress = c.ListenAddress
	}
	return c
}

// Validate names the first field that is wrong.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Env == nil:
		return fmt.Errorf("raftnode: Env is missing")
	case c.Logger == nil:
		return fmt.Errorf("raftnode: Logger is missing")
	case c.FSM == nil:
		return fmt.Errorf("raftnode: FSM is missing")
	case c.Fatal == nil:
		return fmt.Errorf("raftnode: Fatal is missing")
	case c.ClusterID == "" || len(c.ClusterID) > 255:
		return fmt.Errorf("raftnode: ClusterID %q: want 1 to 255 bytes", c.ClusterID)
	case c.Dir == "":
		return fmt.Errorf("raftnode: Dir is missing")
	}
	if err := c.ID.validate(); err != nil {
		return fmt.Errorf("raftnode: ID: %w", err)
	}
	if _, _, err := net.SplitHostPort(c.ListenAddress); err != nil {
		return fmt.Errorf("raftnode: ListenAddress: %w", err)
	}
	if _, _, err := net.SplitHostPort(c.AdvertisedAddress); err != nil {
		return fmt.Errorf("raftnode: AdvertisedAddress: %w", err)
	}
	return c.validateLimits()
}

func (c Config) validateLimits() error {
	for _, at := range []struct {
		name             string
		value, low, high time.Duration
	}{
		{"ElectionTimeout", c.ElectionTimeout, 5 * time.Millisecond, time.Minute},
		{"CommitTimeout", c.CommitTimeout, time.Millisecond, time.Minute},
		{"RPCTimeout", c.RPCTimeout, time.Millisecond, time.Hour},
		{"SnapshotInterval", c.SnapshotInterval, 5 * time.Millisecond, 24 * time.Hour},
		{"StoreTimeout", c.StoreTimeout, watchdogTick, time.Hour},
		{"ShutdownTimeout", c.ShutdownTimeout, time.Millisecond, time.Hour},
	} {
		if at.value < at.low || at.value > at.high {
			return fmt.Errorf("raftnode: %s %v: want %v to %v", at.name, at.value, at.low, at.high)
		}
	}
	for _, at := range []struct {
		name             string
		value, low, high int
	}{
		{"MaxAppendEntries", c.MaxAppendEntries, 1, 1024},
		{"CacheEntries", c.CacheEntries, 1, 1 << 20},
		{"CacheBytes", c.CacheBytes, 1, 1 << 40},
	} {
		if at.value < at.low || at.value > at.high {
			return fmt.Errorf("raftnode: %s %d: want %d to %d", at.name, at.value, at.low, at.high)
		}
	}
	return nil
}

// raftConfig is the library's configuration for this node.
func (c Config) raftConfig(notify chan<- bool) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = c.ID.Raft()
	rc.HeartbeatTimeout = c.ElectionTimeout
	rc.ElectionTimeout = c.ElectionTimeout
	rc.LeaderLeaseTimeout = c.ElectionTimeout // heartbeats wait for the follower's main loop, so the default half is too tight
	rc.CommitTimeout = c.CommitTimeout
	rc.MaxAppendEntries = c.MaxAppendEntries
	rc.BatchApplyCh = true      // else a single submitter gets one entry per disk sync
	rc.ShutdownOnRemove = false // a removed node must not stop silently
	rc.SnapshotInterval = c.SnapshotInterval
	rc.SnapshotThreshold = c.SnapshotEntries
	rc.TrailingLogs = c.TrailingEntries
	rc.NoLegacyTelemetry = true
	rc.PreVoteDisabled = false
	rc.RestoreCommittedLogs = false // broken in v1.8.0: loses the peer set, or NewRaft never returns
	rc.NotifyCh = notify
	rc.Logger = newHCLog(c.Logger, c.Env.Clock)
	return rc
}
