package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchVersion is a version that names topics by id, and that any replica answers for a consumer (KIP-392).
const fetchVersion = 13

// ReplicaValues reads one partition from one broker, from an offset up to an end, and returns the values by offset.
// It asks the broker that is named, leader or not.
func (c *Cluster) ReplicaValues(t testing.TB, client *kgo.Client, broker int, topicID [16]byte, partition int32, from, end int64) (map[int64]string, error) {
	t.Helper()
	values := map[int64]string{}
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	for next := from; next < end; {
		select {
		case <-deadline.C:
			return values, fmt.Errorf("broker %d partition %d: at %d of %d", broker, partition, next, end)
		default:
		}
		batch, err := fetch(client, broker, topicID, partition, next)
		if err != nil {
			return values, fmt.Errorf("broker %d partition %d at %d: %w", broker, partition, next, err)
		}
		for _, r := range batch {
			if r.Offset >= next && r.Offset < end {
				values[r.Offset] = string(r.Value)
			}
			next = max(next, r.Offset+1)
		}
	}
	return values, nil
}

func fetch(client *kgo.Client, broker int, topicID [16]byte, partition int32, offset int64) ([]*kgo.Record, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 4<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID, topic.Partitions = topicID, []kmsg.FetchRequestTopicPartition{p}
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(fetchVersion)
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, 1, 8<<20
	request.Topics = []kmsg.FetchRequestTopic{topic}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	response, err := client.Broker(broker).Request(ctx, request)
	if err != nil {
		return nil, err
	}
	topics := response.(*kmsg.FetchResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the answer has not the one partition: %+v", topics)
	}
	rp := topics[0].Partitions[0]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return nil, err
	}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset, Partition: partition}, &rp, kgo.DefaultDecompressor(), nil)
	return fp.Records, fp.Err
}

// VerifyReplicas checks that every acknowledged value stands at its offset on every ISR member.
func (c *Cluster) VerifyReplicas(t testing.TB, topic string, acks []Ack, from map[int32]int64) {
	t.Helper()
	topics, err := c.Describe(t, topic)
	if err != nil || len(topics) != 1 {
		t.Fatalf("describe %s: %+v %v", topic, topics, err)
	}
	id, err := TopicID(topics[0].TopicID)
	if err != nil {
		t.Fatal(err)
	}
	ends := c.EndOffsets(t, topic)
	client := c.Client(t)
	defer client.Close()
	byPartition := map[int32][]Ack{}
	for _, a := range acks {
		byPartition[a.Partition] = append(byPartition[a.Partition], a)
	}
	for _, p := range topics[0].Partitions {
		var first map[int64]string
		for _, member := range slices.Sorted(slices.Values(p.ISR)) {
			values, err := c.ReplicaValues(t, client, member, id, int32(p.Partition), from[int32(p.Partition)], ends[int32(p.Partition)])
			if err != nil {
				t.Errorf("read: %v", err)
				continue
			}
			lost := 0
			for _, a := range byPartition[int32(p.Partition)] {
				if values[a.Offset] != a.Value {
					if lost++; lost <= 5 {
						t.Errorf("%s-%d offset %d on broker %d is %q, acknowledged was %q", topic, p.Partition, a.Offset, member, values[a.Offset], a.Value)
					}
				}
			}
			if first == nil {
				first = values
				c.onlyOnce(t, topic, p.Partition, values, byPartition[int32(p.Partition)])
			}
		}
	}
}

// onlyOnce checks that no value of an idempotent producer stands twice.
func (c *Cluster) onlyOnce(t testing.TB, topic string, partition int, values map[int64]string, acks []Ack) {
	t.Helper()
	count := map[string]int{}
	for _, v := range values {
		count[v]++
	}
	for _, a := range acks {
		if a.Idempotent && count[a.Value] > 1 {
			t.Errorf("%s-%d: %s of an idempotent producer stands %d times", topic, partition, a.Value, count[a.Value])
		}
	}
}

// VerifyReplica checks that every acknowledged value stands at its offset on one broker, leader or follower.
func (c *Cluster) VerifyReplica(t testing.TB, broker int, topic string, acks []Ack) {
	t.Helper()
	var id [16]byte
	Eventually(t, 60*time.Second, "describe "+topic, func() error {
		topics, err := c.Describe(t, topic)
		if err == nil && len(topics) != 1 {
			err = fmt.Errorf("%+v", topics)
		}
		if err == nil {
			id, err = TopicID(topics[0].TopicID)
		}
		return err
	})
	byPartition := map[int32][]Ack{}
	for _, a := range acks {
		byPartition[a.Partition] = append(byPartition[a.Partition], a)
	}
	client := c.Client(t)
	defer client.Close()
	for partition, list := range byPartition {
		end := slices.MaxFunc(list, func(a, b Ack) int { return cmp.Compare(a.Offset, b.Offset) }).Offset + 1
		values, err := c.ReplicaValues(t, client, broker, id, partition, 0, end)
		if err != nil {
			t.Errorf("read %s: %v", topic, err)
			continue
		}
		for _, a := range list {
			if values[a.Offset] != a.Value {
				t.Errorf("%s-%d offset %d on broker %d is %.40q, acknowledged was %.40q", topic, partition, a.Offset, broker, values[a.Offset], a.Value)
				break
			}
		}
	}
}
