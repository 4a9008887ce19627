package reader

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Settings are the node's own configuration, and the keys that there are.
type Settings interface {
	// Keys lists the keys of a type of resource, by name.
	Keys(metadatapb.ResourceType) []string
	// Static returns the value that the node's file, environment or command line gives.
	Static(key string) (value string, ok bool)
	// Default returns the built-in value.
	Default(key string) (value string, ok bool)
}

// minInsyncReplicas lives in the metadata log alone: no node's own value counts.
const minInsyncReplicas = image.MinInsyncReplicasConfig

const (
	topicType  = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC
	brokerType = metadatapb.ResourceType_RESOURCE_TYPE_BROKER
)

// DescribeConfigs returns the values in force of topics and brokers, each with its source. What is not in the metadata log
// is told as the answering node has it; of another broker it is not told.
//
// Refusals of one resource: UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST for other types.
func (s *Server) DescribeConfigs(ctx context.Context, r *controllerpb.DescribeConfigsRequest) (*controllerpb.DescribeConfigsResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.DescribeConfigsResponse{MetadataOffset: int64(im.Offset())}
	for _, res := range r.GetResources() {
		d := &controllerpb.ConfigResourceDescription{Type: res.GetType(), Name: res.GetName()}
		d.Configs, d.Error = s.effective(im, res.GetType(), res.GetName())
		response.Resources = append(response.Resources, d)
	}
	return response, nil
}

func (s *Server) effective(im *image.Image, kind metadatapb.ResourceType, name string) ([]*controllerpb.EffectiveConfig, *controllerpb.Error) {
	own, static := controllerpb.ConfigSource_CONFIG_SOURCE_TOPIC, true
	switch kind {
	case topicType:
		if _, ok := im.TopicByName(name); !ok {
			return nil, controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "no topic has the name %q: `quorate topic list` shows all", name)
		}
	case brokerType:
		if name == "" {
			return allBrokers(im), nil
		}
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || strconv.FormatInt(id, 10) != name {
			return nil, controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "broker %q is no number: name a broker by its id, or leave the name empty for all brokers", name)
		}
		if _, ok := im.Broker(image.BrokerID(id)); !ok {
			return nil, controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "broker %d is not registered: `quorate broker list` shows those that are", id)
		}
		own, static = controllerpb.ConfigSource_CONFIG_SOURCE_BROKER, int32(id) == s.source.Status().GetNodeId()
	default:
		return nil, controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "resources of type %d have no configs; types are 2 (topic) and 4 (broker)", kind)
	}
	var out []*controllerpb.EffectiveConfig
	settings := s.source.Settings()
	for _, key := range settings.Keys(kind) {
		c := &controllerpb.EffectiveConfig{Name: key, Source: own}
		var ok bool
		if c.Value, ok = im.Config(kind, name, key); !ok {
			c.Value, c.Source, ok = inherited(im, settings, key, static)
		}
		if ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// allBrokers are the values that are set for all brokers.
func allBrokers(im *image.Image) []*controllerpb.EffectiveConfig {
	var out []*controllerpb.EffectiveConfig
	for key, value := range im.Configs(brokerType, "") {
		out = append(out, &controllerpb.EffectiveConfig{Name: key, Value: value, Source: controllerpb.ConfigSource_CONFIG_SOURCE_CLUSTER})
	}
	return out
}

// inherited is the value of a key that its resource does not set.
func inherited(im *image.Image, settings Settings, key string, static bool) (string, controllerpb.ConfigSource, bool) {
	if value, ok := im.Config(brokerType, "", key); ok {
		return value, controllerpb.ConfigSource_CONFIG_SOURCE_CLUSTER, true
	}
	if static && key != minInsyncReplicas {
		if value, ok := settings.Static(key); ok {
			return value, controllerpb.ConfigSource_CONFIG_SOURCE_STATIC, true
		}
	}
	value, ok := settings.Default(key)
	return value, controllerpb.ConfigSource_CONFIG_SOURCE_DEFAULT, ok
}
