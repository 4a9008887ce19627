package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// partitionOf reads one partition, strongly consistent.
func partitionOf(t *testing.T, c *quorumtest.Cluster, topic string, i int32) *metadatapb.Partition {
	t.Helper()
	all, err := topics(t, c, nil)
	if err != nil || all[topic] == nil || len(all[topic].GetPartitions()) <= int(i) {
		t.Fatalf("no %s-%d: %v", topic, i, err)
	}
	return all[topic].GetPartitions()[i].GetState()
}

// setISR proposes an ISR as the leader does.
func setISR(t *testing.T, c *quorumtest.Cluster, leader *quorumtest.Broker, topic string, members ...*quorumtest.Broker) {
	t.Helper()
	p := partitionOf(t, c, topic, 0)
	item := &controllerpb.AlterPartitionItem{
		LeaderEpoch: p.GetLeaderEpoch(), PartitionEpoch: p.GetPartitionEpoch(), LeaderRecoveryState: p.GetLeaderRecoveryState(),
	}
	for _, m := range members {
		item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: m.ID, BrokerEpoch: &m.Epoch})
	}
	r, err := controllerpb.NewBrokerApiClient(c.Client).AlterPartition(soon(t), &controllerpb.AlterPartitionRequest{
		BrokerId: leader.ID, BrokerEpoch: leader.Epoch,
		Topics: []*controllerpb.AlterPartitionTopic{{TopicId: p.GetTopicId(), Partitions: []*controllerpb.AlterPartitionItem{item}}},
	})
	if err != nil || r.GetTopics()[0].GetPartitions()[0].GetError() != nil {
		t.Fatalf("set the ISR of %s: %v, %v", topic, r, err)
	}
}

func setConfig(topic, key, value string) *controllerpb.AlterConfigsRequest {
	return &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{{
		Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: topic,
		Changes: []*controllerpb.ConfigChange{{Name: key, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &value}},
	}}}
}

// Every change of an operator is made, answered with its offset, and seen by the next read; dry runs write nothing.
func TestOperatorChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		for id := range int32(4) {
			c.RegisterBroker(t, id+1)
		}
		c.CreateTopic(t, "t", 1, 3)
		api, reads := controllerpb.NewOperatorApiClient(c.Client), controllerpb.NewReaderApiClient(c.Client)
		type answer interface {
			GetMetadataOffset() int64
			GetUnfencedBrokers() []int32
			GetRecords() []*metadatapb.Record
		}
		last := int64(-1)
		check := func(what string, a answer, err error, dry bool) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if moved := a.GetMetadataOffset() > last; moved == dry && last >= 0 || (len(a.GetRecords()) > 0) != dry || len(a.GetUnfencedBrokers()) == 0 {
				t.Errorf("%s: offset %d after %d, %d records to be written, brokers %v", what, a.GetMetadataOffset(), last, len(a.GetRecords()), a.GetUnfencedBrokers())
			}
			last = a.GetMetadataOffset()
		}
		<-time.After(3 * time.Second) // the controllers' own registrations
		sync, err := reads.ListBrokers(soon(t), &controllerpb.ListBrokersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		last = sync.GetMetadataOffset()
		p := partitionOf(t, c, "t", 0)
		spare := int32(1)
		for slices.Contains(p.GetReplicas(), spare) {
			spare++
		}
		target := []int32{spare, p.GetReplicas()[0], p.GetReplicas()[1]}
		for _, dry := range []bool{true, false} {
			grown, err := api.CreatePartitions(soon(t), &controllerpb.CreatePartitionsRequest{
				Topics: []*controllerpb.CreatePartitionsTopic{{Name: "t", Count: 2}}, ValidateOnly: dry})
			check("create partitions", grown, err, dry)
			configs := setConfig("t", "retention.ms", "5")
			configs.ValidateOnly = dry
			altered, err := api.AlterConfigs(soon(t), configs)
			check("alter configs", altered, err, dry)
			moved, err := api.AlterPartitionReassignments(soon(t), &controllerpb.AlterPartitionReassignmentsRequest{
				Partitions: []*controllerpb.ReassignablePartition{{Topic: "t", Replicas: &metadatapb.BrokerIds{Ids: target}}}, ValidateOnly: dry})
			check("move", moved, err, dry)
		}
		moves, err := reads.ListReassignments(soon(t), &controllerpb.ListReassignmentsRequest{})
		if err != nil || len(moves.GetReassignments()) != 1 || !slices.Equal(moves.GetReassignments()[0].GetTarget(), target) {
			t.Errorf("moves: %v, %v", moves, err)
		}
		cancelled, err := api.AlterPartitionReassignments(soon(t), &controllerpb.AlterPartitionReassignmentsRequest{
			Partitions: []*controllerpb.ReassignablePartition{{Topic: "t"}}})
		check("cancel", cancelled, err, false)
		if now := partitionOf(t, c, "t", 0); !slices.Equal(now.GetReplicas(), p.GetReplicas()) || len(partitionsOf(t, c, "t")) != 2 {
			t.Errorf("after the cancel: %v", now)
		}
		for _, dry := range []bool{true, false} {
			gone, err := api.UnregisterBroker(soon(t), &controllerpb.UnregisterBrokerRequest{BrokerId: spare, ValidateOnly: dry})
			check("unregister", gone, err, dry)
		}
		if _, err := api.UnregisterBroker(soon(t), &controllerpb.UnregisterBrokerRequest{BrokerId: spare}); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED) {
			t.Errorf("unregister again: %v", err)
		}
		elected, err := api.ElectLeaders(soon(t), &controllerpb.ElectLeadersRequest{
			Type: controllerpb.ElectionType_ELECTION_TYPE_PREFERRED, Partitions: []*controllerpb.ElectablePartition{{Topic: "t"}}})
		if err != nil || elected.GetResults()[0].GetError().GetCode() != controllerpb.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED {
			t.Errorf("elect: %v, %v", elected, err)
		}
		c.SameImages(t)
	})
}

