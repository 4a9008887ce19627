package main

import (
	"context"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

const (
	answerOffset = 20
	goneTopic    = "gone"
)

// goneError is how a controller refuses what belongs to the topic that does not exist.
func goneError(topic string) *controllerpb.Error {
	if topic != goneTopic {
		return nil
	}
	return &controllerpb.Error{Code: controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, Message: `no topic has the name "gone"`}
}

func change(partition int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{TopicId: id16(64), Partition: partition}}}
}

func TestTopicAddPartitions(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "orders", Partitions: orders().GetPartitions()[:2]})
		h.CreatePartitions = func(_ context.Context, r *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error) {
			resp := &controllerpb.CreatePartitionsResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2, 3}}
			for _, topic := range r.GetTopics() {
				resp.Topics = append(resp.Topics, &controllerpb.CreatePartitionsTopicResult{Name: topic.GetName(), Error: goneError(topic.GetName())})
				for i, list := range topic.GetAssignments() {
					resp.Records = append(resp.Records, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
						TopicId: id16(64), Partition: int32(2 + i), Replicas: list.GetIds(), Isr: list.GetIds(), Leader: &list.GetIds()[0],
					}}})
				}
			}
			if !r.GetValidateOnly() {
				resp.Records = nil
			}
			return resp, nil
		}
	})
	w.golden(t, "topic_add_partitions.txt", nil)
}

func TestConfigDescribe(t *testing.T) { newConfigWorld(t).golden(t, "config_describe.txt", nil) }

func TestConfigSet(t *testing.T) { newConfigWorld(t).golden(t, "config_set.txt", nil) }

func TestConfigUnset(t *testing.T) { newConfigWorld(t).golden(t, "config_unset.txt", nil) }

func newConfigWorld(t *testing.T) *world {
	w := newWorld(t)
	describe := func(file string) func(context.Context, *controllerpb.DescribeConfigsRequest) (*controllerpb.DescribeConfigsResponse, error) {
		return func(_ context.Context, r *controllerpb.DescribeConfigsRequest) (*controllerpb.DescribeConfigsResponse, error) {
			return describeConfigs(r, file), nil
		}
	}
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeConfigs = describe("")
		h.AlterConfigs = func(_ context.Context, r *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error) {
			resp := &controllerpb.AlterConfigsResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2, 3}}
			for _, res := range r.GetResources() {
				resp.Resources = append(resp.Resources, &controllerpb.AlterableResourceResult{Type: res.GetType(), Name: res.GetName(), Error: goneError(res.GetName())})
				for _, c := range res.GetChanges() {
					resp.Records = append(resp.Records, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
						ResourceType: res.GetType(), ResourceName: res.GetName(), Key: c.GetName(), Value: c.Value,
					}}})
				}
			}
			if !r.GetValidateOnly() {
				resp.Records = nil
			}
			return resp, nil
		}
	})
	w.brokers[0].SetHandlers(func(h *clienttest.Handlers) { h.DescribeConfigs = describe("2097152") })
	return w
}

// describeConfigs answers like a node whose file gives segment.bytes.
func describeConfigs(r *controllerpb.DescribeConfigsRequest, file string) *controllerpb.DescribeConfigsResponse {
	resp := &controllerpb.DescribeConfigsResponse{MetadataOffset: max(answerOffset, r.GetOptions().GetMinOffset())}
	for _, res := range r.GetResources() {
		d := &controllerpb.ConfigResourceDescription{Type: res.GetType(), Name: res.GetName(), Error: goneError(res.GetName())}
		minISR := &controllerpb.EffectiveConfig{Name: "min.insync.replicas", Value: "2", Source: controllerpb.ConfigSource_CONFIG_SOURCE_CLUSTER}
		switch {
		case d.GetError() != nil:
		case res.GetType() == metadatapb.ResourceType_RESOURCE_TYPE_TOPIC:
			d.Configs = []*controllerpb.EffectiveConfig{minISR, {Name: "retention.ms", Value: "60000", Source: controllerpb.ConfigSource_CONFIG_SOURCE_TOPIC}}
		case res.GetName() == "":
			d.Configs = []*controllerpb.EffectiveConfig{minISR}
		case file != "":
			d.Configs = []*controllerpb.EffectiveConfig{{Name: "segment.bytes", Value: file, Source: controllerpb.ConfigSource_CONFIG_SOURCE_STATIC}}
		default:
			d.Configs = []*controllerpb.EffectiveConfig{{Name: "segment.bytes", Value: "1073741824", Source: controllerpb.ConfigSource_CONFIG_SOURCE_DEFAULT}}
		}
		resp.Resources = append(resp.Resources, d)
	}
	return resp
}

func TestBrokerDescribe(t *testing.T) {
	newWorld(t).golden(t, "broker_describe.txt", nil)
}

func TestBrokerUnregister(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.UnregisterBroker = func(_ context.Context, r *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
			if r.GetBrokerId() != 3 {
				return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "broker 9 is not registered")
			}
			resp := &controllerpb.UnregisterBrokerResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2}}
			if r.GetValidateOnly() {
				resp.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_UnregisterBroker{UnregisterBroker: &metadatapb.UnregisterBroker{BrokerId: 3, BrokerEpoch: 7}}}}
			}
			return resp, nil
		}
	})
	w.golden(t, "broker_unregister.txt", nil)
}
