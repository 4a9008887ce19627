package image

import (
	"strconv"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ConfigSource tells where a value in force comes from.
type ConfigSource int

// The sources, from the nearest to the farthest.
const (
	// ConfigSourceNone: nobody sets the key.
	ConfigSourceNone ConfigSource = iota
	// ConfigSourceTopic: set for the topic.
	ConfigSourceTopic
	// ConfigSourceBroker: set for one broker.
	ConfigSourceBroker
	// ConfigSourceClusterDefault: set for all brokers, by the broker resource with the empty name.
	ConfigSourceClusterDefault
	// ConfigSourceStatic: from the table of defaults that the caller handed in.
	ConfigSourceStatic
)

// MinInsyncReplicasConfig is a key whose cluster default lives in the metadata log only, never in a node's file, so
// that all nodes agree on it (KIP-966).
const MinInsyncReplicasConfig = "min.insync.replicas"

// EffectiveConfig returns the value in force for a topic, and where it comes from: the topic, the cluster default,
// then static, a table of defaults by key, which may be nil.
func (im *Image) EffectiveConfig(topic, key string, static map[string]string) (string, ConfigSource) {
	if v, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, topic, key); ok {
		return v, ConfigSourceTopic
	}
	return im.clusterConfig(key, static)
}

// EffectiveBrokerConfig returns the value in force for one broker: the broker, the cluster default, then static.
func (im *Image) EffectiveBrokerConfig(id BrokerID, key string, static map[string]string) (string, ConfigSource) {
	if v, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, id.String(), key); ok {
		return v, ConfigSourceBroker
	}
	return im.clusterConfig(key, static)
}

func (im *Image) clusterConfig(key string, static map[string]string) (string, ConfigSource) {
	if v, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", key); ok {
		return v, ConfigSourceClusterDefault
	}
	if v, ok := static[key]; ok {
		return v, ConfigSourceStatic
	}
	return "", ConfigSourceNone
}

// MinInsyncReplicas returns min.insync.replicas in force for a topic, at least 1 and at most replicas: Kafka counts a
// partition with fewer replicas than that as whole when all of them are in sync (KIP-966). Without a setting it is 1.
func (im *Image) MinInsyncReplicas(topic string, replicas int) int {
	v, _ := im.EffectiveConfig(topic, MinInsyncReplicasConfig, nil)
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		n = 1
	}
	return max(min(n, replicas), 1)
}
