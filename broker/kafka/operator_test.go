package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/kafka/kafkatest"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// operatorRequests are requests of the operators' keys that reach every part of an answer, good and bad.
func (r *rig) operatorRequests(version func(key int16) []int16) []kmsg.Request {
	var out []kmsg.Request
	add := func(make func() kmsg.Request) {
		for _, v := range version(make().Key()) {
			req := make()
			req.SetVersion(v)
			out = append(out, req)
		}
	}
	add(func() kmsg.Request { return createPartitions("here", 5, "here", 4, "unknown", 5, "there", 1) })
	add(func() kmsg.Request {
		return incremental(kmsg.ConfigResourceTypeTopic, "here", "retention.ms", "5", kmsg.ConfigResourceTypeTopic, "unknown", "a", "b", kmsg.ConfigResourceType(8), "1", "a", "b")
	})
	add(func() kmsg.Request {
		req := kmsg.NewPtrAlterConfigsRequest()
		for _, n := range []string{"there", "unknown"} {
			res := kmsg.NewAlterConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, n
			req.Resources = append(req.Resources, res)
		}
		return req
	})
	add(func() kmsg.Request { return electLeaders(0, "here", "unknown") })
	add(func() kmsg.Request { return electLeaders(7, "here") })
	add(func() kmsg.Request { req := electLeaders(0); req.Topics = nil; return req })
	add(func() kmsg.Request { return reassign("here", []int32{2, 3}, "there", nil, "unknown", []int32{1}) })
	add(func() kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() })
	add(func() kmsg.Request {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "here", Partitions: []int32{0, 1, 99}}, {Topic: "unknown", Partitions: []int32{0}}}
		return req
	})
	add(func() kmsg.Request { return describeQuorum("__cluster_metadata", 0) })
	add(func() kmsg.Request { return describeQuorum("other", 0) })
	add(func() kmsg.Request { return describeQuorum("__cluster_metadata", 0, 1) })
	add(func() kmsg.Request { return topicPartitions(2000, nil) })
	add(func() kmsg.Request { return topicPartitions(2, nil, "here", "not a name", "unknown") })
	add(func() kmsg.Request { return &kmsg.UnregisterBrokerRequest{BrokerID: 77} })
	add(func() kmsg.Request { return featureUpdates("metadata.version", 2, 1, "other", 0, 0) })
	return out
}

// createPartitions takes names and counts in turn.
func createPartitions(namesAndCounts ...any) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 1000
	for i := 0; i < len(namesAndCounts); i += 2 {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = namesAndCounts[i].(string), int32(namesAndCounts[i+1].(int))
		req.Topics = append(req.Topics, t)
	}
	return req
}

// incremental takes types, names, keys and values in turn, one key a resource.
func incremental(words ...any) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for i := 0; i < len(words); i += 4 {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = words[i].(kmsg.ConfigResourceType), words[i+1].(string)
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = words[i+2].(string), kmsg.StringPtr(words[i+3].(string))
		res.Configs = append(res.Configs, c)
		req.Resources = append(req.Resources, res)
	}
	return req
}

func electLeaders(kind int8, topics ...string) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = kind, 1000
	req.Topics = []kmsg.ElectLeadersRequestTopic{}
	for _, n := range topics {
		req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: n, Partitions: []int32{0}})
	}
	return req
}

// reassign takes names and replicas of partition 0 in turn; nil cancels.
func reassign(words ...any) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 1000
	for i := 0; i < len(words); i += 2 {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		if list, ok := words[i+1].([]int32); ok {
			p.Replicas = list
		}
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic, t.Partitions = words[i].(string), []kmsg.AlterPartitionAssignmentsRequestTopicPartition{p}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func describeQuorum(topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	req.Topics = append(req.Topics, t)
	return req
}

func topicPartitions(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit, req.Cursor = limit, cursor
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{}
	for _, n := range topics {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: n})
	}
	return req
}

