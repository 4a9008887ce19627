package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/quorumtest"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// commitRound is how long each side of a round runs.
	commitRound = 1500 * time.Millisecond
	// roundTries is how often a round is run before the benchmark fails.
	roundTries = 4
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

	api     controllerpb.BrokerApiClient
	bareAPI controllerpb.BrokerApiClient
	quorum  *Bare
	bare    *raftnode.Node
	entry   []byte
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
	q.quorum = bare
	q.await(b)
	q.serveBare(b)
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

// Apply commits the same bytes through Raft alone, in process.
func (q *Quorums) Apply() error { return q.commit(slices.Clone(q.entry)) }

// commit commits an entry through Raft alone.
func (q *Quorums) commit(entry []byte) error {
	if out := q.bare.Apply(entry).Wait(); out.Fate != raftnode.FateApplied {
		return fmt.Errorf("bare raft: %v: %w", out.Fate, out.Err)
	}
	return nil
}

// applyBehindGRPC commits them through Raft alone as well, asked for by the same gRPC method.
func (q *Quorums) applyBehindGRPC() error {
	_, err := q.bareAPI.AllocateProducerIds(context.Background(), q.Request)
	return err
}

// bareServer is bare Raft behind the product's gRPC method.
type bareServer struct {
	controllerpb.UnimplementedBrokerApiServer
	q *Quorums
}

// AllocateProducerIds implements BrokerApi, without a state to allocate from.
func (s *bareServer) AllocateProducerIds(context.Context, *controllerpb.AllocateProducerIdsRequest) (*controllerpb.AllocateProducerIdsResponse, error) {
	return &controllerpb.AllocateProducerIdsResponse{FirstProducerId: 1_000_000, Count: 1000}, s.q.Apply()
}

// serveBare puts bare Raft behind gRPC, with the settings of the product on both ends.
func (q *Quorums) serveBare(b *testing.B) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(client.ServerOptions(nil)...)
	controllerpb.RegisterBrokerApiServer(server, &bareServer{q: q})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(client.Target(listener.Addr().String()), client.DialOptions(env.OS("").Network, nil)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	q.bareAPI = controllerpb.NewBrokerApiClient(conn)
}

// Side is what one side of a round gave.
type Side struct {
	// PerSecond counts calls that returned, Median is the time that the middle one took.
	PerSecond float64
	Median    time.Duration
	// CPU is what the process used a call, on all cores, in microseconds; the machine's other work does not count.
	CPU float64
	// Calls is how many returned.
	Calls int
}

// Compare runs one round with so many callers on each side. A round in which a side lost its leader, as happens on a
// machine that is busy with other things, is run again, but not for ever. Change is asked for at each try, for it may
// rest on who leads.
func (q *Quorums) Compare(b *testing.B, callers int, change func() func() error, reference func() error) (ours, bare Side) {
	b.Helper()
	var failed error
	for range roundTries {
		q.await(b)
		if ours, failed = drive(callers, change()); failed != nil {
			continue
		}
		if bare, failed = drive(callers, reference); failed == nil {
			return ours, bare
		}
	}
	b.Fatalf("%d tries of a round failed, the last with: %v", roundTries, failed)
	return ours, bare
}

// await waits until both have a leader.
func (q *Quorums) await(b *testing.B) {
	b.Helper()
	q.Cluster.Active(b)
	leader, err := q.quorum.Leader()
	if err != nil {
		b.Fatal(err)
	}
	q.bare = leader
}

// drive lets callers repeat a call for commitRound, each its next when the one before has returned.
func drive(callers int, call func() error) (Side, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []float64
		failed error
		stop   atomic.Bool
		cpu    = cpuTime()
		began  = time.Now()
	)
	timer := time.AfterFunc(commitRound, func() { stop.Store(true) })
	defer timer.Stop()
	for range callers {
		wg.Go(func() {
			var own []float64
			var err error
			for last := time.Now(); !stop.Load() && err == nil; {
				err = call()
				now := time.Now()
				own = append(own, float64(now.Sub(last)))
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return Side{
		PerSecond: float64(len(took)) / time.Since(began).Seconds(), Median: time.Duration(Median(took)),
		CPU: (cpuTime() - cpu) / float64(len(took)), Calls: len(took),
	}, failed
}
