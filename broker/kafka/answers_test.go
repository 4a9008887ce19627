package kafka_test

import (
	"fmt"
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
	clusterRequests(add, names)
	return append(out, r.operatorRequests(version)...)
}

// clusterRequests adds those about topics as such, producers, configs and the cluster.
func clusterRequests(add func(func(v int16) kmsg.Request), names []string) {
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