// An operator's client, unmodified, does every change and sees it.
func TestFranzOperates(t *testing.T) {
	r := cluster(t)
	ctx := within(t)
	adm := kadm.NewClient(franz(t, r))
	grown, err := adm.UpdatePartitions(ctx, 4, "here", "unknown")
	if err != nil || grown["here"].Err != nil || !errors.Is(grown["unknown"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("create partitions: %+v, %v", grown, err)
	}
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kmsg.StringPtr("77")}}, "here")
	if err != nil || len(altered) != 1 || altered[0].Err != nil {
		t.Errorf("alter configs: %+v, %v", altered, err)
	}
	state, err := adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "segment.bytes", Value: kmsg.StringPtr("1000")}}, "here")
	if err != nil || state[0].Err != nil {
		t.Errorf("replace configs: %+v, %v", state, err)
	}
	if own := r.configs("here"); len(own) != 1 || own["segment.bytes"] != "1000" {
		t.Errorf("configs after the replacement: %v", own)
	}
	r.b.SetLeader("here", 0, 2)
	elected, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, topicsSet("here", 0, 1))
	if err != nil || elected["here"][0].Err != nil || !errors.Is(elected["here"][1].Err, kerr.ElectionNotNeeded) {
		t.Errorf("elect: %+v, %v", elected, err)
	}
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign("here", 0, []int32{2, 3})
	moved, err := adm.AlterPartitionAssignments(ctx, move)
	if err != nil || moved["here"][0].Err != nil {
		t.Errorf("move: %+v, %v", moved, err)
	}
	listed, err := adm.ListPartitionReassignments(ctx, topicsSet("here", 0, 1))
	if row := listed["here"][0]; err != nil || !slices.Equal(row.Replicas, []int32{2, 3, 1}) || !slices.Equal(row.RemovingReplicas, []int32{1}) {
		t.Errorf("list moves: %+v, %v", listed, err)
	}
	var cancel kadm.AlterPartitionAssignmentsReq
	cancel.CancelAssign("here", 0)
	cancel.CancelAssign("here", 1)
	cancelled, err := adm.AlterPartitionAssignments(ctx, cancel)
	if err != nil || cancelled["here"][0].Err != nil || !errors.Is(cancelled["here"][1].Err, kerr.NoReassignmentInProgress) {
		t.Errorf("cancel: %+v, %v", cancelled, err)
	}
	if p := r.partition("here", 0); p.IsReassigning() || !slices.Equal(p.Replicas, []image.BrokerID{1, 2, 3}) {
		t.Errorf("after the cancel: %v", p)
	}
}

func topicsSet(topic string, partitions ...int32) kadm.TopicsSet {
	var s kadm.TopicsSet
	s.Add(topic, partitions...)
	return s
}

func (r *rig) configs(topic string) map[string]string {
	own := map[string]string{}
	for key, value := range r.b.Image().Configs(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, topic) {
		own[key] = value
	}
	return own
}

func (r *rig) partition(topic string, i int32) image.Partition {
	t, _ := r.b.Image().TopicByName(topic)
	p, _ := t.Partition(i)
	return p
}

// What the controller says of one item is that item's error; each change bears a request id of its own.
func TestOperatorRefusals(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	twice := do[*kmsg.CreatePartitionsResponse](w, at(createPartitions("here", 5, "here", 6), 3))
	if len(twice.Topics) != 1 || twice.Topics[0].ErrorCode != kerr.InvalidRequest.Code || r.b.Image().PartitionCount() != 4 {
		t.Errorf("a topic named twice: %+v", twice.Topics)
	}
	bad := do[*kmsg.CreatePartitionsResponse](w, at(createPartitions("here", 2), 0))
	if bad.Topics[0].ErrorCode != kerr.InvalidPartitions.Code || bad.Topics[0].ErrorMessage == nil {
		t.Errorf("not more partitions: %+v", bad.Topics)
	}
	elect := do[*kmsg.ElectLeadersResponse](w, at(electLeaders(7, "here"), 2))
	if elect.ErrorCode != kerr.InvalidRequest.Code || elect.Topics[0].Partitions[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("an unknown election: %+v", elect)
	}
	if first := do[*kmsg.ElectLeadersResponse](w, at(electLeaders(7, "lost"), 0)); first.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("version 0 has no type, so it is preferred: %+v", first)
	}
	keep := reassign("there", []int32{3})
	keep.AllowReplicationFactorChange = false
	if resp := do[*kmsg.AlterPartitionAssignmentsResponse](w, at(keep, 1)); resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidReplicationFactor.Code {
		t.Errorf("another number of replicas: %+v", resp)
	}
	gone := do[*kmsg.UnregisterBrokerResponse](w, &kmsg.UnregisterBrokerRequest{BrokerID: 77})
	if gone.ErrorCode != kerr.BrokerIDNotRegistered.Code || gone.ErrorMessage == nil {
		t.Errorf("an unknown broker: %+v", gone)
	}
	if ok := do[*kmsg.UnregisterBrokerResponse](w, &kmsg.UnregisterBrokerRequest{BrokerID: 3}); ok.ErrorCode != 0 {
		t.Errorf("unregister: %+v", ok)
	}
	if _, ok := r.b.Image().Broker(3); ok {
		t.Error("broker 3 is still registered")
	}
	ids := r.b.RequestIDs()
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("request ids %v", ids)
	}
}

