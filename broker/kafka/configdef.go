package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configDef describes a configuration key to clients. Its default is not here: the broker hands it in, so that there
// is one place that knows it.
type configDef struct {
	name      string
	kind      kmsg.ConfigType
	sensitive bool
	// brokerKey is the broker's key whose value a topic takes when it sets none; for a broker's own key it is empty.
	brokerKey string
	// clusterOnly values live in the metadata log: a broker's own file does not count.
	clusterOnly bool
	// fixed values of a broker cannot be changed while it runs.
	fixed bool
	doc   string
}

// topicConfigDefs are the keys of a topic, by name.
var topicConfigDefs = []configDef{
	{name: "cleanup.policy", kind: kmsg.ConfigTypeList, brokerKey: "log.cleanup.policy",
		doc: "What becomes of old segments: delete removes them when retention ends."},
	{name: "compression.type", kind: kmsg.ConfigTypeString, brokerKey: "compression.type",
		doc: "The codec of stored batches: producer keeps what the producer chose."},
	{name: "delete.retention.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.cleaner.delete.retention.ms",
		doc: "How long tombstones of a compacted topic are kept, in milliseconds."},
	{name: "file.delete.delay.ms", kind: kmsg.ConfigTypeLong, brokerKey: "file.delete.delay.ms",
		doc: "Time between the renaming of a segment that retention removes and its removal, in milliseconds."},
	{name: "flush.messages", kind: kmsg.ConfigTypeLong, brokerKey: "log.flush.interval.messages",
		doc: "Number of records after which a log is synced."},
	{name: "flush.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.flush.interval.ms",
		doc: "Time after which a log is synced, in milliseconds."},
	{name: "follower.replication.throttled.replicas", kind: kmsg.ConfigTypeList,
		doc: "Kept for tools that move replicas; replication is not throttled."},
	{name: "index.interval.bytes", kind: kmsg.ConfigTypeInt, brokerKey: "log.index.interval.bytes",
		doc: "Bytes of log between two entries of its offset index."},
	{name: "leader.replication.throttled.replicas", kind: kmsg.ConfigTypeList,
		doc: "Kept for tools that move replicas; replication is not throttled."},
	{name: "max.message.bytes", kind: kmsg.ConfigTypeInt, brokerKey: "message.max.bytes",
		doc: "Size of the largest record batch that is accepted, compressed as sent."},
	{name: "message.timestamp.after.max.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.message.timestamp.after.max.ms",
		doc: "How far a record's timestamp may lie after the broker's time, in milliseconds."},
	{name: "message.timestamp.before.max.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.message.timestamp.before.max.ms",
		doc: "How far a record's timestamp may lie before the broker's time, in milliseconds."},
	{name: "message.timestamp.type", kind: kmsg.ConfigTypeString, brokerKey: "log.message.timestamp.type",
		doc: "Whether a record bears the time of its making (CreateTime) or of its appending (LogAppendTime)."},
	{name: "min.insync.replicas", kind: kmsg.ConfigTypeInt, brokerKey: "min.insync.replicas", clusterOnly: true,
		doc: "Number of in-sync replicas below which a produce with acks=all is refused and the high watermark stands still."},
	{name: "preallocate", kind: kmsg.ConfigTypeBoolean, brokerKey: "log.preallocate",
		doc: "Whether a new segment's file gets its full size at once."},
	{name: "retention.bytes", kind: kmsg.ConfigTypeLong, brokerKey: "retention.bytes",
		doc: "Size of a partition's log above which its oldest segments are removed; -1 for no limit."},
	{name: "retention.ms", kind: kmsg.ConfigTypeLong, brokerKey: "retention.ms",
		doc: "Age above which segments are removed, in milliseconds; -1 for no limit."},
	{name: "segment.bytes", kind: kmsg.ConfigTypeInt, brokerKey: "segment.bytes",
		doc: "Size at which a log begins its next segment."},
	{name: "segment.index.bytes", kind: kmsg.ConfigTypeInt, brokerKey: "log.index.size.max.bytes",
		doc: "Size of the largest offset index of a segment."},
	{name: "segment.jitter.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.roll.jitter.ms",
		doc: "Largest random time that is taken off segment.ms, in milliseconds."},
	{name: "segment.ms", kind: kmsg.ConfigTypeLong, brokerKey: "log.roll.ms",
		doc: "Age at which a log begins its next segment, in milliseconds."},
	{name: "unclean.leader.election.enable", kind: kmsg.ConfigTypeBoolean, brokerKey: "unclean.leader.election.enable",
		doc: "Whether a replica outside the in-sync set may lead when no other can, at the price of acknowledged records."},
}

