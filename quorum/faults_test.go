package quorum_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// apart cuts a controller from the others. Brokers and operators still reach it.
func apart(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	for _, other := range c.Members {
		if other != m {
			c.Network.Cut(hostOf(t, m), hostOf(t, other))
			c.Network.Cut(hostOf(t, other), hostOf(t, m))
		}
	}
}

func hostOf(t *testing.T, m *quorumtest.Member) string {
	t.Helper()
	host, _, err := net.SplitHostPort(m.Config.GRPCAddress)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// isrChange is what broker b asks for as the leader of a topic's only partition.
func isrChange(b *quorumtest.Broker, topic image.TopicID, le, pe int32, isr ...*quorumtest.Broker) *controllerpb.AlterPartitionRequest {
	item := &controllerpb.AlterPartitionItem{
		LeaderEpoch: le, PartitionEpoch: pe, Reason: metadatapb.ChangeReason_CHANGE_REASON_LAG,
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
	}
	for _, member := range isr {
		item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: member.ID, BrokerEpoch: &member.Epoch})
	}
	return &controllerpb.AlterPartitionRequest{
		BrokerId: b.ID, BrokerEpoch: b.Epoch,
		Topics: []*controllerpb.AlterPartitionTopic{{TopicId: topic.Bytes(), Partitions: []*controllerpb.AlterPartitionItem{item}}},
	}
}

// codeOf is the answer to the request or, if there is one, to its only partition.
func codeOf(t *testing.T, r *controllerpb.AlterPartitionResponse, err error) (controllerpb.ErrorCode, *controllerpb.AlterPartitionResult) {
	t.Helper()
	if err != nil {
		refusal, ok := client.AsRefusal(err)
		if !ok {
			t.Fatalf("no refusal: %v", err)
		}
		return refusal.Code, nil
	}
	p := r.GetTopics()[0].GetPartitions()[0]
	return p.GetError().GetCode(), p
}

// F01, F02: a controller that was left behind says that it does not know, and the leader's change succeeds at the one that does;
// asked again, the change is not made twice.
func TestF02ControllerThatKnowsLessThanTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		brokers := map[int32]*quorumtest.Broker{}
		for id := range int32(3) {
			brokers[id] = c.RegisterBroker(t, id)
		}
		topic := c.CreateTopic(t, "orders", 1, 3)
		before := stateOf(t, c, "orders")
		first := c.Active(t)
		knowsLess(t, c, topic, brokers[before.GetLeader()], before)
		apart(t, c, first)
		c.Active(t, first)
		brokers[before.GetLeader()].Silence()
		awaitState(t, c, before.GetLeader(), true)
		moved := stateOf(t, c, "orders")
		if moved.GetLeader() == before.GetLeader() || moved.GetLeaderEpoch() != before.GetLeaderEpoch()+1 {
			t.Fatalf("the leader did not move: %v, then %v", before, moved)
		}
		leader := brokers[moved.GetLeader()]
		request := isrChange(leader, topic, moved.GetLeaderEpoch(), moved.GetPartitionEpoch(), leader)
		r, err := controllerpb.NewBrokerApiClient(c.Conn(t, first)).AlterPartition(soon(t), request)
		if code, _ := codeOf(t, r, err); code != controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER {
			t.Errorf("the controller left behind answers %v", code)
		}
		api := controllerpb.NewBrokerApiClient(c.Client)
		r, err = api.AlterPartition(soon(t), request)
		if code, p := codeOf(t, r, err); code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED || p.GetPartitionEpoch() != moved.GetPartitionEpoch()+1 {
			t.Errorf("the active controller answers %v, %v", code, p)
		}
		r, err = api.AlterPartition(soon(t), request)
		if code, _ := codeOf(t, r, err); code != controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION {
			t.Errorf("the same change again is answered %v", code)
		}
		if now := stateOf(t, c, "orders"); now.GetPartitionEpoch() != moved.GetPartitionEpoch()+1 || len(now.GetIsr()) != 1 {
			t.Errorf("the partition is %v", now)
		}
		heal(t, c, first)
		c.SameImages(t)
	})
}

