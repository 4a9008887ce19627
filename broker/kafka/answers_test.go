package kafka_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka/kafkatest"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// cluster is a rig with three brokers, one of them fenced, and some topics.
func cluster(t *testing.T) *rig {
	r := start(t)
	rack := "r2"
	r.b.SetBroker(kafkatest.Broker{ID: 2, Host: "broker-2", Port: 9092, Rack: &rack})
	r.b.SetBroker(kafkatest.Broker{ID: 3, Host: "broker-3", Port: 9092, Fenced: true})
	r.b.CreateTopic("here", 2, 1, 2, 3)
	r.b.CreateTopic("there", 1, 2, 3)
	r.b.CreateTopic("lost", 1, 3)
	r.b.SetLeader("lost", 0, image.NoBroker)
	r.b.SetConfig(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, "here", "retention.ms", "1000")
	r.b.SetConfig(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", "min.insync.replicas", "2")
	return r
}

func (r *rig) id(topic string) [16]byte {
	if t, ok := r.b.Image().TopicByName(topic); ok {
		return t.ID()
	}
	return [16]byte{0xff}
}

// requests are requests of every served key that reach every part of an answer, good and bad.
func (r *rig) requests(version func(key int16) []int16) []kmsg.Request {
	var out []kmsg.Request
	add := func(make func(v int16) kmsg.Request) {
		for _, v := range version(make(0).Key()) {
			req := make(v)
			req.SetVersion(v)
			out = append(out, req)
		}
	}
	names := []string{"here", "there", "lost", "unknown", "not a name"}
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "x", "1"
		return req
	})
	add(func(int16) kmsg.Request { return kmsg.NewPtrApiVersionsRequest() })
	add(func(v int16) kmsg.Request { return r.produce(v, names) })
	add(func(v int16) kmsg.Request { return r.fetch(v, names, 0) })
	add(func(v int16) kmsg.Request { return r.fetch(v, names, 1) })
	add(func(v int16) kmsg.Request { req := r.fetch(v, nil, 0); req.SessionID = 5; return req })
	add(func(v int16) kmsg.Request { return kmsg.NewPtrMetadataRequest() })
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		for _, n := range names {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &n})
		}
		return req
	})
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{TopicID: r.id("here")}, {TopicID: [16]byte{9}}}
		return req
	})
	add(func(v int16) kmsg.Request { return listOffsets(-1, names...) })
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		for _, n := range names {
			req.Topics = append(req.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: n,
				Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}})
		}
		return req
	})
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 1000
		value := "5"
		for _, n := range []string{fmt.Sprintf("made-%d", v), "here", "twice", "twice", "__cluster_metadata"} {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = n, 2, 1
			topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: &value}}
			req.Topics = append(req.Topics, topic)
		}
		return req
	})
	add(func(v int16) kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 1000
		made := fmt.Sprintf("made-%d", v)
		req.TopicNames = []string{made, "unknown"}
		req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &made}, {TopicID: [16]byte{9}}, {}, {Topic: &names[0], TopicID: [16]byte{9}}}
		return req
	})
	add(func(int16) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() })
	add(func(int16) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr("tx")
		return req
	})
	for _, extras := range []bool{false, true} {
		add(func(int16) kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms, req.IncludeDocumentation = extras, extras
			for _, res := range []struct {
				kind kmsg.ConfigResourceType
				name string
			}{{2, "here"}, {2, "unknown"}, {4, "1"}, {4, ""}, {4, "2"}, {8, "1"}} {
				req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: res.kind, ResourceName: res.name})
			}
			return req
		})
		add(func(int16) kmsg.Request {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = extras, extras
			return req
		})
	}
	add(func(int16) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 2
		return req
	})
	return append(out, r.operatorRequests(version)...)
}