// brokerConfigDefs are the keys of a broker, by name.
var brokerConfigDefs = []configDef{
	{name: "advertised.listeners", kind: kmsg.ConfigTypeString, fixed: true,
		doc: "Addresses that clients and other nodes are told to connect to."},
	{name: "auto.create.topics.enable", kind: kmsg.ConfigTypeBoolean, fixed: true,
		doc: "Whether a topic is created when a client asks for its metadata."},
	{name: "auto.leader.rebalance.enable", kind: kmsg.ConfigTypeBoolean, fixed: true,
		doc: "Whether leadership returns to preferred replicas by itself."},
	{name: "broker.heartbeat.interval.ms", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Time between two heartbeats of a broker, in milliseconds."},
	{name: "broker.rack", kind: kmsg.ConfigTypeString, fixed: true, doc: "The broker's place, for spreading replicas."},
	{name: "broker.session.timeout.ms", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Time without a heartbeat after which a broker is fenced, in milliseconds."},
	{name: "controlled.shutdown.enable", kind: kmsg.ConfigTypeBoolean, fixed: true,
		doc: "Whether a stopping broker hands its leaderships over first."},
	{name: "controlled.shutdown.max.wait.ms", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Longest controlled shutdown, in milliseconds."},
	{name: "controller.quorum.bootstrap.servers", kind: kmsg.ConfigTypeList, fixed: true,
		doc: "Addresses at which controllers are found."},
	{name: "default.replication.factor", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Replication factor of topics created without one."},
	{name: "file.delete.delay.ms", kind: kmsg.ConfigTypeLong,
		doc: "Time between the renaming of a segment that retention removes and its removal, in milliseconds."},
	{name: "follower.replication.throttled.rate", kind: kmsg.ConfigTypeLong,
		doc: "Kept for tools that move replicas; replication is not throttled."},
	{name: "leader.imbalance.check.interval.seconds", kind: kmsg.ConfigTypeLong, fixed: true,
		doc: "Time between two looks for leaders that are not preferred, in seconds."},
	{name: "leader.replication.throttled.rate", kind: kmsg.ConfigTypeLong,
		doc: "Kept for tools that move replicas; replication is not throttled."},
	{name: "listeners", kind: kmsg.ConfigTypeString, fixed: true, doc: "Addresses that the node listens on."},
	{name: "log.dirs", kind: kmsg.ConfigTypeString, fixed: true, doc: "The data directory."},
	{name: "message.max.bytes", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Size of the largest record batch that is accepted, compressed as sent."},
	{name: "min.insync.replicas", kind: kmsg.ConfigTypeInt, clusterOnly: true,
		doc: "Number of in-sync replicas below which a produce with acks=all is refused; one value for the cluster."},
	{name: "node.id", kind: kmsg.ConfigTypeInt, fixed: true, doc: "The node's id."},
	{name: "num.partitions", kind: kmsg.ConfigTypeInt, fixed: true,
		doc: "Number of partitions of topics created without one."},
	{name: "process.roles", kind: kmsg.ConfigTypeList, fixed: true, doc: "What the node is: broker, controller or both."},
	{name: "replica.alter.log.dirs.io.max.bytes.per.second", kind: kmsg.ConfigTypeLong,
		doc: "Kept for tools that move replicas; replication is not throttled."},
	{name: "replica.lag.time.max.ms", kind: kmsg.ConfigTypeLong, fixed: true,
		doc: "Time without being caught up after which a follower leaves the in-sync set, in milliseconds."},
	{name: "retention.bytes", kind: kmsg.ConfigTypeLong,
		doc: "Size of a partition's log above which its oldest segments are removed; -1 for no limit."},
	{name: "retention.ms", kind: kmsg.ConfigTypeLong,
		doc: "Age above which segments are removed, in milliseconds; -1 for no limit."},
	{name: "segment.bytes", kind: kmsg.ConfigTypeInt,
		doc: "Size at which a log begins its next segment."},
	{name: "unclean.leader.election.enable", kind: kmsg.ConfigTypeBoolean,
		doc: "Whether a replica outside the in-sync set may lead when no other can, at the price of acknowledged records."},
}
