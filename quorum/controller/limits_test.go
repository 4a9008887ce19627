package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

func manyTopics(topics int, partitions int32) *controllerpb.CreateTopicsRequest {
	req := &controllerpb.CreateTopicsRequest{}
	factor := int32(3)
	for i := range topics {
		req.Topics = append(req.Topics, &controllerpb.CreatableTopic{
			Name: fmt.Sprintf("topic-%04d", i), Partitions: &partitions, ReplicationFactor: &factor,
		})
	}
	return req
}

// Exactly the limit fits, one record more does not, nor does a multiple; limit and size are named.
func TestCreateTopicsLimit(t *testing.T) {
	h := newHarness(t)
	h.claim()
	for id := range int32(3) {
		h.startBroker(id, "")
	}
	for _, c := range []struct {
		topics     int
		partitions int32
		want       string
	}{
		{909, 10, ""},
		{1, 9999, ""},
		{1, 10000, "POLICY_VIOLATION: the request needs 10001 records, metadata.max.records.per.batch is 10000: split it"},
		{1000, 10, "POLICY_VIOLATION: the request needs 11000 records, metadata.max.records.per.batch is 10000: split it"},
		{2, 9999, "POLICY_VIOLATION: the request needs 20000 records, metadata.max.records.per.batch is 10000: split it"},
	} {
		t.Run(fmt.Sprintf("%d×%d", c.topics, c.partitions), func(t *testing.T) {
			d, err := controller.CreateTopics(h.view(), manyTopics(c.topics, c.partitions))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if want := c.topics * int(1+c.partitions); len(d.Records) != want {
					t.Fatalf("%d records, want %d", len(d.Records), want)
				}
				return
			}
			if err == nil || err.Error() != c.want {
				t.Fatalf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestLimitsAndDefaultsValidate(t *testing.T) {
	if err := controller.DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	if err := controller.DefaultDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*controller.Limits){
		"RecordsMax":        func(l *controller.Limits) { l.RecordsMax = 0 },
		"BytesMax":          func(l *controller.Limits) { l.BytesMax = 0 },
		"HeartbeatInterval": func(l *controller.Limits) { l.HeartbeatInterval = 0 },
		"SessionTimeout":    func(l *controller.Limits) { l.SessionTimeout = l.HeartbeatInterval },
	} {
		l := controller.DefaultLimits()
		change(&l)
		wantNamed(t, name, l.Validate())
	}
	for name, change := range map[string]func(*controller.Defaults){
		"Partitions":             func(d *controller.Defaults) { d.Partitions = 0 },
		"ReplicationFactor":      func(d *controller.Defaults) { d.ReplicationFactor = 0 },
		"MinInsyncReplicas":      func(d *controller.Defaults) { d.MinInsyncReplicas = 0 },
		"EligibleLeaderReplicas": func(d *controller.Defaults) { d.EligibleLeaderReplicas = 2 },
	} {
		d := controller.DefaultDefaults()
		change(&d)
		wantNamed(t, name, d.Validate())
	}
}

func wantNamed(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v does not name the field %s", err, name)
	}
}

// bigImage has brokers with perBroker memberships each and a third as many leaderships.
func bigImage(b testing.TB, brokers, partitions int) *harness {
	h := newHarness(b)
	h.lenient = true
	h.claim()
	for id := range int32(brokers) {
		h.startBroker(id, "")
	}
	d := h.image.Fork()
	offset := h.image.Offset()
	add := func(r *metadatapb.Record) {
		offset++
		if err := d.Replay(offset, r); err != nil {
			b.Fatal(err)
		}
	}
	for i := range partitions {
		topic := uuid(fmt.Sprintf("t%d", i/10))
		if i%10 == 0 {
			add(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: fmt.Sprintf("t%d", i/10), TopicId: topic[:]}}})
		}
		replicas := []int32{int32(i % brokers), int32((i + 1 + i/brokers%7) % brokers), int32((i + 9 + i/brokers%5) % brokers)}
		add(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
			TopicId: topic[:], Partition: int32(i % 10), Replicas: replicas, Isr: replicas, Leader: &replicas[0],
		}}})
	}
	h.image = d.Seal(offset, 0)
	return h
}

// BenchmarkFence decides and encodes what the death of one of 100 brokers writes; 60,000 memberships.
func BenchmarkFence(b *testing.B) {
	h := bigImage(b, 100, 2_000_000)
	broker := h.broker(7)
	b.ResetTimer()
	for b.Loop() {
		d, err := controller.BrokerHeartbeat(h.view(), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: 7, BrokerEpoch: int64(broker.Epoch), MetadataOffset: int64(h.image.Offset()), WantFence: true,
		})
		if err != nil {
			b.Fatal(err)
		}
		bytes := 0
		for _, r := range d.Records {
			data, err := proto.Marshal(r)
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(data)
		}
		b.ReportMetric(float64(len(d.Records)), "records")
		b.ReportMetric(float64(bytes), "bytes")
	}
}

// BenchmarkAlterPartition decides 10,000 ISR changes in requests of 1,000.
func BenchmarkAlterPartition(b *testing.B) {
	h := bigImage(b, 20, 200_000)
	broker := h.broker(7)
	var requests []*controllerpb.AlterPartitionRequest
	n := 0
	for id, p := range h.image.PartitionsWithISR(7) {
		if p.Leader != 7 || n == 10_000 {
			continue
		}
		if n%1000 == 0 {
			requests = append(requests, &controllerpb.AlterPartitionRequest{BrokerId: 7, BrokerEpoch: int64(broker.Epoch)})
		}
		n++
		req := requests[len(requests)-1]
		item := &controllerpb.AlterPartitionItem{
			Partition: id.Partition, LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
			Isr: []*controllerpb.IsrMember{{BrokerId: 7}, {BrokerId: int32(p.Replicas[1])}},
		}
		if k := len(req.Topics); k > 0 && image.UUID(req.Topics[k-1].TopicId) == id.Topic {
			req.Topics[k-1].Partitions = append(req.Topics[k-1].Partitions, item)
			continue
		}
		req.Topics = append(req.Topics, &controllerpb.AlterPartitionTopic{TopicId: id.Topic.Bytes(), Partitions: []*controllerpb.AlterPartitionItem{item}})
	}
	b.ResetTimer()
	for b.Loop() {
		records := 0
		for _, req := range requests {
			d, err := controller.AlterPartition(h.view(), req)
			if err != nil {
				b.Fatal(err)
			}
			records += len(d.Records)
		}
		b.ReportMetric(float64(records), "records")
	}
}