func (r *rig) produce(version int16, names []string) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1000
	for _, n := range names {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = n, r.id(n)
		t.Partitions = []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: batch(-1, -1, -1, "v")}, {Partition: 99}}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (r *rig) fetch(version int16, names []string, isolation int8) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch, req.IsolationLevel = version, 1<<20, -1, isolation
	for _, n := range names {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = n, r.id(n)
		for _, p := range []int32{0, 1, 99} {
			in := kmsg.NewFetchRequestTopicPartition()
			in.Partition, in.PartitionMaxBytes, in.FetchOffset = p, 1<<20, int64(p)*5
			t.Partitions = append(t.Partitions, in)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func listOffsets(timestamp int64, names ...string) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	for _, n := range names {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = timestamp
		req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: n, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	}
	return req
}

// allVersions are those that the listener advertises and serves.
func allVersions(key int16) []int16 {
	served := map[int16][2]int16{0: {3, 13}, 1: {4, 18}, 2: {1, 10}, 3: {0, 13}, 18: {0, 4}, 19: {2, 7}, 20: {1, 6}, 22: {0, 5}, 23: {2, 4}, 32: {1, 4},
		33: {0, 2}, 37: {0, 3}, 43: {0, 2}, 44: {0, 1}, 45: {0, 1}, 46: {0, 0}, 55: {0, 2}, 60: {0, 2}, 64: {0, 0}, 75: {0, 0}}
	var out []int16
	for v := served[key][0]; v <= served[key][1]; v++ {
		out = append(out, v)
	}
	return out
}

// nullable are the fields that Kafka itself sends as null.
var nullable = []string{
	"Rack", "ErrorMessage", "Message", "Documentation",
	"FetchResponse.Topics.Partitions.AbortedTransactions", // read_uncommitted
	"MetadataResponse.Topics.Topic",                       // unknown id
	"DeleteTopicsResponse.Topics.Topic",                   // unknown id
	"DescribeTopicPartitionsResponse.NextCursor",          // the last page
}

// zeroAllowed are fields whose default is not 0 and that may well be 0.
var zeroAllowed = []string{"Offset", "LeaderEpoch", "Timestamp", "LogStartOffset", "ProducerID", "LeaderID", "EndOffset", "Epoch", "LastStableOffset"}

// No answer has a null that Kafka would not send, or a Go zero where the protocol has another default: clients that
// were written against Kafka fail on both.
func TestAnswersHaveNoForeignNullsAndZeros(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for _, req := range r.requests(allVersions) {
		resp := do[kmsg.Response](w, req)
		name := strings.TrimPrefix(reflect.TypeOf(resp).String(), "*kmsg.")
		walk(t, resp, name, reflect.ValueOf(resp).Elem())
	}
}

func walk(t *testing.T, resp kmsg.Response, path string, v reflect.Value) {
	t.Helper()
	allowed := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return path == s || strings.HasSuffix(path, "."+s) })
	}
	switch v.Kind() {
	case reflect.Struct:
		defaults := reflect.New(v.Type())
		if d, ok := defaults.Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Version" || f.Name == "UnknownTags" {
				continue
			}
			at := path + "." + f.Name
			if field, def := v.Field(i), defaults.Elem().Field(i); field.CanInt() && field.Int() == 0 && def.Int() != 0 {
				if !slices.ContainsFunc(zeroAllowed, func(s string) bool { return strings.HasSuffix(at, s) }) {
					t.Errorf("v%d: %s is 0, its default is %d", resp.GetVersion(), at, def.Int())
				}
			}
			walk(t, resp, at, v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() && !allowed(nullable) {
			isNullOnWire(t, resp, path, v, reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct {
				walk(t, resp, path, v.Index(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() && !allowed(nullable) {
			isNullOnWire(t, resp, path, v, reflect.New(v.Type().Elem()))
		}
	}
}

// isNullOnWire complains if a nil is encoded otherwise than an empty value.
func isNullOnWire(t *testing.T, resp kmsg.Response, path string, v, empty reflect.Value) {
	t.Helper()
	before := resp.AppendTo(nil)
	old := reflect.ValueOf(v.Interface())
	v.Set(empty)
	if after := resp.AppendTo(nil); string(after) != string(before) {
		t.Errorf("v%d: %s is null", resp.GetVersion(), path)
	}
	v.Set(old)
}

// Config sources, the one thing whose default (-1) no client survives.
func TestCreateTopicsAnswersWithConfigs(t *testing.T) {
	w := cluster(t).dial()
	for version := int16(5); version <= 7; version++ {
		for _, validateOnly := range []bool{true, false} {
			req := at(kmsg.NewPtrCreateTopicsRequest(), version)
			req.TimeoutMillis, req.ValidateOnly = 1000, validateOnly
			value := "5"
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprint("c", version), 3, -1
			topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: &value}}
			req.Topics = append(req.Topics, topic)
			got := do[*kmsg.CreateTopicsResponse](w, req).Topics[0]
			if got.ErrorCode != 0 || got.NumPartitions != 3 || got.ReplicationFactor != 1 || version >= 7 && got.TopicID == [16]byte{} {
				t.Errorf("v%d: %+v", version, got)
			}
			sources := map[string]int8{}
			for _, c := range got.Configs {
				if c.Source < 0 || c.Source > 8 || c.Value == nil {
					t.Errorf("v%d: config %+v", version, c)
				}
				sources[c.Name] = c.Source
			}
			if sources["retention.ms"] != 1 || sources["min.insync.replicas"] != 3 || sources["max.message.bytes"] != 5 {
				t.Errorf("v%d: sources %v", version, sources)
			}
			if !slices.IsSortedFunc(got.Configs, func(a, b kmsg.CreateTopicsResponseTopicConfig) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("v%d: configs are not sorted", version)
			}
		}
	}
}

// The controller id is a live broker, the answering one if it can be; the cluster id is there; fenced brokers are not
// listed, and their replicas are offline.
func TestMetadataOfTheCluster(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for _, v := range allVersions(3) {
		resp := do[*kmsg.MetadataResponse](w, at(kmsg.NewPtrMetadataRequest(), v))
		var ids []int32
		for _, b := range resp.Brokers {
			ids = append(ids, b.NodeID)
			if b.Host == "" || b.Port == 0 {
				t.Errorf("v%d: broker %+v", v, b)
			}
		}
		if !slices.Equal(ids, []int32{1, 2}) || v >= 1 && resp.ControllerID != 1 {
			t.Errorf("v%d: brokers %v, controller %d", v, ids, resp.ControllerID)
		}
		if v >= 2 && (resp.ClusterID == nil || *resp.ClusterID != kafkatest.ClusterID) {
			t.Errorf("v%d: cluster id %v", v, resp.ClusterID)
		}
		var names []string
		for _, topic := range resp.Topics {
			names = append(names, *topic.Topic)
			if topic.ErrorCode != 0 || v >= 10 && topic.TopicID == [16]byte{} || v >= 8 && topic.AuthorizedOperations != math.MinInt32 {
				t.Errorf("v%d: %+v", v, topic)
			}
		}
		if !slices.Equal(names, []string{"here", "lost", "there"}) {
			t.Errorf("v%d: topics %v", v, names)
		}
		here, lost := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
		if here.Leader != 1 || v >= 1 && (here.ErrorCode != 0 || !slices.Equal(here.Replicas, []int32{1, 2, 3})) || v >= 5 && !slices.Equal(here.OfflineReplicas, []int32{3}) {
			t.Errorf("v%d: %+v", v, here)
		}
		if v == 0 && (here.ErrorCode != kerr.ReplicaNotAvailable.Code || !slices.Equal(here.Replicas, []int32{1, 2})) {
			t.Errorf("v0 names replicas on brokers that it does not list: %+v", here)
		}
		if lost.Leader != -1 || lost.ErrorCode != kerr.LeaderNotAvailable.Code || v >= 7 && lost.LeaderEpoch != 1 {
			t.Errorf("v%d: %+v", v, lost)
		}
	}
	// This broker is fenced: another live one forwards changes.
	r.b.SetBroker(kafkatest.Broker{ID: 1, Host: "127.0.0.1", Port: 1, Fenced: true})
	if resp := do[*kmsg.MetadataResponse](w, at(kmsg.NewPtrMetadataRequest(), 9)); resp.ControllerID != 2 || len(resp.Brokers) != 1 {
		t.Errorf("while fenced: controller %d of %d brokers", resp.ControllerID, len(resp.Brokers))
	}
	if resp := do[*kmsg.DescribeClusterResponse](w, at(kmsg.NewPtrDescribeClusterRequest(), 0)); resp.ControllerID != 2 || resp.ClusterID != kafkatest.ClusterID {
		t.Errorf("DescribeCluster while fenced: %+v", resp)
	}
}

// A leader without an address on this listener is LISTENER_NOT_FOUND from version 6 on (KAFKA-6546).
func TestMetadataOfALeaderWithoutListener(t *testing.T) {
	r := cluster(t)
	r.b.SetBroker(kafkatest.Broker{ID: 2, NoKafka: true})
	w := r.dial()
	for _, v := range allVersions(3)[1:] {
		resp := do[*kmsg.MetadataResponse](w, at(kmsg.NewPtrMetadataRequest(), v))
		want := kerr.LeaderNotAvailable.Code
		if v >= 6 {
			want = kerr.ListenerNotFound.Code
		}
		if p := resp.Topics[2].Partitions[0]; p.Leader != -1 || p.ErrorCode != want || resp.Topics[2].ErrorCode != 0 {
			t.Errorf("v%d: %+v, want code %d", v, p, want)
		}
	}
}

func TestMetadataOfNamedTopics(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	ask := func(v int16, topics ...kmsg.MetadataRequestTopic) []string {
		req := at(kmsg.NewPtrMetadataRequest(), v)
		req.Topics = append([]kmsg.MetadataRequestTopic{}, topics...)
		req.AllowAutoTopicCreation = true
		var out []string
		for _, topic := range do[*kmsg.MetadataResponse](w, req).Topics {
			name := "null"
			if topic.Topic != nil {
				name = *topic.Topic
			}
			out = append(out, fmt.Sprintf("%s:%d", name, topic.ErrorCode))
		}
		return out
	}
	named := func(n string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &n} }
	for _, c := range []struct {
		name    string
		version int16
		topics  []kmsg.MetadataRequestTopic
		want    []string
	}{
		{"empty is all in version 0", 0, nil, []string{"here:0", "lost:0", "there:0"}},
		{"empty is none later", 4, nil, nil},
		{"in the order asked for, once", 9, []kmsg.MetadataRequestTopic{named("there"), named("here"), named("there")}, []string{"there:0", "here:0"}},
		{"unknown and bad names", 9, []kmsg.MetadataRequestTopic{named("nope"), named("a b"), named("")}, []string{"nope:3", "a b:17", ":17"}},
		{"ids", 12, []kmsg.MetadataRequestTopic{{TopicID: r.id("here")}, {TopicID: [16]byte{9}}}, []string{"here:0", "null:100"}},
		{"ids before version 12", 11, []kmsg.MetadataRequestTopic{{TopicID: r.id("here"), Topic: kmsg.StringPtr("")}}, []string{":42"}},
	} {
		if got := ask(c.version, c.topics...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, ok := r.b.Image().TopicByName("nope"); ok {
		t.Error("a topic was created by asking for it")
	}
}

// Who is sent elsewhere is told where (KIP-951), in the versions that can say so, and only with an address.
func TestLeaderHints(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	r.b.SetLeader("here", 1, 2) // hosted here, led by 2
	for _, v := range allVersions(0) {
		req := r.produce(v, []string{"here"})
		req.Topics[0].Partitions[0].Partition = 1
		req.Topics[0].Partitions = req.Topics[0].Partitions[:1]
		resp := do[*kmsg.ProduceResponse](w, req)
		p := resp.Topics[0].Partitions[0]
		hinted := p.CurrentLeader.LeaderID == 2 && p.CurrentLeader.LeaderEpoch == 1 && len(resp.Brokers) == 1 && resp.Brokers[0].Host == "broker-2" && *resp.Brokers[0].Rack == "r2"
		if p.ErrorCode != kerr.NotLeaderForPartition.Code || hinted != (v >= 10) {
			t.Errorf("Produce v%d: %+v, brokers %+v", v, p, resp.Brokers)
		}
	}
	for _, v := range allVersions(1) {
		req := r.fetch(v, []string{"here"}, 0)
		req.Topics[0].Partitions = req.Topics[0].Partitions[1:2]
		req.Topics[0].Partitions[0].FetchOffset = 0
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0 // fenced from version 9 on
		resp := do[*kmsg.FetchResponse](w, req)
		p := resp.Topics[0].Partitions[0]
		want := kerr.FencedLeaderEpoch.Code
		if v < 9 {
			want = kerr.NotLeaderForPartition.Code
		}
		hinted := p.CurrentLeader.LeaderID == 2 && len(resp.Brokers) == 1 && resp.Brokers[0].NodeID == 2
		if p.ErrorCode != want || hinted != (v >= 16) {
			t.Errorf("Fetch v%d: %+v, brokers %+v", v, p, resp.Brokers)
		}
	}
	// No leader, and an image that still names this broker, which has just refused: no hint, or the client would come
	// straight back.
	r.b.SetLeader("here", 1, image.NoBroker)
	r.b.Partition("here", 0).Resign()
	for _, partition := range []int32{0, 1} {
		req := r.produce(12, []string{"here"})
		req.Topics[0].Partitions[0].Partition = partition
		resp := do[*kmsg.ProduceResponse](w, req)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != -1 || len(resp.Brokers) != 0 {
			t.Errorf("partition %d: %+v, brokers %+v", partition, p, resp.Brokers)
		}
	}
}

// Topics named by id: a deleted topic's id never finds its successor of the same name (KIP-516).
func TestTopicIDs(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	old := r.id("here")
	del := at(kmsg.NewPtrDeleteTopicsRequest(), 6)
	del.Topics, del.TimeoutMillis = []kmsg.DeleteTopicsRequestTopic{{TopicID: old}}, 1000
	if got := do[*kmsg.DeleteTopicsResponse](w, del).Topics[0]; got.ErrorCode != 0 || *got.Topic != "here" || got.TopicID != old {
		t.Errorf("delete by id: %+v", got)
	}
	r.b.CreateTopic("here", 2, 1)
	p := r.produce(13, []string{"here"})
	if got := do[*kmsg.ProduceResponse](w, p).Topics[0]; got.Partitions[0].ErrorCode != 0 || got.TopicID != r.id("here") {
		t.Errorf("produce by the new id: %+v", got)
	}
	p.Topics[0].TopicID = old
	if got := do[*kmsg.ProduceResponse](w, p).Topics[0].Partitions[0]; got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("produce by the old id: %+v", got)
	}
	f := r.fetch(13, []string{"here"}, 0)
	f.Topics[0].TopicID = old
	if got := do[*kmsg.FetchResponse](w, f).Topics[0].Partitions[0]; got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("fetch by the old id: %+v", got)
	}
}

func TestDeleteTopicsRows(t *testing.T) {
	r := cluster(t)
	name := "here"
	req := at(kmsg.NewPtrDeleteTopicsRequest(), 6)
	req.TimeoutMillis = 1000
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{}, {Topic: &name, TopicID: [16]byte{1}}, {TopicID: [16]byte{9}}, {Topic: &name}, {Topic: &name}, {Topic: kmsg.StringPtr("lost")}}
	var got []int16
	for _, row := range do[*kmsg.DeleteTopicsResponse](r.dial(), req).Topics {
		got = append(got, row.ErrorCode)
	}
	if want := []int16{42, 42, 100, 42, 42, 0}; !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	if _, ok := r.b.Image().TopicByName("here"); !ok {
		t.Error("a topic named twice was deleted")
	}
}

