package node

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// Role is a part that a node plays.
type Role string

// The two roles. A node plays one or both.
const (
	Controller Role = "controller"
	Broker     Role = "broker"
)

// Names of listeners.
const (
	KafkaListener = "KAFKA"
	GRPCListener  = "GRPC"
	RaftListener  = "RAFT"
	HTTPListener  = "HTTP"
)

// Config is a node's configuration. Each field is set from the key that its comment names.
type Config struct {
	Roles                   []Role           // process.roles
	NodeID                  image.BrokerID   // node.id
	DataDir                 string           // log.dirs: one directory
	Listeners               []image.Listener // listeners: what is bound; an empty host is every interface
	AdvertisedListeners     []image.Listener // advertised.listeners: what others are told; default: listeners
	Rack                    *string          // broker.rack; nil: none
	BootstrapServers        []string         // controller.quorum.bootstrap.servers: host:port
	LocalAddress            string           // local.address: an IP address without a port
	HeartbeatInterval       time.Duration    // broker.heartbeat.interval.ms
	SessionTimeout          time.Duration    // broker.session.timeout.ms: more than twice the heartbeat interval
	LagTimeMax              time.Duration    // replica.lag.time.max.ms
	ElectionTimeout         time.Duration    // controller.quorum.election.timeout.ms
	MinInsyncReplicas       int              // min.insync.replicas
	EligibleLeaderReplicas  int32            // eligible.leader.replicas.version
	UncleanLeaderElection   bool             // unclean.leader.election.enable
	Partitions              int32            // num.partitions
	ReplicationFactor       int32            // default.replication.factor
	AutoCreateTopics        bool             // auto.create.topics.enable
	AutoLeaderRebalance     bool             // auto.leader.rebalance.enable
	ImbalanceCheckInterval  time.Duration    // leader.imbalance.check.interval.seconds
	ControlledShutdown      bool             // controlled.shutdown.enable
	ControlledShutdownMax   time.Duration    // controlled.shutdown.max.wait.ms
	SegmentBytes            int32            // segment.bytes
	RetentionTime           time.Duration    // retention.ms; negative: none
	RetentionBytes          int64            // retention.bytes; negative: none
	RetentionCheckInterval  time.Duration    // log.retention.check.interval.ms
	SegmentDeleteDelay      time.Duration    // file.delete.delay.ms
	BatchRecordsMax         int              // metadata.max.records.per.batch
	BatchBytesMax           int              // metadata.max.bytes.per.batch
	SnapshotEntries         uint64           // metadata.log.snapshot.entries
	SnapshotBytes           int64            // metadata.log.snapshot.bytes
	TrailingEntries         uint64           // metadata.log.trailing.entries
	HistoryRetentionTime    time.Duration    // metadata.history.retention.ms
	HistoryRetentionBytes   int64            // metadata.history.retention.bytes
	WatermarkCheckpointTime time.Duration    // replica.high.watermark.checkpoint.interval.ms
	ProducerIDExpiry        time.Duration    // producer.id.expiration.ms
	RecoveryThreads         int              // num.recovery.threads.per.data.dir
	RequestBytesMax         int              // socket.request.max.bytes
	PprofEnabled            bool             // http.pprof.enable

	settings map[string]Setting
}

// Setting is a key's value and where it came from.
type Setting struct {
	Key, Value string
	// Source is --set, environment, file or default.
	Source string
	// Default is the value that the key has when nobody sets it; empty: none.
	Default string
	// Unit is ms, s, bytes, or empty.
	Unit string
}

// Settings lists every key in the order of the reference.
func (c *Config) Settings() []Setting {
	out := make([]Setting, 0, len(keys))
	for _, k := range keys {
		out = append(out, c.settings[k.name])
	}
	return out
}

// Has tells whether the node plays a role.
func (c *Config) Has(r Role) bool {
	for _, own := range c.Roles {
		if own == r {
			return true
		}
	}
	return false
}

// Listener is the bound listener of a name.
func (c *Config) Listener(name string) (image.Listener, bool) { return find(c.Listeners, name) }

// Advertised is the address of a listener that others are told.
func (c *Config) Advertised(name string) (image.Listener, bool) {
	return find(c.AdvertisedListeners, name)
}

func find(ls []image.Listener, name string) (image.Listener, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return image.Listener{}, false
}
