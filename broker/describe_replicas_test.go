package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Leader and follower tell over the network what they hold; what a broker does not have is an error of its own.
func TestDescribeReplicas(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		awaitReady(t, b1, b2)
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		r := b1.awaitLeads(t, id)
		batch := logtest.Batch{Values: logtest.Records(3, 100)}.Bytes()
		if _, err := r.AppendAsLeader(batch, acksAll); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the records are replicated", func() bool { return r.log.HighWatermark() == 3 })
		time.Sleep(20 * time.Second)
		c, err := client.New(client.Config{Network: network.Host("client"), Controllers: []string{"c1:9192"}, ClusterID: "cluster"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ask := func(b *testBroker, partitions ...*brokerpb.ReplicaPartition) (*brokerpb.DescribeReplicasResponse, error) {
			cc, err := c.Conn(b.cfg.GRPCAddress)
			if err != nil {
				t.Fatal(err)
			}
			return brokerpb.NewReplicaStatusApiClient(cc).DescribeReplicas(t.Context(), &brokerpb.DescribeReplicasRequest{Partitions: partitions})
		}
		known := &brokerpb.ReplicaPartition{TopicId: topicID(1).Bytes()}
		unknown := &brokerpb.ReplicaPartition{TopicId: topicID(1).Bytes(), Partition: 7}
		for b, role := range map[*testBroker]brokerpb.ReplicaRole{
			b1: brokerpb.ReplicaRole_REPLICA_ROLE_LEADER, b2: brokerpb.ReplicaRole_REPLICA_ROLE_FOLLOWER,
		} {
			a, err := ask(b, unknown, known)
			if err != nil {
				t.Fatal(err)
			}
			if a.BrokerId != int32(b.cfg.ID) || a.BrokerEpoch != int64(b.epoch()) || a.MetadataOffset != int64(q.image().Offset()) || len(a.Replicas) != 2 {
				t.Errorf("broker %v: %v", b.cfg.ID, a)
			}
			if code := a.Replicas[0].GetError().GetCode(); code != controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER {
				t.Errorf("broker %v, a partition that is not there: %v", b.cfg.ID, code)
			}
			got := a.Replicas[1]
			if got.IdleMs < 20_000 || got.IdleMs > 25_000 || b.env.Now().UnixMilli()-got.LastGrownMs != got.IdleMs {
				t.Errorf("broker %v grew %d ms ago, at %d", b.cfg.ID, got.IdleMs, got.LastGrownMs)
			}
			want := &brokerpb.HeldReplica{
				TopicId: topicID(1).Bytes(), Role: role, HighWatermark: 3, LogEndOffset: 3, LastEpoch: proto.Int32(0),
				SizeBytes: int64(len(batch)), IdleMs: got.IdleMs, LastGrownMs: got.LastGrownMs,
			}
			if !proto.Equal(got, want) {
				t.Errorf("broker %v: %v, want %v", b.cfg.ID, got, want)
			}
		}
		if _, err := ask(b1, make([]*brokerpb.ReplicaPartition, describeReplicasMax+1)...); err == nil || !strings.Contains(err.Error(), "1001 partitions") {
			t.Errorf("too many: %v", err)
		}
		if _, err := ask(b1, &brokerpb.ReplicaPartition{TopicId: []byte("short")}); err == nil || !strings.Contains(err.Error(), "topic id") {
			t.Errorf("a bad id: %v", err)
		}
		b2.end(t)
		b1.end(t)
	})
}