// The client never sees NOT_CONTROLLER; an answer that was lost is "perhaps done", and a repeat finds out.
func TestLostAnswersAreTimeouts(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	create := func() kmsg.CreateTopicsResponseTopic {
		req := at(kmsg.NewPtrCreateTopicsRequest(), 7)
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "n", 1, 1
		req.Topics, req.TimeoutMillis = append(req.Topics, topic), 1000
		return do[*kmsg.CreateTopicsResponse](w, req).Topics[0]
	}
	r.b.Refuse = func() error { return kerr.NotController }
	if got := create(); got.ErrorCode != kerr.RequestTimedOut.Code || got.ErrorMessage == nil {
		t.Errorf("refused as not controller: %+v", got)
	}
	r.b.Refuse = nil
	r.b.ApplyThenFail = func() error { return kerr.NotController }
	if got := create(); got.ErrorCode != kerr.RequestTimedOut.Code {
		t.Errorf("applied and then lost: %+v", got)
	}
	r.b.ApplyThenFail = nil
	if got := create(); got.ErrorCode != kerr.TopicAlreadyExists.Code || got.ErrorMessage == nil {
		t.Errorf("asked again: %+v", got)
	}
	ids := r.b.RequestIDs()
	if len(ids) != 2 || ids[0] == ids[1] || ids[0] == "" {
		t.Errorf("request ids %q", ids)
	}
}

