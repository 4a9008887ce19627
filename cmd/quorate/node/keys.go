package node

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// key is one line of the configuration's reference.
type key struct {
	name string
	def  string // default; empty: none
	unit string
	set  func(c *Config, value string) error
}

// IsKey tells whether a node's file may have the key.
func IsKey(name string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return k.name == name })
}

// keys holds every key in the order of the reference.
var keys = []key{
	{"process.roles", "", "", setRoles},
	{"node.id", "", "", number(func(c *Config) *image.BrokerID { return &c.NodeID }, 0, math.MaxInt32)},
	{"log.dirs", "", "", setDataDir},
	{"listeners", "", "", setListeners(func(c *Config) *[]image.Listener { return &c.Listeners }, true)},
	{"advertised.listeners", "", "", setListeners(func(c *Config) *[]image.Listener { return &c.AdvertisedListeners }, false)},
	{"broker.rack", "", "", func(c *Config, v string) error { c.Rack = &v; return nil }},
	{"controller.quorum.bootstrap.servers", "", "", setBootstrapServers},
	{"local.address", "", "", setLocalAddress},
	{"broker.heartbeat.interval.ms", "2000", "ms", millis(func(c *Config) *time.Duration { return &c.HeartbeatInterval }, 1)},
	{"broker.session.timeout.ms", "9000", "ms", millis(func(c *Config) *time.Duration { return &c.SessionTimeout }, 1)},
	{"replica.lag.time.max.ms", "30000", "ms", millis(func(c *Config) *time.Duration { return &c.LagTimeMax }, 2)},
	{"controller.quorum.election.timeout.ms", "300", "ms", millis(func(c *Config) *time.Duration { return &c.ElectionTimeout }, 50)},
	{"min.insync.replicas", "1", "", number(func(c *Config) *int { return &c.MinInsyncReplicas }, 1, math.MaxInt16)},
	{"eligible.leader.replicas.version", "1", "", number(func(c *Config) *int32 { return &c.EligibleLeaderReplicas }, 0, 1)},
	{"unclean.leader.election.enable", "false", "", boolean(func(c *Config) *bool { return &c.UncleanLeaderElection })},
	{"num.partitions", "1", "", number(func(c *Config) *int32 { return &c.Partitions }, 1, math.MaxInt32)},
	{"default.replication.factor", "1", "", number(func(c *Config) *int32 { return &c.ReplicationFactor }, 1, math.MaxInt16)},
	{"auto.create.topics.enable", "true", "", boolean(func(c *Config) *bool { return &c.AutoCreateTopics })},
	{"auto.leader.rebalance.enable", "true", "", boolean(func(c *Config) *bool { return &c.AutoLeaderRebalance })},
	{"leader.imbalance.check.interval.seconds", "300", "s", seconds(func(c *Config) *time.Duration { return &c.ImbalanceCheckInterval })},
	{"controlled.shutdown.enable", "true", "", boolean(func(c *Config) *bool { return &c.ControlledShutdown })},
	{"controlled.shutdown.max.wait.ms", "30000", "ms", millis(func(c *Config) *time.Duration { return &c.ControlledShutdownMax }, 1)},
	{"segment.bytes", "1073741824", "bytes", number(func(c *Config) *int32 { return &c.SegmentBytes }, 14, math.MaxInt32)},
	{"retention.ms", "604800000", "ms", millis(func(c *Config) *time.Duration { return &c.RetentionTime }, -1)},
	{"retention.bytes", "-1", "bytes", number(func(c *Config) *int64 { return &c.RetentionBytes }, -1, math.MaxInt64)},
	{"log.retention.check.interval.ms", "300000", "ms", millis(func(c *Config) *time.Duration { return &c.RetentionCheckInterval }, 1)},
	{"file.delete.delay.ms", "60000", "ms", millis(func(c *Config) *time.Duration { return &c.SegmentDeleteDelay }, 0)},
	{"metadata.max.records.per.batch", "10000", "records", number(func(c *Config) *int { return &c.BatchRecordsMax }, 1, 1<<20)},
	{"metadata.max.bytes.per.batch", "1048576", "bytes", number(func(c *Config) *int { return &c.BatchBytesMax }, 1024, 1<<20)},
	{"metadata.log.snapshot.entries", "8192", "entries", number(func(c *Config) *uint64 { return &c.SnapshotEntries }, 1, 1<<32)},
	{"metadata.log.snapshot.bytes", "20971520", "bytes", number(func(c *Config) *int64 { return &c.SnapshotBytes }, 1024, 1<<40)},
	{"metadata.log.trailing.entries", "20000", "entries", number(func(c *Config) *uint64 { return &c.TrailingEntries }, 1, 1<<32)},
	{"metadata.history.retention.ms", "604800000", "ms", millis(func(c *Config) *time.Duration { return &c.HistoryRetentionTime }, 0)},
	{"metadata.history.retention.bytes", "1073741824", "bytes", number(func(c *Config) *int64 { return &c.HistoryRetentionBytes }, 0, 1<<40)},
	{"replica.high.watermark.checkpoint.interval.ms", "5000", "ms", millis(func(c *Config) *time.Duration { return &c.WatermarkCheckpointTime }, 1)},
	{"producer.id.expiration.ms", "86400000", "ms", millis(func(c *Config) *time.Duration { return &c.ProducerIDExpiry }, 1)},
	{"num.recovery.threads.per.data.dir", "2", "", number(func(c *Config) *int { return &c.RecoveryThreads }, 1, 1024)},
	{"socket.request.max.bytes", "104857600", "bytes", number(func(c *Config) *int { return &c.RequestBytesMax }, 1024, math.MaxInt32)},
	{"http.pprof.enable", "false", "", boolean(func(c *Config) *bool { return &c.PprofEnabled })},
}

