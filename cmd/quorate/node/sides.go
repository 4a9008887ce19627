package node

import (
	"fmt"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/controller"
)

// sides makes what the roles run, in the order in which they stop.
func (o RunOptions) sides(id Identity) ([]side, error) {
	directory := id.DirectoryID
	var out []side
	var b *broker.Broker
	if o.Config.Has(Broker) {
		cfg := o.Config.broker(id, directory)
		cfg.Attached = o.Config.Has(Controller)
		var err error
		if b, err = broker.New(cfg, o.Env, o.Logger); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	if o.Config.Has(Controller) {
		cfg := o.Config.controller(id)
		cfg.Env, cfg.Logger, cfg.Fatal = o.Env, o.Logger, o.fatal
		cfg.RaftBegun, cfg.BeginRaft = id.RaftBegun, func() error { return beginRaft(o.Env.FS, o.Config.DataDir) }
		n, err := quorum.New(cfg)
		if err != nil {
			return nil, err
		}
		if b != nil { // one GRPC listener, one server
			n.Attach(quorum.Attachment{Register: b.RegisterServices, Wait: b.WaitMetadata})
		}
		out = append(out, n)
	}
	return out, nil
}

// fatal ends the process: what called it could harm the cluster by going on.
func (o RunOptions) fatal(err error) {
	o.Logger.Error("fatal", "error", err)
	if o.Explain != nil {
		err = o.Explain(err)
	}
	fmt.Fprintf(o.Stderr, "error: %v\n", err)
	o.Exit(1)
}

func (c *Config) controller(id Identity) quorum.Config {
	grpc, _ := c.Listener(GRPCListener)
	raft, _ := c.Listener(RaftListener)
	raftAdvertised, _ := c.Advertised(RaftListener)
	return quorum.Config{
		ClusterID: id.ClusterID, NodeID: id.NodeID, DirectoryID: id.DirectoryID, IncarnationID: RandomUUID(), DataDir: c.DataDir,
		GRPCAddress: Address(grpc), RaftAddress: Address(raft), RaftAdvertised: Address(raftAdvertised),
		Listeners: listenersProto(c.AdvertisedListeners), Bootstrap: c.bootstrap(),
		ElectionTimeout: c.ElectionTimeout, HeartbeatInterval: c.HeartbeatInterval, SessionTimeout: c.SessionTimeout,
		SnapshotEntries: c.SnapshotEntries, SnapshotBytes: c.SnapshotBytes, TrailingEntries: c.TrailingEntries,
		HistoryRetentionTime: orNone(c.HistoryRetentionTime), HistoryRetentionBytes: orNone(c.HistoryRetentionBytes),
		LeaderRebalance: c.AutoLeaderRebalance, ImbalanceCheckInterval: c.ImbalanceCheckInterval, Settings: c,
		Limits: controller.Limits{
			RecordsMax: c.BatchRecordsMax, BytesMax: c.BatchBytesMax, SessionTimeout: c.SessionTimeout, HeartbeatInterval: c.HeartbeatInterval,
		},
		Defaults: controller.Defaults{
			Partitions: c.Partitions, ReplicationFactor: c.ReplicationFactor, MinInsyncReplicas: c.MinInsyncReplicas,
			UncleanLeaderElection: c.UncleanLeaderElection, EligibleLeaderReplicas: c.EligibleLeaderReplicas,
		},
	}
}

// orNone makes a retention of 0 one that keeps nothing.
func orNone[T ~int64](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func listenersProto(ls []image.Listener) []*metadatapb.Listener {
	out := make([]*metadatapb.Listener, 0, len(ls))
	for _, l := range ls {
		out = append(out, &metadatapb.Listener{Name: l.Name, Host: l.Host, Port: uint32(l.Port)})
	}
	return out
}

// bootstrap are the controllers to ask; a controller that is told of none asks itself.
func (c *Config) bootstrap() []string {
	if len(c.BootstrapServers) > 0 {
		return c.BootstrapServers
	}
	own, _ := c.Advertised(GRPCListener)
	return []string{Address(own)}
}

func (c *Config) broker(id Identity, directory image.UUID) broker.Config {
	kafka, _ := c.Listener(KafkaListener)
	grpc, _ := c.Listener(GRPCListener)
	cfg := broker.DefaultConfig()
	cfg.ClusterID, cfg.ID, cfg.DirectoryID, cfg.LogDir, cfg.Rack = id.ClusterID, id.NodeID, directory, c.DataDir, c.Rack
	cfg.KafkaAddress, cfg.GRPCAddress = Address(kafka), Address(grpc)
	cfg.Listeners, cfg.Controllers = c.AdvertisedListeners, c.BootstrapServers
	cfg.HeartbeatInterval, cfg.SessionTimeout, cfg.LagTimeMax = c.HeartbeatInterval, c.SessionTimeout, c.LagTimeMax
	cfg.ControlledShutdown, cfg.ControlledShutdownMaxWait = c.ControlledShutdown, c.ControlledShutdownMax
	cfg.Log.SegmentBytesMax, cfg.Log.RetentionAgeMax, cfg.Log.RetentionBytesMax = c.SegmentBytes, c.RetentionTime, c.RetentionBytes
	cfg.Log.MessageBytesMax = min(cfg.Log.MessageBytesMax, c.SegmentBytes)
	cfg.Log.FileDeleteDelay, cfg.Log.ProducerAgeMax = c.SegmentDeleteDelay, c.ProducerIDExpiry
	cfg.Logs.LoadsMax, cfg.Logs.HighWatermarkInterval, cfg.Logs.RetentionInterval = c.RecoveryThreads, c.WatermarkCheckpointTime, c.RetentionCheckInterval
	cfg.Kafka.RequestBytesMax = c.RequestBytesMax
	cfg.Settings = c
	return cfg
}

// Default is the built-in value of a key; ok is false if there is no such key, or it has none.
func (c *Config) Default(key string) (value string, ok bool) {
	s, ok := c.settings[key]
	return s.Default, ok && s.Default != ""
}

// Static is the value that file, environment or command line give a key; ok is false if none does.
func (c *Config) Static(key string) (value string, ok bool) {
	s, ok := c.settings[key]
	return s.Value, ok && s.Source != sourceDefault
}