func TestListOffsetsSpecials(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	r.b.SetLeader("here", 1, 2)
	do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, "a", "b")))
	for _, c := range []struct {
		timestamp int64
		version   int16
		offset    int64
		code      int16
	}{
		{-1, 1, 2, 0}, {-2, 1, 0, 0}, {-3, 7, 1, 0}, {-4, 8, 0, 0}, {-5, 9, -1, 0},
		{-3, 6, -1, 35}, {-4, 7, -1, 35}, {-5, 8, -1, 35}, {-6, 10, -1, 35},
		{1000, 4, 0, 0}, {1001, 4, -1, 0}, {0, 4, 0, 0},
	} {
		req := at(listOffsets(c.timestamp, "here"), c.version)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
		got := do[*kmsg.ListOffsetsResponse](w, req).Topics[0].Partitions[0]
		if got.Offset != c.offset || got.ErrorCode != c.code {
			t.Errorf("timestamp %d in version %d: %+v, want offset %d, code %d", c.timestamp, c.version, got, c.offset, c.code)
		}
	}
	// A leader that does not know its own watermark yet does not tell the latest offset (KIP-207).
	r.b.Partition("here", 0).Hold()
	do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, "c")))
	for version, want := range map[int16]int16{4: kerr.LeaderNotAvailable.Code, 5: kerr.OffsetNotAvailable.Code} {
		if got := do[*kmsg.ListOffsetsResponse](w, at(listOffsets(-1, "here"), version)).Topics[0].Partitions[0]; got.ErrorCode != want {
			t.Errorf("v%d, watermark unknown: %+v, want code %d", version, got, want)
		}
	}
	twice := at(listOffsets(-1, "here", "here", "there", "unknown"), 4)
	var codes []int16
	for _, topic := range do[*kmsg.ListOffsetsResponse](w, twice).Topics {
		codes = append(codes, topic.Partitions[0].ErrorCode)
	}
	if want := []int16{42, 42, 6, 3}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
}

