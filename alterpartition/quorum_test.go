package alterpartition_test

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/env/envtest"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// counted counts requests on their way to the controllers.
type counted struct {
	alterpartition.Controller
	requests *atomic.Int64
}

func (c counted) AlterPartition(ctx context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	c.requests.Add(1)
	return c.Controller.AlterPartition(ctx, r)
}

// crowd is a quorum with ten brokers that lead a thousand partitions, each with the manager of a real broker.
type crowd struct {
	t        *testing.T
	quorum   *quorumtest.Cluster
	requests atomic.Int64
	topic    image.TopicID
	managers map[int32]*alterpartition.Manager
	epochs   map[int32]image.BrokerEpoch
	leaders  map[int32]int32 // by partition
	answers  chan partition.AlterPartitionAnswered
}

const (
	crowdBrokers    = 10
	crowdPartitions = 1000
)

func newCrowd(ctx context.Context, t *testing.T) *crowd {
	w := &crowd{
		t: t, quorum: quorumtest.Start(t, quorumtest.Options{}), managers: map[int32]*alterpartition.Manager{},
		epochs: map[int32]image.BrokerEpoch{}, leaders: map[int32]int32{}, answers: make(chan partition.AlterPartitionAnswered, crowdPartitions),
	}
	for id := int32(1); id <= crowdBrokers; id++ {
		epoch := image.BrokerEpoch(w.quorum.RegisterBroker(t, id).Epoch)
		cfg := alterpartition.DefaultConfig(image.BrokerID(id), func() image.BrokerEpoch { return epoch })
		m, err := alterpartition.New(cfg, envtest.NewClock(), counted{alterpartition.Via(w.quorum.Client), &w.requests}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		w.managers[id], w.epochs[id] = m, epoch
		go m.Run(ctx)
	}
	w.topic = w.quorum.CreateTopic(t, "t", crowdPartitions, 2)
	stream, err := controllerpb.NewReaderApiClient(w.quorum.Client).DescribeTopics(ctx, &controllerpb.DescribeTopicsRequest{})
	for err == nil && len(w.leaders) < crowdPartitions {
		var piece *controllerpb.DescribeTopicsResponse
		piece, err = stream.Recv()
		for _, topic := range piece.GetTopics() {
			for _, p := range topic.GetPartitions() {
				w.leaders[p.GetState().GetPartition()] = p.GetState().GetLeader()
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shrink has the leader of a partition ask for an ISR of itself alone.
func (w *crowd) shrink(p int32) {
	w.t.Helper()
	leader := w.leaders[p]
	err := w.managers[leader].Submit(alterpartition.Item{
		Partition: image.PartitionID{Topic: w.topic, Partition: p},
		Proposal: &partition.Proposal{
			Number: uint64(p), Kind: partition.Shrink, ISR: []partition.Member{{ID: image.BrokerID(leader), Epoch: w.epochs[leader]}},
		},
		Done: func(a partition.AlterPartitionAnswered) { w.answers <- a },
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *crowd) await(n int) {
	w.t.Helper()
	for range n {
		if a := <-w.answers; a.Code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
			w.t.Fatalf("refused: %v", a.Code.KafkaName())
		}
	}
}

// entriesTo follows a controller's stream as a broker does and counts the entries after an offset up to one that ends with
// another.
func (w *crowd) entriesTo(m *quorumtest.Member, from *controllerpb.NodeStatusResponse, to int64) int {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	stream, err := controllerpb.NewMetadataStreamClient(w.quorum.Conn(w.t, m)).Follow(ctx, &controllerpb.FollowRequest{
		ClusterId: quorumtest.ClusterID, BrokerId: 99, MetadataOffset: from.GetMetadataOffset(), Chain: from.GetChain(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	entries := 0
	for at := from.GetMetadataOffset(); at < to; {
		frame, err := stream.Recv()
		if err != nil {
			w.t.Fatalf("at offset %d of %d: %v", at, to, err)
		}
		if e := frame.GetEntry(); e != nil {
			entries++
			at = e.GetBaseOffset() + int64(e.GetRecords()) - 1
		}
	}
	return entries
}

// A thousand partitions of ten leaders change at once: that takes at most twenty requests and reaches every broker in at
// most twenty entries of the log. A lone change waits for no timer: no time of the bubble passes.
func TestThousandPartitionsChangeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newCrowd(ctx, t)
		w.quorum.SameImages(t)
		before := w.quorum.Active(t).Node.Status()
		w.requests.Store(0)
		for p := range int32(crowdPartitions - 1) {
			w.shrink(p)
		}
		w.await(crowdPartitions - 1)
		w.quorum.SameImages(t)
		if n := w.requests.Load(); n > 20 {
			t.Errorf("%d requests, want at most 20", n)
		}
		for _, m := range w.quorum.Members {
			if n := w.entriesTo(m, before, before.GetMetadataOffset()+crowdPartitions-1); n > 20 {
				t.Errorf("controller %d sends %d entries, want at most 20", m.ID, n)
			}
		}

		time.Sleep(10 * time.Second)
		began := time.Now()
		w.shrink(crowdPartitions - 1)
		w.await(1)
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("a lone change was answered after %v", took)
		}
		cancel()
		synctest.Wait()
	})
}
