package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// resourceFlags say whose configs are meant, in the words of Kafka's kafka-configs.
type resourceFlags struct {
	topics   []string
	brokers  []int32
	defaults bool
}

func (r *resourceFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&r.topics, "topic", nil, "a topic; may be repeated")
	f.Int32SliceVar(&r.brokers, "broker", nil, "a broker by id; may be repeated")
	f.Lookup("broker").DefValue = ""
	f.BoolVar(&r.defaults, "broker-defaults", false, "the cluster's defaults: what counts for every broker, and for topics that say nothing else")
}

func (r *resourceFlags) resources() ([]*controllerpb.ConfigResource, error) {
	var out []*controllerpb.ConfigResource
	for _, name := range r.topics {
		if name == "" {
			return nil, errors.New("--topic is empty; name a topic, or use --broker-defaults")
		}
		out = append(out, &controllerpb.ConfigResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: name})
	}
	for _, id := range r.brokers {
		out = append(out, &controllerpb.ConfigResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, Name: strconv.Itoa(int(id))})
	}
	if r.defaults {
		out = append(out, &controllerpb.ConfigResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_BROKER})
	}
	if len(out) == 0 {
		return nil, errors.New("whose configs? give --topic NAME, --broker ID or --broker-defaults")
	}
	return out, nil
}

func resourceType(t metadatapb.ResourceType) string {
	if t == metadatapb.ResourceType_RESOURCE_TYPE_TOPIC {
		return "topic"
	}
	return "broker"
}

// resourceName is a resource as text; all brokers have the empty name.
func resourceName(t metadatapb.ResourceType, name string) string {
	if t == metadatapb.ResourceType_RESOURCE_TYPE_BROKER && name == "" {
		return "broker-defaults"
	}
	return fmt.Sprintf("%s %s", resourceType(t), name)
}

func resourceJSON(t metadatapb.ResourceType, name string) object {
	return object{{"type", resourceType(t)}, {"name", name}}
}

// configSources has Kafka's names (DescribeConfigs).
var configSources = map[controllerpb.ConfigSource]string{
	controllerpb.ConfigSource_CONFIG_SOURCE_TOPIC:   "DYNAMIC_TOPIC_CONFIG",
	controllerpb.ConfigSource_CONFIG_SOURCE_BROKER:  "DYNAMIC_BROKER_CONFIG",
	controllerpb.ConfigSource_CONFIG_SOURCE_CLUSTER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
	controllerpb.ConfigSource_CONFIG_SOURCE_STATIC:  "STATIC_BROKER_CONFIG",
	controllerpb.ConfigSource_CONFIG_SOURCE_DEFAULT: "DEFAULT_CONFIG",
}

func configSource(s controllerpb.ConfigSource) string { return cmp.Or(configSources[s], "UNKNOWN") }