func TestFetchRules(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for range 3 {
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, strings.Repeat("x", 1000))))
	}
	one := len(r.b.Partition("here", 0).Batches()[0])
	fetch := func(change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
		req := fetchFrom(11, "here", 0, 0, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
		change(req)
		return do[*kmsg.FetchResponse](w, req).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		name    string
		change  func(*kmsg.FetchRequest)
		batches int
		code    int16
	}{
		{"everything", func(*kmsg.FetchRequest) {}, 3, 0},
		{"from the middle", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 1 }, 2, 0},
		{"at the end", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 3 }, 0, 0},
		{"past the end", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 4 }, 0, kerr.OffsetOutOfRange.Code},
		{"before the start", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = -1 }, 0, kerr.OffsetOutOfRange.Code},
		{"a limit below one batch gives one batch", func(q *kmsg.FetchRequest) { q.MaxBytes = 10 }, 1, 0},
		{"partition limit", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].PartitionMaxBytes = int32(2*one + 10) }, 2, 0},
		{"negative limits", func(q *kmsg.FetchRequest) { q.MaxBytes, q.Topics[0].Partitions[0].PartitionMaxBytes = -1, -1 }, 1, 0},
		{"future epoch", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].CurrentLeaderEpoch = 7 }, 0, kerr.UnknownLeaderEpoch.Code},
		{"as a replica", func(q *kmsg.FetchRequest) { q.ReplicaID = 2 }, 0, kerr.ClusterAuthorizationFailed.Code},
		{"not hosted", func(q *kmsg.FetchRequest) { q.Topics[0].Topic = "there" }, 0, kerr.NotLeaderForPartition.Code},
		{"unknown", func(q *kmsg.FetchRequest) { q.Topics[0].Topic = "nope" }, 0, kerr.UnknownTopicOrPartition.Code},
	} {
		got := fetch(c.change)
		if got.ErrorCode != c.code || len(got.RecordBatches) != c.batches*one {
			t.Errorf("%s: code %d, %d bytes of records, want %d and %d", c.name, got.ErrorCode, len(got.RecordBatches), c.code, c.batches*one)
		}
		if c.code != 0 && got.HighWatermark != -1 {
			t.Errorf("%s: watermark %d beside an error", c.name, got.HighWatermark)
		}
	}
	// A follower answers consumers from version 11 on, with its own watermark (KIP-392).
	r.b.SetLeader("here", 0, 2)
	if got := fetch(func(q *kmsg.FetchRequest) { q.Version = 10 }); got.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("version 10 from a follower: %+v", got)
	}
	if got := fetch(func(*kmsg.FetchRequest) {}); got.ErrorCode != 0 || len(got.RecordBatches) != 3*one {
		t.Errorf("version 11 from a follower: code %d, %d bytes", got.ErrorCode, len(got.RecordBatches))
	}
	session := at(fetchFrom(11, "here", 0, 0, 0), 11)
	session.SessionID = 77
	if resp := do[*kmsg.FetchResponse](w, session); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("a session: %+v", resp)
	}
	session.SessionID, session.SessionEpoch = 0, 0
	if resp := do[*kmsg.FetchResponse](w, session); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Errorf("the wish for a session: %+v", resp)
	}
}

