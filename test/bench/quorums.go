package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// CommitRound is how long each side of a round runs; the warm-up before the first is as long.
	CommitRound = 1500 * time.Millisecond
	// ManyCallers is the number of concurrent callers that the promise names.
	ManyCallers = 256
)

// Quorums are the product and its reference, three members each, in one process, over loopback, with files of their own
// on one disk.
type Quorums struct {
	// Cluster is the product, with one registered broker.
	Cluster *quorumtest.Cluster
	// Request is what the broker asks for: a change of one small record.
	Request *controllerpb.AllocateProducerIdsRequest

	api   controllerpb.BrokerApiClient
	bare  *raftnode.Node
	entry []byte
}

// StartQuorums starts both. Lines of the log are formatted and thrown away.
func StartQuorums(b *testing.B) *Quorums {
	b.Helper()
	q := new(Quorums)
	q.Cluster = quorumtest.Start(b, quorumtest.Options{
		RealNetwork: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Configure: func(c *quorum.Config) { c.VerifyEvery = 0 }, // the default, 1024
	})
	q.Cluster.Active(b)
	broker := q.Cluster.RegisterBroker(b, 1)
	q.Request = &controllerpb.AllocateProducerIdsRequest{BrokerId: broker.ID, BrokerEpoch: broker.Epoch}
	q.api = controllerpb.NewBrokerApiClient(q.Cluster.Client)
	bare, err := OpenBare(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := bare.Close(); err != nil {
			b.Error(err)
		}
	})
	if q.bare, err = bare.Leader(); err != nil {
		b.Fatal(err)
	}
	q.entry = q.entryOfOne(b)
	return q
}

// entryOfOne is the Raft entry that one call writes when it is alone, byte for byte but for its numbers.
func (q *Quorums) entryOfOne(b *testing.B) []byte {
	b.Helper()
	id := q.Request.BrokerId
	decision, err := record.EncodeDecision(&metadatapb.Decision{
		Cause: &metadatapb.Cause{Name: "AllocateProducerIds", BrokerId: &id, Principal: quorum.PrincipalAnonymous},
		Records: []*metadatapb.Record{{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{
			BrokerId: id, BrokerEpoch: q.Request.BrokerEpoch, NextProducerId: 1_000_000,
		}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	header := record.EntryHeader{ClaimIndex: 3, Term: 2, Sequence: 10_000, BaseOffset: 10_000, Chain: 1 << 60, TimeMs: time.Now().UnixMilli()}
	entry, _ := record.EncodeEntry(header, [][]byte{decision})
	return entry
}

// Change commits one small record through the product: its client, gRPC, the active controller, Raft and back.
func (q *Quorums) Change() error {
	_, err := q.api.AllocateProducerIds(context.Background(), q.Request)
	return err
}

// Apply commits the same bytes through Raft alone.
func (q *Quorums) Apply() error {
	if out := q.bare.Apply(slices.Clone(q.entry)).Wait(); out.Fate != raftnode.FateApplied {
		return fmt.Errorf("bare raft: %v: %w", out.Fate, out.Err)
	}
	return nil
}

// Drive lets callers repeat a call for [CommitRound], each its next when the one before has returned. It gives calls a
// second and the time that the middle call took.
func Drive(b *testing.B, callers int, call func() error) (perSecond float64, median time.Duration) {
	b.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		took  []float64
		stop  atomic.Bool
		began = time.Now()
	)
	timer := time.AfterFunc(CommitRound, func() { stop.Store(true) })
	defer timer.Stop()
	for range callers {
		wg.Go(func() {
			var own []float64
			for last := time.Now(); !stop.Load(); {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				own = append(own, float64(now.Sub(last)))
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return float64(len(took)) / time.Since(began).Seconds(), time.Duration(Median(took))
}
