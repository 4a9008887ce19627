package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/test/cluster"
)

// An operator's client, unmodified, runs a cluster: partitions, configs, elections, moves and their cancel, the quorum, a
// dead broker's registration, and topics made by producing.
func TestOperateByKafkaClient(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Brokers: 4, Set: []string{
		"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500",
		"auto.leader.rebalance.enable=false",
	}})
	client := c.Client(t, kgo.AllowAutoTopicCreation())
	defer client.Close()
	adm := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "made-by-producing", Value: []byte("v")}).FirstErr(); err != nil {
		t.Errorf("produce to a new topic: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		client.Produce(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, "value ", i)}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if grown, err := adm.UpdatePartitions(ctx, 3, "t"); err != nil || grown["t"].Err != nil {
		t.Errorf("create partitions: %+v, %v", grown, err)
	}
	if topics, err := adm.ListTopics(ctx, "t"); err != nil || len(topics["t"].Partitions) != 3 {
		t.Errorf("after it: %+v, %v", topics, err)
	}
	configs(t, ctx, adm)
	quorum(t, ctx, client, c)
	move(t, ctx, adm, c)
	preferred(t, ctx, adm, c)
	unregister(t, ctx, client, c)
	if got := len(c.ReadAll(t, "t")); got != 500 {
		t.Errorf("%d records, want 500", got)
	}
}

func configs(t *testing.T, ctx context.Context, adm *kadm.Client) {
	t.Helper()
	value := "12345678"
	for name, alter := range map[string]func() (kadm.AlterConfigsResponses, error){
		"topic": func() (kadm.AlterConfigsResponses, error) {
			return adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, "t")
		},
		"cluster": func() (kadm.AlterConfigsResponses, error) {
			return adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &value}})
		},
		"throttles": func() (kadm.AlterConfigsResponses, error) {
			return adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{
				{Op: kadm.DeleteConfig, Name: "leader.replication.throttled.rate"},
				{Op: kadm.DeleteConfig, Name: "follower.replication.throttled.rate"},
				{Op: kadm.DeleteConfig, Name: "replica.alter.log.dirs.io.max.bytes.per.second"},
			}, 1, 2)
		},
	} {
		answers, err := alter()
		if err != nil || len(answers) == 0 {
			t.Errorf("%s configs: %+v, %v", name, answers, err)
		}
		for _, a := range answers {
			if a.Err != nil {
				t.Errorf("%s configs: %v %s", name, a.Err, a.ErrMessage)
			}
		}
	}
	described, err := adm.DescribeTopicConfigs(ctx, "t")
	if err != nil || described[0].Err != nil {
		t.Fatalf("describe: %+v, %v", described, err)
	}
	sources := map[string]string{}
	for _, c := range described[0].Configs {
		sources[c.Key] = c.MaybeValue() + " " + c.Source.String()
	}
	if sources["retention.ms"] != value+" DYNAMIC_TOPIC_CONFIG" || sources["retention.bytes"] != value+" DYNAMIC_DEFAULT_BROKER_CONFIG" {
		t.Errorf("described: %q, %q", sources["retention.ms"], sources["retention.bytes"])
	}
	bad := "soon"
	refused, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &bad}}, "t")
	if err != nil || !errors.Is(refused[0].Err, kerr.InvalidConfig) {
		t.Errorf("a bad value: %+v, %v", refused, err)
	}
}

func quorum(t *testing.T, ctx context.Context, client *kgo.Client, c *cluster.Cluster) {
	t.Helper()
	active := c.Active(t)
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}
	request.Topics = append(request.Topics, topic)
	cluster.Eventually(t, 30*time.Second, "the quorum as the client sees it", func() error {
		q, err := request.RequestWith(ctx, client)
		if err != nil || q.ErrorCode != 0 || len(q.Topics) != 1 {
			return fmt.Errorf("%+v, %v", q, err)
		}
		p := q.Topics[0].Partitions[0]
		if int(p.LeaderID) != active || len(p.CurrentVoters) != 3 || len(p.Observers) != 4 || len(q.Nodes) != 3 {
			return fmt.Errorf("active controller %d, described %+v", active, p)
		}
		for _, v := range append(p.CurrentVoters, p.Observers...) {
			if v.LogEndOffset < 1 || v.LastFetchTimestamp < 0 {
				return fmt.Errorf("%+v", v)
			}
		}
		return nil
	})
}