// The second partition's records must fit beside the first's; only the first may be larger than the limit.
func TestFetchLimitCoversAllPartitions(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for p := range int32(2) {
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", p, batch(-1, -1, -1, strings.Repeat("x", 1000))))
	}
	one := len(r.b.Partition("here", 0).Batches()[0])
	req := r.fetch(11, []string{"here"}, 0)
	req.Topics[0].Partitions = req.Topics[0].Partitions[:2]
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].FetchOffset = 0
	}
	for limit, want := range map[int]int{2 * one: 2, 2*one - 1: 1, 1: 1} {
		req.MaxBytes = int32(limit)
		total := 0
		for _, p := range do[*kmsg.FetchResponse](w, req).Topics[0].Partitions {
			total += len(p.RecordBatches)
		}
		if total != want*one {
			t.Errorf("limit %d: %d bytes, want %d", limit, total, want*one)
		}
	}
}

func TestDescribeConfigs(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
		req := at(kmsg.NewPtrDescribeConfigsRequest(), 4)
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
		return do[*kmsg.DescribeConfigsResponse](w, req).Resources[0]
	}
	line := func(c kmsg.DescribeConfigsResponseResourceConfig) string {
		var syn []string
		for _, s := range c.ConfigSynonyms {
			syn = append(syn, fmt.Sprintf("%s=%s(%d)", s.Name, *s.Value, s.Source))
		}
		return fmt.Sprintf("%s=%s source %d type %d readOnly %v; %s", c.Name, *c.Value, c.Source, c.ConfigType, c.ReadOnly, strings.Join(syn, " "))
	}
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		key  string
		want string
	}{
		{2, "here", "retention.ms", "retention.ms=1000 source 1 type 5 readOnly false; retention.ms=1000(1) retention.ms=604800000(5)"},
		{2, "there", "retention.ms", "retention.ms=604800000 source 5 type 5 readOnly false; retention.ms=604800000(5)"},
		{2, "here", "min.insync.replicas", "min.insync.replicas=2 source 3 type 3 readOnly false; min.insync.replicas=2(3) min.insync.replicas=1(5)"},
		{4, "1", "node.id", "node.id=1 source 4 type 3 readOnly true; node.id=1(4) node.id=-1(5)"},
		{4, "", "min.insync.replicas", "min.insync.replicas=2 source 3 type 3 readOnly false; min.insync.replicas=2(3)"},
	} {
		res := describe(c.kind, c.name, c.key)
		if len(res.Configs) != 1 || line(res.Configs[0]) != c.want || res.Configs[0].Documentation == nil || *res.Configs[0].Documentation == "" {
			t.Errorf("%d %q %s: code %d, %+v, want\n%s", c.kind, c.name, c.key, res.ErrorCode, res.Configs, c.want)
		}
	}
	if n := len(describe(2, "here").Configs); n < 8 {
		t.Errorf("all keys of a topic: %d", n)
	}
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want int16
	}{{2, "unknown", 3}, {2, "a b", 17}, {4, "2", 42}, {4, "x", 42}, {8, "1", 42}, {16, "", 42}, {32, "g", 42}, {0, "", 42}} {
		if res := describe(c.kind, c.name); res.ErrorCode != c.want || len(res.Configs) != 0 {
			t.Errorf("%d %q: code %d, want %d", c.kind, c.name, res.ErrorCode, c.want)
		}
	}
}

