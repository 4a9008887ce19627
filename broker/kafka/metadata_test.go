package kafka_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka/kafkatest"
	"github.com/quorate/quorate/fsm/image"
)

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
