package quorum_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// badInput sends what it should not, and looks that nothing came of it.
type badInput struct {
	t        *testing.T
	c        *quorumtest.Cluster
	operator controllerpb.OperatorApiClient
	broker   controllerpb.BrokerApiClient
}

// newBadInput has brokers 1 and 2 and the topic t, led by broker 1.
func newBadInput(t *testing.T) (*badInput, *quorumtest.Broker, *quorumtest.Broker) {
	c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
	b := &badInput{t: t, c: c, operator: controllerpb.NewOperatorApiClient(c.Client), broker: controllerpb.NewBrokerApiClient(c.Client)}
	one, two := c.RegisterBroker(t, 1), c.RegisterBroker(t, 2)
	if _, err := b.operator.CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
		Name: "t", Assignments: []*controllerpb.ReplicaAssignment{{BrokerIds: []int32{1, 2}}},
	}}}); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * time.Second) // the controller's own registration
	return b, one, two
}

// harmless wants the request refused with the code, a text that holds the words, and no record. A request that is answered
// item by item returns the error of its item.
func (b *badInput) harmless(what string, code controllerpb.ErrorCode, words []string, ask func(ctx context.Context) (*controllerpb.Error, error)) {
	b.t.Helper()
	before := offsetOf(b.c.Members[0])
	item, err := ask(soon(b.t))
	if err != nil {
		refused, ok := client.AsRefusal(err)
		if !ok {
			b.t.Errorf("%s: %v is no refusal", what, err)
			return
		}
		item = controllerpb.NewError(refused.Code, "%s", refused.Message)
	}
	if item.GetCode() != code || item.GetMessage() == "" {
		b.t.Errorf("%s: %v, want %v", what, item, code)
	}
	for _, w := range words {
		if !strings.Contains(item.GetMessage(), w) {
			b.t.Errorf("%s: no %q in %q", what, w, item.GetMessage())
		}
	}
	<-time.After(time.Second)
	if after := offsetOf(b.c.Members[0]); after != before {
		b.t.Errorf("%s: the offset moved from %d to %d", what, before, after)
	}
}

func (b *badInput) create(ctx context.Context, topics int, partitions int32, configs ...*controllerpb.ConfigEntry) (*controllerpb.Error, error) {
	r := &controllerpb.CreateTopicsRequest{}
	one := int32(1)
	for i := range topics {
		r.Topics = append(r.Topics, &controllerpb.CreatableTopic{Name: fmt.Sprintf("x%d-%d", partitions, i), Partitions: &partitions, ReplicationFactor: &one, Configs: configs})
	}
	answer, err := b.operator.CreateTopics(ctx, r)
	for _, t := range answer.GetTopics() {
		if t.GetError() != nil {
			return t.GetError(), nil
		}
	}
	return nil, err
}

// A request above the limit of records or of bytes is refused with limit and size; exactly the limit is done.
func TestRequestsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := newBadInput(t)
		const policy = controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION
		for _, c := range []struct {
			topics     int
			partitions int32
			size       string
		}{{1000, 10, "11000"}, {1, 10_000, "10001"}, {2, 9999, "20000"}, {100_000, 9, "1000000"}} {
			b.harmless(fmt.Sprintf("%d×%d", c.topics, c.partitions), policy, []string{"metadata.max.records.per.batch is 10000", c.size}, func(ctx context.Context) (*controllerpb.Error, error) {
				return b.create(ctx, c.topics, c.partitions)
			})
		}
		pairs := strings.TrimSuffix(strings.Repeat("0:1,", 300_000), ",")
		long := &controllerpb.ConfigEntry{Name: "leader.replication.throttled.replicas", Value: &pairs}
		b.harmless("1.2 MB of configs", policy, []string{"metadata.max.bytes.per.batch is 1048576", "1200"}, func(ctx context.Context) (*controllerpb.Error, error) {
			return b.create(ctx, 1, 1, long)
		})
		before := offsetOf(b.c.Members[0])
		if item, err := b.create(soon(t), 909, 10); item != nil || err != nil {
			t.Fatalf("909×10: %v, %v", item, err)
		}
		if after := offsetOf(b.c.Members[0]); after != before+9999 {
			t.Errorf("909×10: the offset moved from %d to %d", before, after)
		}
	})
}