func partitionsOf(t *testing.T, c *quorumtest.Cluster, topic string) []*controllerpb.PartitionDescription {
	t.Helper()
	all, err := topics(t, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[topic].GetPartitions()
}

// A value is told with where it comes from: topic, all brokers, and otherwise the node.
func TestDescribeConfigs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "t", 1, 1)
		request := setConfig("t", "retention.ms", "5")
		all := setConfig("", "segment.bytes", "1000").Resources[0]
		all.Type = metadatapb.ResourceType_RESOURCE_TYPE_BROKER
		request.Resources = append(request.Resources, all)
		if _, err := controllerpb.NewOperatorApiClient(c.Client).AlterConfigs(soon(t), request); err != nil {
			t.Fatal(err)
		}
		const topic, broker = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, metadatapb.ResourceType_RESOURCE_TYPE_BROKER
		got, err := controllerpb.NewReaderApiClient(c.Client).DescribeConfigs(soon(t), &controllerpb.DescribeConfigsRequest{Resources: []*controllerpb.ConfigResource{
			{Type: topic, Name: "t"}, {Type: broker}, {Type: broker, Name: "1"}, {Type: topic, Name: "nope"}, {Type: broker, Name: "7"}, {Type: broker, Name: "01"}, {Type: 9, Name: "x"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{}
		for _, r := range got.GetResources() {
			line := fmt.Sprintf("%d %q %d:", r.GetType(), r.GetName(), r.GetError().GetCode())
			for _, v := range r.GetConfigs() {
				line += fmt.Sprintf(" %s=%s from %d", v.GetName(), v.GetValue(), v.GetSource())
			}
			lines = append(lines, line)
		}
		want := []string{
			`2 "t" 0: min.insync.replicas=1 from 3 retention.ms=5 from 1 segment.bytes=1000 from 3`,
			`4 "" 0: min.insync.replicas=1 from 3 segment.bytes=1000 from 3`,
			`4 "1" 0: min.insync.replicas=1 from 3 segment.bytes=1000 from 3`,
			`2 "nope" 3:`, `4 "7" 102:`, `4 "01" 42:`, `9 "x" 42:`,
		}
		if !slices.Equal(lines, want) {
			t.Errorf("got  %q\nwant %q", lines, want)
		}
	})
}

// unclean.leader.election.enable acts at once: the answer to the change rests on the election that follows from it.
func TestUncleanElectionConfigActsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		brokers := map[int32]*quorumtest.Broker{1: c.RegisterBroker(t, 1), 2: c.RegisterBroker(t, 2)}
		c.CreateTopic(t, "t", 1, 2)
		p := partitionOf(t, c, "t", 0)
		leader, other := brokers[p.GetReplicas()[0]], brokers[p.GetReplicas()[1]]
		setISR(t, c, leader, "t", leader)
		leader.Silence()
		quorumtest.Eventually(t, "the partition is leaderless", func() error {
			if p := partitionOf(t, c, "t", 0); p.Leader != nil && p.GetLeader() >= 0 {
				return fmt.Errorf("%v", p)
			}
			return nil
		})
		r, err := controllerpb.NewOperatorApiClient(c.Client).AlterConfigs(soon(t), setConfig("t", "unclean.leader.election.enable", "true"))
		if err != nil || r.GetResources()[0].GetError() != nil {
			t.Fatalf("alter configs: %v, %v", r, err)
		}
		at := r.GetMetadataOffset()
		all, err := topics(t, c, &controllerpb.ReadOptions{MinOffset: &at})
		if err != nil {
			t.Fatal(err)
		}
		if p := all["t"].GetPartitions()[0].GetState(); p.GetLeader() != other.ID || p.GetLeaderRecoveryState() != metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING {
			t.Errorf("at the offset of the answer: %v, want leader %d", p, other.ID)
		}
	})
}

// With auto.leader.rebalance.enable a preferred replica leads again by itself, but not as soon as its broker is back; without
// it never does.
func TestLeadersReturnToPreferredReplicas(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprint(enabled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval = 5 * time.Second
				c := quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
					cfg.LeaderRebalance, cfg.ImbalanceCheckInterval = enabled, interval
				}})
				brokers := map[int32]*quorumtest.Broker{1: c.RegisterBroker(t, 1), 2: c.RegisterBroker(t, 2)}
				c.CreateTopic(t, "t", 1, 2)
				p := partitionOf(t, c, "t", 0)
				first, second := brokers[p.GetReplicas()[0]], brokers[p.GetReplicas()[1]]
				first.Silence()
				quorumtest.Eventually(t, "the other replica leads", func() error {
					if p := partitionOf(t, c, "t", 0); p.GetLeader() != second.ID {
						return fmt.Errorf("%v", p)
					}
					return nil
				})
				first.Beat(t)
				back := time.Now()
				setISR(t, c, second, "t", first, second)
				if !enabled {
					<-time.After(4 * interval)
					if p := partitionOf(t, c, "t", 0); p.GetLeader() != second.ID {
						t.Errorf("nobody asked for it: %v", p)
					}
					return
				}
				quorumtest.Eventually(t, "the preferred replica leads", func() error {
					if p := partitionOf(t, c, "t", 0); p.GetLeader() != first.ID {
						return fmt.Errorf("%v", p)
					}
					return nil
				})
				if took := time.Since(back); took < interval || took > 2*interval+time.Second {
					t.Errorf("after %v, want %v to %v", took, interval, 2*interval)
				}
			})
		})
	}
}
