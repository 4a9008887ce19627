package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ConfigKeys lists the keys of topics or of brokers that clients are shown, by name.
func ConfigKeys(t metadatapb.ResourceType) []string {
	defs := topicConfigDefs
	if t == metadatapb.ResourceType_RESOURCE_TYPE_BROKER {
		defs = brokerConfigDefs
	}
	names := make([]string, len(defs))
	for i := range defs {
		names[i] = defs[i].name
	}
	return names
}

// configValue is a key with all the values that it could have, the one in force first.
type configValue struct {
	def    *configDef
	layers []configLayer
}

// configLayer is a value of a key, and where it comes from.
type configLayer struct {
	name   string // of the key there
	value  string
	source kmsg.ConfigSource
}

func (v *configValue) source() kmsg.ConfigSource { return v.layers[0].source }

// shown is the value for clients: null if it is a secret.
func (v *configValue) shown() *string { return v.def.hide(v.layers[0].value) }

func (d *configDef) hide(value string) *string {
	if d.sensitive {
		return nil
	}
	return &value
}

// topicConfigs are the values in force for a topic that sets some of its own, by key. Keys that this broker has no
// value for at all are left out.
func (s *Server) topicConfigs(im *image.Image, own map[string]string) []configValue {
	var out []configValue
	for i := range topicConfigDefs {
		d := &topicConfigDefs[i]
		v := configValue{def: d}
		if value, ok := own[d.name]; ok {
			v.layers = append(v.layers, configLayer{d.name, value, kmsg.ConfigSourceDynamicTopicConfig})
		}
		v.layers = append(v.layers, s.brokerLayers(im, d.brokerKey, d.clusterOnly)...)
		if len(v.layers) > 0 {
			out = append(out, v)
		}
	}
	return out
}

// brokerConfigs are the values in force on this broker, by key.
func (s *Server) brokerConfigs(im *image.Image) []configValue {
	var out []configValue
	for i := range brokerConfigDefs {
		d := &brokerConfigDefs[i]
		if layers := s.brokerLayers(im, d.name, d.clusterOnly); len(layers) > 0 {
			out = append(out, configValue{def: d, layers: layers})
		}
	}
	return out
}

// clusterDefaultConfigs are the values that all brokers take when they have none of their own.
func (s *Server) clusterDefaultConfigs(im *image.Image) []configValue {
	var out []configValue
	for i := range brokerConfigDefs {
		d := &brokerConfigDefs[i]
		if value, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", d.name); ok {
			out = append(out, configValue{def: d, layers: []configLayer{{d.name, value, kmsg.ConfigSourceDynamicDefaultBrokerConfig}}})
		}
	}
	return out
}

// brokerLayers are the values of a broker's key, the one in force first: set for this broker, set for all brokers,
// given at its start, built in.
func (s *Server) brokerLayers(im *image.Image, key string, clusterOnly bool) []configLayer {
	var out []configLayer
	id := strconv.Itoa(int(s.backend.Metadata.BrokerID()))
	if value, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, id, key); ok && !clusterOnly {
		out = append(out, configLayer{key, value, kmsg.ConfigSourceDynamicBrokerConfig})
	}
	if value, ok := im.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", key); ok {
		out = append(out, configLayer{key, value, kmsg.ConfigSourceDynamicDefaultBrokerConfig})
	}
	if value, ok := s.backend.Configs.Static(key); ok && !clusterOnly {
		out = append(out, configLayer{key, value, kmsg.ConfigSourceStaticBrokerConfig})
	}
	if value, ok := s.backend.Configs.Default(key); ok {
		out = append(out, configLayer{key, value, kmsg.ConfigSourceDefaultConfig})
	}
	return out
}
