package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Keys that decisions themselves read.
const (
	configMinInsyncReplicas     = "min.insync.replicas"
	configUncleanLeaderElection = "unclean.leader.election.enable"
)

// configRule checks a value; the error says what the value must be.
type configRule func(value string) error

// topicConfigs are the keys that a topic may set, with Kafka's names and bounds (org.apache.kafka.common.config.TopicConfig).
var topicConfigs = map[string]configRule{
	configMinInsyncReplicas:                   atLeast(1, 1<<31-1),
	configUncleanLeaderElection:               boolean,
	"retention.ms":                            atLeast(-1, 1<<63-1),
	"retention.bytes":                         atLeast(-1, 1<<63-1),
	"segment.bytes":                           atLeast(14, 1<<31-1),
	"segment.ms":                              atLeast(1, 1<<63-1),
	"segment.index.bytes":                     atLeast(4, 1<<31-1),
	"segment.jitter.ms":                       atLeast(0, 1<<63-1),
	"index.interval.bytes":                    atLeast(0, 1<<31-1),
	"max.message.bytes":                       atLeast(0, 1<<31-1),
	"flush.messages":                          atLeast(1, 1<<63-1),
	"flush.ms":                                atLeast(0, 1<<63-1),
	"file.delete.delay.ms":                    atLeast(0, 1<<63-1),
	"preallocate":                             boolean,
	"compression.type":                        oneOf("producer"),
	"cleanup.policy":                          oneOf("delete"),
	"message.timestamp.type":                  oneOf("CreateTime", "LogAppendTime"),
	"message.timestamp.before.max.ms":         atLeast(0, 1<<63-1),
	"message.timestamp.after.max.ms":          atLeast(0, 1<<63-1),
	"leader.replication.throttled.replicas":   throttledReplicas,
	"follower.replication.throttled.replicas": throttledReplicas,
}

// brokerConfigs are the keys that all brokers, or one, may set. Those that topics have too are the defaults of all topics.
var brokerConfigs = map[string]configRule{
	configMinInsyncReplicas:                          topicConfigs[configMinInsyncReplicas],
	configUncleanLeaderElection:                      boolean,
	"retention.ms":                                   topicConfigs["retention.ms"],
	"retention.bytes":                                topicConfigs["retention.bytes"],
	"segment.bytes":                                  topicConfigs["segment.bytes"],
	"file.delete.delay.ms":                           topicConfigs["file.delete.delay.ms"],
	"leader.replication.throttled.rate":              atLeast(0, 1<<63-1),
	"follower.replication.throttled.rate":            atLeast(0, 1<<63-1),
	"replica.alter.log.dirs.io.max.bytes.per.second": atLeast(0, 1<<63-1),
}

// brokerOwnConfigs are the keys that one broker may have for itself. Tools that move replicas set and delete them, so they
// are kept, and mean nothing here: replication is not throttled.
var brokerOwnConfigs = map[string]bool{
	"leader.replication.throttled.rate":              true,
	"follower.replication.throttled.rate":            true,
	"replica.alter.log.dirs.io.max.bytes.per.second": true,
}

// TopicConfigKeys and BrokerConfigKeys list the keys that can be set, by name.
func TopicConfigKeys() []string  { return slices.Sorted(maps.Keys(topicConfigs)) }
func BrokerConfigKeys() []string { return slices.Sorted(maps.Keys(brokerConfigs)) }

// listConfigs are the keys that can be appended to and subtracted from.
var listConfigs = map[string]bool{
	"leader.replication.throttled.replicas":   true,
	"follower.replication.throttled.replicas": true,
}

// checkTopicConfig tells what is wrong with a topic's config; the text names key, value and rule.
func checkTopicConfig(key, value string) error { return checkConfig(topicConfigs, "topic", key, value) }

func checkConfig(rules map[string]configRule, scope, key, value string) error {
	rule, ok := rules[key]
	if !ok {
		return unknownConfig(rules, scope, key)
	}
	if err := rule(value); err != nil {
		return fmt.Errorf("%s config %s=%q: %w", scope, key, controllerpb.Echo(value), err)
	}
	return nil
}

func atLeast(low, high int64) configRule {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Errorf("must be a whole number from %d to %d", low, high)
		}
		return nil
	}
}

func boolean(value string) error { return oneOf("true", "false")(value) }

func oneOf(values ...string) configRule {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("must be %s", strings.Join(values, " or "))
		}
		return nil
	}
}

// throttledReplicas takes "*", nothing, or partition:broker pairs. Throttles are stored, and are not the controller's business.
func throttledReplicas(value string) error {
	if value == "*" || value == "" {
		return nil
	}
	for _, pair := range strings.Split(value, ",") {
		p, b, ok := strings.Cut(strings.TrimSpace(pair), ":")
		if _, err := strconv.ParseUint(p, 10, 31); !ok || err != nil {
			return fmt.Errorf(`must be "*" or a list of partition:broker`)
		}
		if _, err := strconv.ParseUint(b, 10, 31); err != nil {
			return fmt.Errorf(`must be "*" or a list of partition:broker`)
		}
	}
	return nil
}

// unknownConfig names the nearest known key, the first by name among equals, if it is near enough to be meant, else all.
func unknownConfig(rules map[string]configRule, scope, key string) error {
	if len(key) > topicNameMax {
		return fmt.Errorf("the name of a %s config has %d characters, at most %d are taken", scope, len(key), topicNameMax)
	}
	known := slices.Sorted(maps.Keys(rules))
	if best := Nearest(key, known, len(key)/3+1); best != "" {
		return fmt.Errorf("%s config %q is unknown; did you mean %q?", scope, key, best)
	}
	return fmt.Errorf("%s config %q is unknown; those that can be set are %s", scope, key, strings.Join(known, ", "))
}