// knowsLess asks the active controller for changes that rest on epochs which it does not know: it says so, for the leader to ask
// again, and changes nothing. What rests on an epoch that is over is refused for good.
func knowsLess(t *testing.T, c *quorumtest.Cluster, topic image.TopicID, leader *quorumtest.Broker, p *metadatapb.Partition) {
	t.Helper()
	for _, ask := range []struct {
		le, pe int32
		want   controllerpb.ErrorCode
	}{
		{p.GetLeaderEpoch() + 1, p.GetPartitionEpoch(), controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER},
		{p.GetLeaderEpoch(), p.GetPartitionEpoch() + 1, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER},
		{p.GetLeaderEpoch() - 1, p.GetPartitionEpoch() + 1, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER},
		{p.GetLeaderEpoch() - 1, p.GetPartitionEpoch(), controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH},
		{p.GetLeaderEpoch(), p.GetPartitionEpoch() - 1, controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION},
	} {
		r, err := controllerpb.NewBrokerApiClient(c.Conn(t, c.Active(t))).AlterPartition(soon(t), isrChange(leader, topic, ask.le, ask.pe, leader))
		if code, _ := codeOf(t, r, err); code != ask.want {
			t.Errorf("a change under leader epoch %d and partition epoch %d is answered %v, want %v", ask.le, ask.pe, code, ask.want)
		}
	}
	if now := stateOf(t, c, "orders"); now.GetPartitionEpoch() != p.GetPartitionEpoch() {
		t.Errorf("the partition went from %v to %v", p, now)
	}
}

func heal(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	for _, other := range c.Members {
		if other != m {
			c.Network.Heal(hostOf(t, m), hostOf(t, other))
			c.Network.Heal(hostOf(t, other), hostOf(t, m))
		}
	}
}

func stateOf(t *testing.T, c *quorumtest.Cluster, topic string) *metadatapb.Partition {
	t.Helper()
	found, err := topics(t, c, nil)
	if err != nil || found[topic] == nil {
		t.Fatalf("topics %v, %v", found, err)
	}
	return found[topic].GetPartitions()[0].GetState()
}

// F14: after a new life is registered, nothing that the former one asks for counts.
func TestF14FormerLifeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		former := c.RegisterBroker(t, 1)
		topic := c.CreateTopic(t, "orders", 1, 1)
		former.Silence()
		awaitState(t, c, 1, true)
		life := c.NewBroker(1, 1)
		life.Register(t)
		life.Beat(t)
		p := stateOf(t, c, "orders")
		api := controllerpb.NewBrokerApiClient(c.Client)
		r, err := api.AlterPartition(soon(t), isrChange(former, topic, p.GetLeaderEpoch(), p.GetPartitionEpoch(), former))
		if code, _ := codeOf(t, r, err); code != controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH {
			t.Errorf("an ISR change of the former life is answered %v", code)
		}
		if now := stateOf(t, c, "orders"); now.GetPartitionEpoch() != p.GetPartitionEpoch() {
			t.Errorf("the partition went from %v to %v", p, now)
		}
	})
}

// F23: what a controller has decided and cannot commit is shown by nothing that reads, also not on that controller.
func TestF23OnlyCommittedStateIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "before", 1, 1)
		c.SameImages(t)
		first := c.Active(t)
		apart(t, c, first)
		one := int32(1)
		_, err := controllerpb.NewOperatorApiClient(c.Conn(t, first)).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
			Topics: []*controllerpb.CreatableTopic{{Name: "never", Partitions: &one, ReplicationFactor: &one}},
		})
		if err == nil {
			t.Fatal("a controller on its own acknowledged a change")
		}
		reader := controllerpb.NewReaderApiClient(c.Conn(t, first))
		stream, err := reader.DescribeTopics(soon(t), &controllerpb.DescribeTopicsRequest{Options: &controllerpb.ReadOptions{Local: true}})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for {
			page, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page.GetTopics() {
				names[d.GetName()] = true
			}
		}
		if !names["before"] || names["never"] {
			t.Errorf("topics %v are shown, want only the committed one", names)
		}
		heal(t, c, first)
		c.SameImages(t)
	})
}
