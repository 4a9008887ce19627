package quorum

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// Limits of the active controller that no deployment has had a reason to change.
const (
	// operationsQueuedMax bounds the requests that wait to be decided. A caller above it gets REQUEST_TIMED_OUT at once.
	operationsQueuedMax = 8192
	// operationBytesMax bounds the bytes of the requests that are not answered yet: eight of the largest, or the most that may wait
	// with 8 KiB each. A caller above it gets REQUEST_TIMED_OUT at once.
	operationBytesMax = 64 << 20
	// entryBytesTarget is the size at which a Raft entry is closed while the window has room.
	entryBytesTarget = 64 << 10
	// entryBytesMax bounds the encoded records of one entry: a larger one risks the transport's time-out.
	entryBytesMax = 1 << 20
	// entriesInFlightMax and bytesInFlightMax are the window of proposals that are not yet committed.
	entriesInFlightMax = fsm.EntriesInFlightMax
	bytesInFlightMax   = 4 << 20
	// smallEntriesInFlightMax is how many entries may be on their way before a further one waits until it has reached
	// entryBytesTarget or one of them is committed: one that followers write, one that the leader writes, and as many that
	// wait, so that neither disk ever does.
	smallEntriesInFlightMax = 4
	// proposalsAwaitedMax bounds the outcomes awaited: a window, what is left of the one before, and claims.
	proposalsAwaitedMax = 4 * entriesInFlightMax
	// answersParkedMax bounds the answers that wait for commits, reads and heartbeats among them. While there are that many
	// no further request is decided.
	answersParkedMax = 2 * operationsQueuedMax
	// entriesReadyMax bounds the entries of large decisions that wait for the window.
	// While there are that many no further request is decided.
	entriesReadyMax = 64
	// tickInterval is the controller's own pulse: sessions and the bounds that end a process are counted in it.
	tickInterval = 100 * time.Millisecond
	// orphanTicksMax is how long the outcome of a proposal is awaited after its claim has ended, in ticks.
	orphanTicksMax = 10
	// claimRefusedElectionsMax is the number of election time-outs after which a leader whose claims are refused ends its process.
	claimRefusedElectionsMax = 3
)

// Config configures a controller node.
type Config struct {
	// ClusterID, NodeID and DirectoryID are the node's identity, from meta.properties.
	ClusterID   string
	NodeID      image.BrokerID
	DirectoryID image.UUID
	// IncarnationID is drawn anew by each process.
	IncarnationID image.UUID
	// DataDir is the node's data directory; Raft's files are in its folder "raft", the history in "history".
	DataDir string

	// RaftBegun tells that the node was a voter or follower before, so that its Raft files are there or lost. BeginRaft notes so, synced,
	// outside DataDir's folder "raft". Nil: it is not noted.
	RaftBegun bool
	BeginRaft func() error

	// GRPCAddress and RaftAddress are the addresses that are bound. Listeners are what others are told.
	GRPCAddress string
	RaftAddress string
	Listeners   []*metadatapb.Listener
	// RaftAdvertised is the RAFT address as the Raft configuration holds it; empty: RaftAddress.
	RaftAdvertised string
	// Bootstrap are GRPC addresses of controllers, this one included or not.
	Bootstrap []string
	// TLS is used by every listener and every connection that this node opens; nil for plain text.
	TLS *tls.Config

	// ElectionTimeout is Raft's heartbeat, election and lease time-out. Default 300 ms.
	ElectionTimeout time.Duration
	// HeartbeatInterval is how often brokers beat. Default 2 s.
	HeartbeatInterval time.Duration
	// SessionTimeout is how long a broker may be silent before it is fenced; larger than HeartbeatInterval. Default 9 s.
	SessionTimeout time.Duration
	// SnapshotEntries and SnapshotBytes are what may be logged between two snapshots, whichever comes first.
	// Defaults 8192 and 20 MiB.
	SnapshotEntries uint64
	SnapshotBytes   int64
	// TrailingEntries is how many entries stay in the log behind a snapshot. Default 20000.
	TrailingEntries uint64
	// VerifyEvery is how often an entry's image is compared with a second replay on the active controller:
	// 1 compares each, as tests do. Default 1024.
	VerifyEvery int

	// LeaderRebalance lets leadership return to preferred replicas by itself, auto.leader.rebalance.enable. Default false.
	LeaderRebalance bool
	// ImbalanceCheckInterval is the time between two looks for leaders that are not preferred,
	// leader.imbalance.check.interval.seconds. Default 5 min.
	ImbalanceCheckInterval time.Duration
	// UncleanCheckInterval is the time between two looks for partitions without a leader whose topic allows unclean
	// elections. A change of the config acts at once; this catches what was missed. Default 5 min, as in Kafka.
	UncleanCheckInterval time.Duration

	// HistoryRetentionTime and HistoryRetentionBytes bound the history of applied entries in the folder "history", by whole
	// segments, whichever is reached first; a negative one: no history is kept. Defaults 7 days and 1 GiB.
	HistoryRetentionTime  time.Duration
	HistoryRetentionBytes int64

	// Limits and Defaults are given to every decision.
	Limits   controller.Limits
	Defaults controller.Defaults

	// Settings are the values that are not in the metadata log, for DescribeConfigs. Nil: none.
	Settings Settings

	// StoreFault is called before each call of a Raft store; its error becomes the call's. For tests.
	StoreFault func(raftnode.StoreCall) error

	Env    *env.Env
	Logger *slog.Logger
	// Fatal ends the process. It is called when going on could harm the cluster: a disk that hangs, a log that
	// diverges, claims that are refused for too long. It does not return.
	Fatal func(error)
}

// Validate fills in defaults and names the field at fault.
func (c *Config) Validate() error {
	setDefault(&c.ElectionTimeout, 300*time.Millisecond)
	setDefault(&c.HeartbeatInterval, 2*time.Second)
	setDefault(&c.SessionTimeout, 9*time.Second)
	setDefault(&c.SnapshotEntries, 8192)
	setDefault(&c.SnapshotBytes, 20<<20)
	setDefault(&c.TrailingEntries, 20000)
	setDefault(&c.VerifyEvery, 1024)
	setDefault(&c.ImbalanceCheckInterval, 5*time.Minute)
	setDefault(&c.UncleanCheckInterval, 5*time.Minute)
	setDefault(&c.HistoryRetentionTime, 7*24*time.Hour)
	setDefault(&c.HistoryRetentionBytes, 1<<30)
	switch {
	case c.ClusterID == "":
		return errors.New("quorum: ClusterID is empty; format the data directory")
	case c.DirectoryID.IsZero():
		return errors.New("quorum: DirectoryID is zero; format the data directory")
	case c.DataDir == "":
		return errors.New("quorum: DataDir is empty")
	case c.Env == nil || c.Logger == nil || c.Fatal == nil:
		return errors.New("quorum: Env, Logger and Fatal must be set")
	case c.SessionTimeout <= c.HeartbeatInterval:
		return fmt.Errorf("quorum: SessionTimeout %v is not larger than HeartbeatInterval %v", c.SessionTimeout, c.HeartbeatInterval)
	case c.Limits.BytesMax > entryBytesMax:
		return fmt.Errorf("quorum: Limits.BytesMax is %d, an atomic decision has to fit one entry of at most %d bytes", c.Limits.BytesMax, entryBytesMax)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
