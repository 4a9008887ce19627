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

// AlterConfigs sets and removes dynamic configs, in one atomic decision. One failing key fails its resource; other
// resources go on. What does not change is not written.
//
//	INVALID_REQUEST             the resource stands in the request more than once: no copy is carried out; it is of an
//	                            unknown type; an operation is unknown, has no value, or does not set while its resource
//	                            is replaced
//	INVALID_CONFIG              a key that stands there twice, is unknown, has a value outside its bounds, is appended
//	                            to without being a list, is for all brokers and set for one, or is the value of
//	                            min.insync.replicas for all brokers, which can be changed but not removed
//	UNKNOWN_TOPIC_OR_PARTITION  no such topic
//	BROKER_ID_NOT_REGISTERED    no such broker
//	POLICY_VIOLATION            the whole request: more records or bytes than one batch may have
//
// A resource that is replaced loses what the request does not name (Kafka's older AlterConfigs).
//
// Values that decisions use act on the next decision at once. What they mean for partitions as they are, ApplyConfigs
// finds out; the caller decides it next. A request that is only validated is told both.
func AlterConfigs(v View, req *controllerpb.AlterConfigsRequest) (Decision[*controllerpb.AlterConfigsResponse], error) {
	d := Decision[*controllerpb.AlterConfigsResponse]{Atomic: true, Response: &controllerpb.AlterConfigsResponse{}}
	if err := v.Limits.CheckAtomic(countChanges(req), 0); err != nil {
		return Decision[*controllerpb.AlterConfigsResponse]{}, err
	}
	type resource struct {
		kind metadatapb.ResourceType
		name string
	}
	copies := make(map[resource]int)
	for _, r := range req.GetResources() {
		copies[resource{r.GetType(), r.GetName()}]++
	}
	var records []*metadatapb.Record
	for _, r := range req.GetResources() {
		var written []*metadatapb.Record
		err := checkResource(v.Image, r)
		if n := copies[resource{r.GetType(), r.GetName()}]; n > 1 {
			err = controllerpb.NewError(codeInvalidRequest, "the resource %q stands in the request %d times: name it once", r.GetName(), n)
		}
		if err == nil {
			written, err = alterResource(v.Image, r)
		}
		records = append(records, written...)
		d.Response.Resources = append(d.Response.Resources, &controllerpb.AlterableResourceResult{Type: r.GetType(), Name: r.GetName(), Error: err})
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*controllerpb.AlterConfigsResponse]{}, err
	}
	if !req.GetValidateOnly() {
		d.Records = records
		return d, nil
	}
	applied, err := whatFollows(v, records)
	d.Response.Records = append(records, applied...)
	return d, err
}

// countChanges is at least the number of resources: one that changes nothing takes an answer all the same.
func countChanges(req *controllerpb.AlterConfigsRequest) int {
	n := 0
	for _, r := range req.GetResources() {
		n += max(len(r.GetChanges()), 1)
	}
	return n
}

// whatFollows returns what ApplyConfigs will write once the records are in the image.
func whatFollows(v View, records []*metadatapb.Record) ([]*metadatapb.Record, error) {
	concern := ConcernOf(records)
	if concern.IsNone() {
		return nil, nil
	}
	delta, offset := v.Image.Fork(), v.lastOffset()
	for _, r := range records {
		offset++
		if err := delta.Replay(offset, r); err != nil {
			return nil, err
		}
	}
	v.Image, v.NextOffset = delta.Seal(offset, v.Image.Chain()), offset+1
	d, err := ApplyConfigs(v, concern)
	return d.Records, err
}

func checkResource(im *image.Image, r *controllerpb.AlterableResource) *controllerpb.Error {
	switch r.GetType() {
	case metadatapb.ResourceType_RESOURCE_TYPE_TOPIC:
		if _, ok := im.TopicByName(r.GetName()); !ok {
			return noTopicNamed(r.GetName())
		}
	case metadatapb.ResourceType_RESOURCE_TYPE_BROKER:
		if r.GetName() == "" {
			return nil
		}
		id, err := strconv.ParseInt(r.GetName(), 10, 32)
		if err != nil || strconv.FormatInt(id, 10) != r.GetName() {
			return controllerpb.NewError(codeInvalidRequest, "broker %q is no number: name a broker by its id, or leave the name empty for all brokers", r.GetName())
		}
		if _, ok := im.Broker(image.BrokerID(id)); !ok {
			return notRegistered(image.BrokerID(id))
		}
	default:
		return controllerpb.NewError(codeInvalidRequest, "resources of type %d have no configs: topics (2) and brokers (4) have", r.GetType())
	}
	return nil
}

// alterResource returns the records of one resource, by key.
func alterResource(im *image.Image, r *controllerpb.AlterableResource) ([]*metadatapb.Record, *controllerpb.Error) {
	var records []*metadatapb.Record
	write := func(key string, value *string) {
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
			ResourceType: r.GetType(), ResourceName: r.GetName(), Key: key, Value: value,
		}}})
	}
	changes := slices.Clone(r.GetChanges())
	slices.SortStableFunc(changes, func(a, b *controllerpb.ConfigChange) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for i, c := range changes {
		if i > 0 && changes[i-1].GetName() == c.GetName() {
			return nil, controllerpb.NewError(codeInvalidConfig, "config %q stands in the request twice: name it once", c.GetName())
		}
		old, set := im.Config(r.GetType(), r.GetName(), c.GetName())
		value, err := newValue(r, c, old)
		if err != nil {
			return nil, err
		}
		if value == nil && !set || value != nil && set && *value == old {
			continue
		}
		write(c.GetName(), value)
	}
	if !r.GetReplace() {
		return records, nil
	}
	for key := range im.Configs(r.GetType(), r.GetName()) {
		if !keepsValue(r, key) && !slices.ContainsFunc(changes, func(c *controllerpb.ConfigChange) bool { return c.GetName() == key }) {
			write(key, nil)
		}
	}
	slices.SortFunc(records, func(a, b *metadatapb.Record) int { return cmp.Compare(a.GetConfig().GetKey(), b.GetConfig().GetKey()) })
	return records, nil
}