// Whatever the forwarder fails with, no client sees NOT_CONTROLLER, and a change that may have been made is a time-out.
func TestOperatorAnswersThatAreLost(t *testing.T) {
	for name, failure := range map[string]error{
		"another controller": kerr.NotController, "refused as such": controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "not me"),
		"time": context.DeadlineExceeded, "anything": errors.New("connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			r := cluster(t)
			r.b.ApplyThenFail = func() error { return failure }
			w := r.dial()
			codes := map[string]int16{
				"create partitions": do[*kmsg.CreatePartitionsResponse](w, at(createPartitions("here", 5), 3)).Topics[0].ErrorCode,
				"alter configs":     do[*kmsg.IncrementalAlterConfigsResponse](w, at(incremental(kmsg.ConfigResourceTypeTopic, "here", "a", "b"), 1)).Resources[0].ErrorCode,
				"elect":             do[*kmsg.ElectLeadersResponse](w, at(electLeaders(0, "here"), 2)).Topics[0].Partitions[0].ErrorCode,
				"move":              do[*kmsg.AlterPartitionAssignmentsResponse](w, at(reassign("here", []int32{2}), 1)).Topics[0].Partitions[0].ErrorCode,
				"unregister":        do[*kmsg.UnregisterBrokerResponse](w, &kmsg.UnregisterBrokerRequest{BrokerID: 3}).ErrorCode,
			}
			for what, code := range codes {
				if code != kerr.RequestTimedOut.Code {
					t.Errorf("%s: %v", what, kerr.ErrorForCode(code))
				}
			}
		})
	}
}

// A change that this broker has not applied in time is REQUEST_TIMED_OUT; what was refused keeps its refusal.
func TestOperatorChangeNotAppliedHere(t *testing.T) {
	r := cluster(t)
	r.b.Applied = func(ctx context.Context) error { return errors.New("behind") }
	resp := do[*kmsg.CreatePartitionsResponse](r.dial(), at(createPartitions("here", 5, "unknown", 5), 3))
	if resp.Topics[0].ErrorCode != kerr.RequestTimedOut.Code || resp.Topics[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("%+v", resp.Topics)
	}
}

// The configs that Kafka's reassignment tool deletes after each move are accepted for any broker by any broker.
func TestThrottlesAreAccepted(t *testing.T) {
	r := cluster(t)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, id := range []string{"1", "2", "3"} {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, id
		for _, key := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"} {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete
			res.Configs = append(res.Configs, c)
		}
		req.Resources = append(req.Resources, res)
	}
	for _, res := range do[*kmsg.IncrementalAlterConfigsResponse](r.dial(), at(req, 1)).Resources {
		if res.ErrorCode != 0 {
			t.Errorf("broker %s: %v", res.ResourceName, kerr.ErrorForCode(res.ErrorCode))
		}
	}
}

func TestListPartitionReassignments(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	do[*kmsg.AlterPartitionAssignmentsResponse](w, at(reassign("there", []int32{1}), 0))
	ask := func(topics []kmsg.ListPartitionReassignmentsRequestTopic) []string {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = topics
		rows := []string{}
		for _, t := range do[*kmsg.ListPartitionReassignmentsResponse](w, req).Topics {
			for _, p := range t.Partitions {
				rows = append(rows, fmt.Sprintf("%s-%d %v+%v-%v", t.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas))
			}
		}
		return rows
	}
	moving := []string{"there-0 [1 2 3]+[1]-[2 3]"}
	for name, c := range map[string]struct {
		topics []kmsg.ListPartitionReassignmentsRequestTopic
		want   []string
	}{
		"null is all":       {nil, moving},
		"empty is none":     {[]kmsg.ListPartitionReassignmentsRequestTopic{}, []string{}},
		"the one that does": {[]kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "there", Partitions: []int32{0, 7}}}, moving},
		"others": {[]kmsg.ListPartitionReassignmentsRequestTopic{
			{Topic: "here", Partitions: []int32{0}}, {Topic: "unknown", Partitions: []int32{0}}, {Topic: "there", Partitions: []int32{1}},
		}, []string{}},
	} {
		if got := ask(c.topics); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Every key that clients are shown is known by its name and has a word on what it is.
func TestConfigKeysAreSorted(t *testing.T) {
	for _, kind := range []metadatapb.ResourceType{metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, metadatapb.ResourceType_RESOURCE_TYPE_BROKER} {
		if keys := kafka.ConfigKeys(kind); len(keys) == 0 || !slices.IsSorted(keys) {
			t.Errorf("%v: %v", kind, keys)
		}
	}
}

var _ kafka.Admin = (*kafkatest.Backend)(nil)
