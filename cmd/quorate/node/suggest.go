package node

import (
	"fmt"
	"strings"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// renamedKeys are Kafka's keys whose meaning has another name here. They are refused, for to ignore them would change
// what an operator asked for.
var renamedKeys = map[string]string{
	"log.dir":                                         "log.dirs",
	"broker.id":                                       "node.id",
	"controller.quorum.voters":                        "controller.quorum.bootstrap.servers",
	"log.segment.bytes":                               "segment.bytes",
	"log.retention.ms":                                "retention.ms",
	"log.retention.minutes":                           "retention.ms",
	"log.retention.hours":                             "retention.ms",
	"log.retention.bytes":                             "retention.bytes",
	"log.segment.delete.delay.ms":                     "file.delete.delay.ms",
	"metadata.log.max.snapshot.bytes":                 "metadata.log.snapshot.bytes",
	"metadata.max.retention.ms":                       "metadata.history.retention.ms",
	"metadata.max.retention.bytes":                    "metadata.history.retention.bytes",
	"metadata.log.max.record.bytes.between.snapshots": "metadata.log.snapshot.bytes",
}

// kafkaKeys are Kafka's other broker and controller keys as of Kafka 4; a trailing dot stands for all keys below.
var kafkaKeys = strings.Fields(`
	advertised.host.name alter.config.policy. alter.log.dirs.replication. authorizer.class.name auto.include.jmx.reporter
	background.threads broker.id.generation.enable client.quota. compression.type config.providers connection.failed.authentication.delay.ms
	connections.max.idle.ms connections.max.reauth.ms controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
	controller.listener.names controller.performance. controller.quorum.append.linger.ms controller.quorum.auto.join.enable
	controller.quorum.election.backoff.max.ms controller.quorum.fetch. controller.quorum.request.timeout.ms
	controller.quorum.retry.backoff.ms controller.quota. controller.socket.timeout.ms create.topic.policy.
	default.replication.max delegation.token. delete.records.purgatory.purge.interval.requests delete.topic.enable
	early.start.listeners fetch.max.bytes fetch.purgatory.purge.interval.requests flush.messages flush.ms group.
	initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version kafka.metrics.
	leader.imbalance.per.broker.percentage listener.security.protocol.map log.cleaner. log.cleanup.policy log.dir.failure.timeout.ms
	log.flush. log.index. log.initial.task.delay.ms log.local. log.message. log.preallocate log.roll. log.segment.
	max.connection. max.connections max.connections. max.incremental.fetch.session.cache.slots max.request.partition.size.limit
	message.max.bytes metadata.log.dir metadata.log.max. metadata.log.segment. metadata.max.idle.interval.ms metric.reporters metrics.
	num.io.threads num.network.threads num.replica. num.replica.fetchers offset.metadata.max.bytes offsets. password.encoder.
	principal.builder.class producer.id. producer.purgatory.purge.interval.requests queued.max. quota. remote. replica.fetch.
	replica.selector.class replica.socket. replication. request.timeout.ms reserved.broker.max.id sasl. security. server.max.startup.time.ms
	share. socket. ssl. telemetry. transaction. transactional. unclean.leader.election.interval.ms unstable. zookeeper.
`)

// meaningless tells whether a key is one of Kafka's that nothing here corresponds to.
func meaningless(name string) bool {
	if strings.HasPrefix(name, "listener.name.") {
		return true
	}
	for _, k := range kafkaKeys {
		if name == k || strings.HasSuffix(k, ".") && strings.HasPrefix(name, k) {
			return true
		}
	}
	return false
}

// unknownKey names the nearest known key if one is near enough to be meant.
func unknownKey(name string) error {
	known := make([]string, len(keys))
	for i, k := range keys {
		known[i] = k.name
	}
	if best := controller.Nearest(name, known, len(name)/2+1); best != "" {
		return fmt.Errorf("unknown key %s; did you mean %s?", name, best)
	}
	return fmt.Errorf("unknown key %s; quorate server --print-config lists all keys", controllerpb.Echo(name))
}