func TestInitProducerID(t *testing.T) {
	w := cluster(t).dial()
	seen := map[int64]bool{}
	for _, v := range allVersions(22) {
		got := do[*kmsg.InitProducerIDResponse](w, at(kmsg.NewPtrInitProducerIDRequest(), v))
		if got.ErrorCode != 0 || got.ProducerEpoch != 0 || got.ProducerID < 0 || seen[got.ProducerID] {
			t.Errorf("v%d: %+v", v, got)
		}
		seen[got.ProducerID] = true
	}
	req := at(kmsg.NewPtrInitProducerIDRequest(), 4)
	req.ProducerID, req.ProducerEpoch = 5, 3 // asks for a higher epoch
	if got := do[*kmsg.InitProducerIDResponse](w, req); got.ErrorCode != 0 {
		t.Errorf("with id and epoch: %+v", got)
	}
	req.ProducerEpoch = -1
	if got := do[*kmsg.InitProducerIDResponse](w, req); got.ErrorCode != kerr.InvalidRequest.Code || got.ProducerID != -1 {
		t.Errorf("with an id only: %+v", got)
	}
	req = at(kmsg.NewPtrInitProducerIDRequest(), 4)
	req.TransactionalID = kmsg.StringPtr("tx")
	if got := do[*kmsg.InitProducerIDResponse](w, req); got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("with a transactional id: %+v", got)
	}
}