// newValue is nil for a key that is removed.
func newValue(r *controllerpb.AlterableResource, c *controllerpb.ConfigChange, old string) (*string, *controllerpb.Error) {
	const (
		opSet      = controllerpb.ConfigOperation_CONFIG_OPERATION_SET
		opDelete   = controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE
		opAppend   = controllerpb.ConfigOperation_CONFIG_OPERATION_APPEND
		opSubtract = controllerpb.ConfigOperation_CONFIG_OPERATION_SUBTRACT
	)
	key, op := c.GetName(), c.GetOperation()
	rules, scope := rulesFor(r.GetType())
	if _, ok := rules[key]; !ok {
		return nil, controllerpb.NewError(codeInvalidConfig, "%v", unknownConfig(rules, scope, key))
	}
	switch {
	case op < opSet || op > opSubtract || r.GetReplace() && op != opSet:
		return nil, controllerpb.NewError(codeInvalidRequest, "config operation %d on %q is unknown, or is not one that sets while the whole set is replaced", op, key)
	case op == opDelete && keepsValue(r, key):
		return nil, controllerpb.NewError(codeInvalidConfig, "%s of all brokers is kept in the log only and cannot be removed: set it instead", key)
	case op == opDelete:
		return nil, nil
	case c.Value == nil:
		return nil, controllerpb.NewError(codeInvalidRequest, "config %q has no value: give one, or delete the config", key)
	case scope == "broker" && r.GetName() != "" && !brokerOwnConfigs[key]:
		return nil, controllerpb.NewError(codeInvalidConfig, "%s is set for a topic or for all brokers, not for one", key)
	}
	value := c.GetValue()
	if op == opAppend || op == opSubtract {
		if !listConfigs[key] {
			return nil, controllerpb.NewError(codeInvalidConfig, "%s config %q is not a list: set it instead", scope, key)
		}
		value = alterList(old, value, op == opAppend)
	}
	if err := checkConfig(rules, scope, key, value); err != nil {
		return nil, controllerpb.NewError(codeInvalidConfig, "%v", err)
	}
	return &value, nil
}

// keepsValue tells whether a key must have a value: no file of a node gives min.insync.replicas another one.
func keepsValue(r *controllerpb.AlterableResource, key string) bool {
	return r.GetType() == metadatapb.ResourceType_RESOURCE_TYPE_BROKER && r.GetName() == "" && key == configMinInsyncReplicas
}

func rulesFor(t metadatapb.ResourceType) (rules map[string]configRule, scope string) {
	if t == metadatapb.ResourceType_RESOURCE_TYPE_BROKER {
		return brokerConfigs, "broker"
	}
	return topicConfigs, "topic"
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

// Concern names the topics for whose partitions, as they are, a change of configs means something.
type Concern struct {
	// Everything: the value of all topics that have none of their own has changed.
	Everything bool
	// Topics are the others, by name, each once.
	Topics []string
}

// IsNone tells whether nothing follows from the change.
func (c Concern) IsNone() bool { return !c.Everything && len(c.Topics) == 0 }

// ConcernOf looks for min.insync.replicas and unclean.leader.election.enable among the configs that were changed.
func ConcernOf(records []*metadatapb.Record) Concern {
	var c Concern
	for _, r := range records {
		config := r.GetConfig()
		if key := config.GetKey(); key != configMinInsyncReplicas && key != configUncleanLeaderElection {
			continue
		}
		if config.GetResourceType() != metadatapb.ResourceType_RESOURCE_TYPE_TOPIC {
			return Concern{Everything: true}
		}
		if !slices.Contains(c.Topics, config.GetResourceName()) {
			c.Topics = append(c.Topics, config.GetResourceName())
		}
	}
	return c
}

// ApplyConfigs looks at the partitions that a change of min.insync.replicas or unclean.leader.election.enable concerns:
// those with an ELR, which may be too many now (KAFKA-16540), and those without a leader, which may get one. It may be
// cut, and decided again it finds what is left. Partitions of other topics cost nothing.
func ApplyConfigs(v View, concern Concern) (Decision[Done], error) {
	const reason = metadatapb.ChangeReason_CHANGE_REASON_CONFIG
	var d Decision[Done]
	e := newElectorate(v)
	look := func(id image.PartitionID, p image.Partition) {
		c := e.changePartition(id, p, reason)
		if record, _ := c.build(); record != nil {
			d.Records = append(d.Records, record)
		}
	}
	if concern.Everything {
		for id, p := range v.Image.Leaderless() {
			look(id, p)
		}
		d.Records = append(d.Records, e.trimELRs(reason)...)
		return d, nil
	}
	for _, name := range concern.Topics {
		t, ok := v.Image.TopicByName(name)
		if !ok {
			continue
		}
		for i, p := range t.Partitions() {
			if len(p.ELR) > 0 || p.Leader == image.NoBroker {
				look(image.PartitionID{Topic: t.ID(), Partition: i}, p)
			}
		}
	}
	return d, nil
}