// keyByName finds a key.
func keyByName(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func number[T ~int | ~int32 | ~int64 | ~uint64](field func(*Config) *T, low, high int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := parseNumber(v, low, high)
		*field(c) = T(n)
		return err
	}
}

func millis(field func(*Config) *time.Duration, low int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := parseNumber(v, low, int64(math.MaxInt64/time.Millisecond))
		*field(c) = time.Duration(n) * time.Millisecond
		return err
	}
}

func seconds(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := parseNumber(v, 1, math.MaxInt32)
		*field(c) = time.Duration(n) * time.Second
		return err
	}
}

func parseNumber(v string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", v)
	}
	if n < low || n > high {
		return 0, fmt.Errorf("%d is outside %d to %d", n, low, high)
	}
	return n, nil
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		switch strings.ToLower(v) {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	}
}

func setRoles(c *Config, v string) error {
	c.Roles = nil
	for _, r := range splitList(v) {
		role := Role(r)
		switch {
		case role != Controller && role != Broker:
			return fmt.Errorf("%q is neither controller nor broker", r)
		case c.Has(role):
			return fmt.Errorf("%s is named twice", r)
		}
		c.Roles = append(c.Roles, role)
	}
	return nil
}

func setDataDir(c *Config, v string) error {
	dirs := splitList(v)
	if len(dirs) != 1 {
		return fmt.Errorf("%d directories; one is supported", len(dirs))
	}
	c.DataDir = dirs[0]
	return nil
}

func setBootstrapServers(c *Config, v string) error {
	c.BootstrapServers = splitList(v)
	for _, a := range c.BootstrapServers {
		if _, _, err := splitAddress(a); err != nil {
			return err
		}
	}
	return nil
}

func setLocalAddress(c *Config, v string) error {
	if net.ParseIP(v) == nil {
		return fmt.Errorf("%q is not an IP address", v)
	}
	c.LocalAddress = v
	return nil
}

// splitList splits at commas and drops blanks, as Kafka's list type does.
func splitList(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
