package kafka

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// describeConfigs shows configurations from this broker's image. Refusals, each on its resource:
//   - topic: bad name INVALID_TOPIC_EXCEPTION, unknown UNKNOWN_TOPIC_OR_PARTITION
//   - broker: a name that is neither this broker's id nor empty (the cluster's defaults): INVALID_REQUEST
//   - any other type: INVALID_REQUEST
//
// A null or empty key list asks for all keys; unknown keys are left out. A secret's value is null.
func (s *Server) describeConfigs(r *request) {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.DescribeConfigsResponse](r)
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, 0, len(req.Resources))
	for _, in := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		values, err := s.describeResource(im, in.ResourceType, in.ResourceName)
		out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
		for i := range values {
			if len(in.ConfigNames) == 0 || slices.Contains(in.ConfigNames, values[i].def.name) {
				out.Configs = append(out.Configs, values[i].describe(in.ResourceType, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	r.reply(resp)
}

func (s *Server) describeResource(im *image.Image, kind kmsg.ConfigResourceType, name string) ([]configValue, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if _, ok := im.TopicByName(name); !ok {
			if !validTopicName(name) {
				return nil, kerr.InvalidTopicException
			}
			return nil, kerr.UnknownTopicOrPartition
		}
		own := map[string]string{}
		for key, value := range im.Configs(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, name) {
			own[key] = value
		}
		return s.topicConfigs(im, own), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return s.clusterDefaultConfigs(im), nil
		}
		if me := strconv.Itoa(int(s.backend.Metadata.BrokerID())); name != me {
			return nil, refused(kerr.InvalidRequest.Code, fmt.Sprintf(
				"this is broker %s, the request is about broker %q; ask that broker, or leave the name empty for the cluster's defaults", me, controllerpb.Echo(name)))
		}
		return s.brokerConfigs(im), nil
	default:
		return nil, refused(kerr.InvalidRequest.Code, fmt.Sprintf("resource type %d has no configuration here; types are 2 (topic) and 4 (broker)", int8(kind)))
	}
}

// describe makes the client's form of a value.
func (v *configValue) describe(kind kmsg.ConfigResourceType, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.Source = v.def.name, v.shown(), v.source()
	out.IsDefault = v.source() == kmsg.ConfigSourceDefaultConfig
	out.IsSensitive = v.def.sensitive
	out.ReadOnly = kind == kmsg.ConfigResourceTypeBroker && v.def.fixed
	out.ConfigType = v.def.kind
	out.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if req.IncludeSynonyms {
		for _, l := range v.layers {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Value, syn.Source = l.name, v.def.hide(l.value), l.source
			out.ConfigSynonyms = append(out.ConfigSynonyms, syn)
		}
	}
	if req.IncludeDocumentation {
		doc := v.def.doc
		out.Documentation = &doc
	}
	return out
}