// Requests of brokers that are unknown, fenced, or of an epoch that is over or yet to come.
func TestRequestsOfWrongBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, one, two := newBadInput(t)
		const stale = controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH
		p := partitionOf(t, b.c, "t", 0)
		propose := func(from int32, epoch int64, item *controllerpb.AlterPartitionItem) func(context.Context) (*controllerpb.Error, error) {
			return func(ctx context.Context) (*controllerpb.Error, error) {
				r, err := b.broker.AlterPartition(ctx, &controllerpb.AlterPartitionRequest{BrokerId: from, BrokerEpoch: epoch,
					Topics: []*controllerpb.AlterPartitionTopic{{TopicId: p.GetTopicId(), Partitions: []*controllerpb.AlterPartitionItem{item}}}})
				if err != nil {
					return nil, err
				}
				return r.GetTopics()[0].GetPartitions()[0].GetError(), nil
			}
		}
		isr := func(members ...int32) *controllerpb.AlterPartitionItem {
			item := &controllerpb.AlterPartitionItem{LeaderEpoch: p.GetLeaderEpoch(), PartitionEpoch: p.GetPartitionEpoch(), LeaderRecoveryState: p.GetLeaderRecoveryState()}
			for _, m := range members {
				item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: m})
			}
			return item
		}
		for _, sender := range []struct {
			id    int32
			epoch int64
		}{{9, 0}, {-1, 0}, {math.MinInt32, math.MinInt64}, {math.MaxInt32, math.MaxInt64}, {1, one.Epoch - 1}, {1, one.Epoch + 1}, {1, -1}, {1, math.MaxInt64}, {1, two.Epoch}} {
			what := fmt.Sprintf("broker %d of epoch %d", sender.id, sender.epoch)
			b.harmless("ISR of "+what, stale, nil, propose(sender.id, sender.epoch, isr(1)))
			b.harmless("heartbeat of "+what, stale, nil, func(ctx context.Context) (*controllerpb.Error, error) {
				_, err := b.broker.BrokerHeartbeat(ctx, &controllerpb.BrokerHeartbeatRequest{BrokerId: sender.id, BrokerEpoch: sender.epoch, WantShutDown: true})
				return nil, err
			})
			b.harmless("deletions of "+what, stale, nil, func(ctx context.Context) (*controllerpb.Error, error) {
				_, err := b.broker.ReportDeletions(ctx, &controllerpb.ReportDeletionsRequest{BrokerId: sender.id, BrokerEpoch: sender.epoch, Deleted: [][]byte{p.GetTopicId()}})
				return nil, err
			})
			b.harmless("producer ids of "+what, stale, nil, func(ctx context.Context) (*controllerpb.Error, error) {
				_, err := b.broker.AllocateProducerIds(ctx, &controllerpb.AllocateProducerIdsRequest{BrokerId: sender.id, BrokerEpoch: sender.epoch})
				return nil, err
			})
		}
		unknown := isr(1)
		unknown.Partition = 7
		b.harmless("partition 7", controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, nil, propose(1, one.Epoch, unknown))
		b.harmless("an ISR of nobody", controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil, propose(1, one.Epoch, isr()))
		b.harmless("another's partition", controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil, propose(2, two.Epoch, isr(1, 2)))

		// Replayed and reordered: the later of two proposals arrives first, the earlier and the repetition change nothing.
		setISR(t, b.c, one, "t", one)
		b.harmless("the earlier proposal", controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, nil, propose(1, one.Epoch, isr(1, 2)))
		b.harmless("the same again", controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, nil, propose(1, one.Epoch, isr(1)))

		// A fenced broker is let into no ISR.
		two.Silence()
		<-time.After(30 * time.Second)
		p = partitionOf(t, b.c, "t", 0)
		b.harmless("a fenced member", controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA, []string{"broker 2 is fenced"}, propose(1, one.Epoch, isr(1, 2)))
		b.harmless("a fenced sender", controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, nil, propose(2, two.Epoch, isr(1, 2)))
	})
}

// Requests of operators that name what is not there, or come a second time.
func TestOperatorRequestsThatAreWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := newBadInput(t)
		id := make([]byte, 16)
		id[0], id[6], id[8] = 7, 0x40, 0x80
		b.harmless("an unknown id", controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, nil, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.DeleteTopics(ctx, &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{TopicId: id}}})
			return r.GetTopics()[0].GetError(), err
		})
		b.harmless("an id of 3 bytes", controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, nil, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.DeleteTopics(ctx, &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{TopicId: id[:3]}}})
			return r.GetTopics()[0].GetError(), err
		})
		b.harmless("a move to a broker whose id overflows", controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT, nil, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.AlterPartitionReassignments(ctx, &controllerpb.AlterPartitionReassignmentsRequest{Partitions: []*controllerpb.ReassignablePartition{
				{Topic: "t", Replicas: &metadatapb.BrokerIds{Ids: []int32{math.MinInt32}}},
			}})
			return r.GetResults()[0].GetError(), err
		})
		b.harmless("partitions below zero", controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS, nil, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.CreatePartitions(ctx, &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{Name: "t", Count: math.MinInt32}}})
			return r.GetTopics()[0].GetError(), err
		})
		b.harmless("a level that no node supports", controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, []string{"supported by no node", "brokers 1, 2 support 1-1"}, func(ctx context.Context) (*controllerpb.Error, error) {
			_, err := b.operator.UpdateFeatures(ctx, &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{Name: "metadata.version", Level: math.MaxInt32, Type: upgrade}}})
			return nil, err
		})
		b.harmless("a request id of 1 MB", controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, []string{"1000000 bytes", "256"}, func(ctx context.Context) (*controllerpb.Error, error) {
			_, err := b.operator.UnregisterBroker(ctx, &controllerpb.UnregisterBrokerRequest{BrokerId: 1, RequestId: strings.Repeat("x", 1_000_000)})
			return nil, err
		})

		// The same creation again, under its topic id, is answered alike; the same deletion is refused by its id.
		request := &controllerpb.CreateTopicsRequest{RequestId: "r", Topics: []*controllerpb.CreatableTopic{{Name: "again", TopicId: id}}}
		first, err := b.operator.CreateTopics(soon(t), request)
		if err != nil {
			t.Fatal(err)
		}
		before := offsetOf(b.c.Members[0])
		second, err := b.operator.CreateTopics(soon(t), request)
		if after := offsetOf(b.c.Members[0]); err != nil || second.GetTopics()[0].GetError() != nil || after != before || string(second.GetTopics()[0].GetTopicId()) != string(first.GetTopics()[0].GetTopicId()) {
			t.Errorf("created again: %v, %v; offset %d, then %d", second, err, before, after)
		}
		del := &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{TopicId: id}}}
		if _, err := b.operator.DeleteTopics(soon(t), del); err != nil {
			t.Fatal(err)
		}
		b.harmless("deleted again", controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, nil, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.DeleteTopics(ctx, del)
			return r.GetTopics()[0].GetError(), err
		})
		b.harmless("the creation once more", controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, []string{"was deleted"}, func(ctx context.Context) (*controllerpb.Error, error) {
			r, err := b.operator.CreateTopics(ctx, request)
			return r.GetTopics()[0].GetError(), err
		})
	})
}