// move moves a partition away from a replica and waits until it has, then begins another move and cancels it.
func move(t *testing.T, ctx context.Context, adm *kadm.Client, c *cluster.Cluster) {
	t.Helper()
	p, err := c.PartitionOf(t, "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	spare := slices.IndexFunc([]int{0, 1, 2, 3, 4}, func(id int) bool { return id > 0 && !slices.Contains(p.Replicas, id) })
	target := []int32{int32(spare), int32(p.Replicas[2]), int32(p.Replicas[1])}
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("t", 0, target)
	if moved, err := adm.AlterPartitionAssignments(ctx, req); err != nil || moved["t"][0].Err != nil {
		t.Fatalf("move: %+v, %v", moved, err)
	}
	var set kadm.TopicsSet
	set.Add("t", 0)
	cluster.Eventually(t, 60*time.Second, "the move ends", func() error {
		listed, err := adm.ListPartitionReassignments(ctx, set)
		if err == nil && len(listed) > 0 {
			err = fmt.Errorf("%+v", listed)
		}
		return err
	})
	after, err := c.PartitionOf(t, "t", 0)
	if want := []int{int(target[0]), int(target[1]), int(target[2])}; err != nil || !slices.Equal(after.Replicas, want) {
		t.Errorf("replicas %v, want %v; %v", after.Replicas, want, err)
	}
	// The one that is to be added does not run, so this move cannot end by itself.
	absent := p.Replicas[0]
	c.Kill(t, absent)
	var stuck, undo kadm.AlterPartitionAssignmentsReq
	stuck.Assign("t", 0, []int32{int32(absent), target[0], target[1]})
	undo.CancelAssign("t", 0)
	if moved, err := adm.AlterPartitionAssignments(ctx, stuck); err != nil || moved["t"][0].Err != nil {
		t.Fatalf("second move: %+v, %v", moved, err)
	}
	if listed, err := adm.ListPartitionReassignments(ctx, set); err != nil || !slices.Equal(listed["t"][0].AddingReplicas, []int32{int32(absent)}) {
		t.Errorf("second move: %+v, %v", listed, err)
	}
	if cancelled, err := adm.AlterPartitionAssignments(ctx, undo); err != nil || cancelled["t"][0].Err != nil {
		t.Fatalf("cancel: %+v, %v", cancelled, err)
	}
	if now, err := c.PartitionOf(t, "t", 0); err != nil || !slices.Equal(now.Replicas, after.Replicas) {
		t.Errorf("after the cancel %v, want %v; %v", now.Replicas, after.Replicas, err)
	}
	c.Restart(t, absent)
	c.WholeISRs(t, 90*time.Second)
}

// preferred restarts a leader and gives its leadership back.
func preferred(t *testing.T, ctx context.Context, adm *kadm.Client, c *cluster.Cluster) {
	t.Helper()
	p, err := c.PartitionOf(t, "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	first := p.Replicas[0]
	c.Kill(t, first)
	cluster.Eventually(t, 30*time.Second, "another leader", func() error {
		p, err := c.PartitionOf(t, "t", 0)
		if err == nil && (p.Leader < 0 || p.Leader == first) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	c.Restart(t, first)
	c.WholeISRs(t, 90*time.Second)
	var set kadm.TopicsSet
	set.Add("t", 0)
	elected, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil || elected["t"][0].Err != nil {
		t.Errorf("elect: %+v, %v", elected, err)
	}
	if p, err := c.PartitionOf(t, "t", 0); err != nil || p.Leader != first {
		t.Errorf("leader %d, want %d; %v", p.Leader, first, err)
	}
	again, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil || !errors.Is(again["t"][0].Err, kerr.ElectionNotNeeded) {
		t.Errorf("elect again: %+v, %v", again, err)
	}
}

// unregister removes the registration of a broker that is dead.
func unregister(t *testing.T, ctx context.Context, client *kgo.Client, c *cluster.Cluster) {
	t.Helper()
	const dead = 4
	c.Kill(t, dead)
	state := func() (string, error) {
		brokers, err := c.Brokers(t)
		for _, b := range brokers {
			if b.ID == dead {
				return b.State, err
			}
		}
		return "gone", err
	}
	cluster.Eventually(t, 30*time.Second, "the broker is fenced", func() error {
		s, err := state()
		if err == nil && s != "FENCED" {
			err = errors.New(s)
		}
		return err
	})
	request := kmsg.NewPtrUnregisterBrokerRequest()
	request.BrokerID = dead
	answer, err := request.RequestWith(ctx, client)
	if err != nil || answer.ErrorCode != 0 {
		t.Fatalf("unregister: %+v, %v", answer, err)
	}
	if s, err := state(); err != nil || s != "gone" {
		t.Errorf("broker %d is %s; %v", dead, s, err)
	}
}
