package controller

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ConfigOp is one of Kafka's incremental operations (KIP-339), with Kafka's numbers.
type ConfigOp int8

const (
	ConfigSet      ConfigOp = 0
	ConfigDelete   ConfigOp = 1
	ConfigAppend   ConfigOp = 2
	ConfigSubtract ConfigOp = 3
)

// AlterConfigsRequest changes dynamic configs.
type AlterConfigsRequest struct {
	Resources    []AlterableResource
	ValidateOnly bool
}

// AlterableResource is a topic by name, a broker by decimal id, or all brokers by the empty name.
type AlterableResource struct {
	Type metadatapb.ResourceType
	Name string
	Ops  []AlterableConfig
}

// AlterableConfig is one operation on one key.
type AlterableConfig struct {
	Key   string
	Op    ConfigOp
	Value string
}

// ResourceResult is the answer for one resource; Err is nil for NONE.
type ResourceResult struct {
	Type metadatapb.ResourceType
	Name string
	Err  *controllerpb.Error
}

// AlterConfigsResponse holds the answers in the order of the request.
type AlterConfigsResponse struct {
	Resources []ResourceResult
	// Records that would be written, with ValidateOnly.
	Records []*metadatapb.Record
}

// AlterConfigs sets and removes dynamic configs, in one atomic decision. One failing key fails its resource; other
// resources go on. What does not change is not written.
//
//	INVALID_REQUEST             the resource stands in the request a second time, or is of an unknown type
//	INVALID_CONFIG              a key that stands there twice, is unknown, has a value outside its bounds, or is appended
//	                            to without being a list
//	UNKNOWN_TOPIC_OR_PARTITION  no such topic
//	BROKER_ID_NOT_REGISTERED    no such broker
//	POLICY_VIOLATION            the whole request: more records or bytes than one batch may have
//
// Values that decisions use act on the next decision at once. What they mean for partitions as they are, ApplyConfigs
// finds out; the caller decides it next.
func AlterConfigs(v View, req *AlterConfigsRequest) (Decision[*AlterConfigsResponse], error) {
	d := Decision[*AlterConfigsResponse]{Atomic: true, Response: &AlterConfigsResponse{}}
	type resource struct {
		kind metadatapb.ResourceType
		name string
	}
	seen := make(map[resource]bool)
	var records []*metadatapb.Record
	for _, r := range req.Resources {
		var written []*metadatapb.Record
		err := checkResource(v.Image, r)
		if seen[resource{r.Type, r.Name}] {
			err = controllerpb.NewError(codeInvalidRequest, "the resource %q stands in the request twice", r.Name)
		}
		seen[resource{r.Type, r.Name}] = true
		if err == nil {
			written, err = alterResource(v.Image, r)
		}
		records = append(records, written...)
		d.Response.Resources = append(d.Response.Resources, ResourceResult{Type: r.Type, Name: r.Name, Err: err})
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*AlterConfigsResponse]{}, err
	}
	if req.ValidateOnly {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

func checkResource(im *image.Image, r AlterableResource) *controllerpb.Error {
	switch r.Type {
	case metadatapb.ResourceType_RESOURCE_TYPE_TOPIC:
		if _, ok := im.TopicByName(r.Name); !ok {
			return controllerpb.NewError(codeUnknownTopicOrPartition, "no topic has the name %q", r.Name)
		}
	case metadatapb.ResourceType_RESOURCE_TYPE_BROKER:
		if r.Name == "" {
			return nil
		}
		id, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil {
			return controllerpb.NewError(codeInvalidRequest, "broker %q is no number", r.Name)
		}
		if _, ok := im.Broker(image.BrokerID(id)); !ok {
			return controllerpb.NewError(codeBrokerIDNotRegistered, "broker %d is not registered", id)
		}
	default:
		return controllerpb.NewError(codeInvalidRequest, "resources of type %d have no configs", r.Type)
	}
	return nil
}

func alterResource(im *image.Image, r AlterableResource) ([]*metadatapb.Record, *controllerpb.Error) {
	var records []*metadatapb.Record
	ops := slices.Clone(r.Ops)
	slices.SortStableFunc(ops, func(a, b AlterableConfig) int { return cmp.Compare(a.Key, b.Key) })
	for i, op := range ops {
		if i > 0 && ops[i-1].Key == op.Key {
			return nil, controllerpb.NewError(codeInvalidConfig, "config %q stands in the request twice", op.Key)
		}
		old, set := im.Config(r.Type, r.Name, op.Key)
		value, err := newValue(r, op, old)
		if err != nil {
			return nil, err
		}
		if value == nil && !set || value != nil && set && *value == old {
			continue
		}
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
			ResourceType: r.Type, ResourceName: r.Name, Key: op.Key, Value: value,
		}}})
	}
	return records, nil
}

// newValue is nil for a key that is removed.
func newValue(r AlterableResource, op AlterableConfig, old string) (*string, *controllerpb.Error) {
	rules, scope := topicConfigs, "topic"
	if r.Type == metadatapb.ResourceType_RESOURCE_TYPE_BROKER {
		rules, scope = brokerConfigs, "broker"
		if op.Key == configMinInsyncReplicas && r.Name != "" {
			return nil, controllerpb.NewError(codeInvalidConfig, "min.insync.replicas is set for a topic or for all brokers, not for one")
		}
	}
	value := op.Value
	switch op.Op {
	case ConfigSet:
	case ConfigDelete:
		if _, ok := rules[op.Key]; !ok {
			return nil, controllerpb.NewError(codeInvalidConfig, "%s config %q is unknown; nearest known is %q", scope, op.Key, nearest(rules, op.Key))
		}
		return nil, nil
	case ConfigAppend, ConfigSubtract:
		if !listConfigs[op.Key] {
			return nil, controllerpb.NewError(codeInvalidConfig, "%s config %q is not a list: set it instead", scope, op.Key)
		}
		value = alterList(old, op.Value, op.Op == ConfigAppend)
	default:
		return nil, controllerpb.NewError(codeInvalidRequest, "config operation %d is unknown", op.Op)
	}
	if err := checkConfig(rules, scope, op.Key, value); err != nil {
		return nil, controllerpb.NewError(codeInvalidConfig, "%v", err)
	}
	return &value, nil
}

// alterList adds items that are not there, or takes items out.
func alterList(old, items string, add bool) string {
	var list []string
	if old != "" {
		list = strings.Split(old, ",")
	}
	for _, item := range strings.Split(items, ",") {
		at := slices.Index(list, item)
		if add && at < 0 {
			list = append(list, item)
		} else if !add && at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
	}
	return strings.Join(list, ",")
}

// ApplyConfigs looks at the partitions that a change of min.insync.replicas or unclean.leader.election.enable concerns:
// those with an ELR, which may be too many now (KAFKA-16540), and those without a leader, which may get one. It may be
// cut, and decided again it finds what is left.
func ApplyConfigs(v View) (Decision[Done], error) {
	var d Decision[Done]
	e := newElectorate(v)
	for t := range v.Image.Topics() {
		for i, p := range t.Partitions() {
			if len(p.ELR) == 0 && p.Leader != image.NoBroker {
				continue
			}
			c := e.changePartition(image.PartitionID{Topic: t.ID(), Partition: i}, p, metadatapb.ChangeReason_CHANGE_REASON_CONFIG)
			if record, _ := c.build(); record != nil {
				d.Records = append(d.Records, record)
			}
		}
	}
	return d, nil
}
