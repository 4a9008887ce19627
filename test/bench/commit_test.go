package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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
	// commitRound is how long each side of a round runs; the warm-up before the first is as long.
	commitRound = 1500 * time.Millisecond
	// manyCallers is the number of concurrent callers that the promise names.
	manyCallers = 256
)

// quorums are the product and its reference, three members each, with files of their own on one disk.
type quorums struct {
	cluster *quorumtest.Cluster
	api     controllerpb.BrokerApiClient
	broker  *quorumtest.Broker
	bare    *raftnode.Node
	entry   []byte
}

// startQuorums starts both. Lines of the log are formatted and thrown away.
func startQuorums(b *testing.B) *quorums {
	b.Helper()
	q := new(quorums)
	q.cluster = quorumtest.Start(b, quorumtest.Options{
		RealNetwork: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Configure: func(c *quorum.Config) { c.VerifyEvery = 0 }, // the default, 1024
	})
	q.cluster.Active(b)
	q.broker = q.cluster.RegisterBroker(b, 1)
	q.api = controllerpb.NewBrokerApiClient(q.cluster.Client)
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
func (q *quorums) entryOfOne(b *testing.B) []byte {
	b.Helper()
	id := q.broker.ID
	decision, err := record.EncodeDecision(&metadatapb.Decision{
		Cause: &metadatapb.Cause{Name: "AllocateProducerIds", BrokerId: &id, Principal: quorum.PrincipalAnonymous},
		Records: []*metadatapb.Record{{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{
			BrokerId: id, BrokerEpoch: q.broker.Epoch, NextProducerId: 1_000_000,
		}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	header := record.EntryHeader{ClaimIndex: 3, Term: 2, Sequence: 10_000, BaseOffset: 10_000, Chain: 1 << 60, TimeMs: time.Now().UnixMilli()}
	entry, _ := record.EncodeEntry(header, [][]byte{decision})
	return entry
}

// change commits one small record through the product: gRPC, the active controller, Raft and back.
func (q *quorums) change() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := q.api.AllocateProducerIds(ctx, &controllerpb.AllocateProducerIdsRequest{BrokerId: q.broker.ID, BrokerEpoch: q.broker.Epoch})
	return err
}

// apply commits the same bytes through Raft alone.
func (q *quorums) apply() error {
	if out := q.bare.Apply(slices.Clone(q.entry)).Wait(); out.Fate != raftnode.FateApplied {
		return fmt.Errorf("bare raft: %v: %w", out.Fate, out.Err)
	}
	return nil
}

// drive lets callers repeat a call, each its next when the one before has returned. It gives calls a second and the
// time that the middle call took.
func drive(b *testing.B, callers int, call func() error) (perSecond float64, median time.Duration) {
	b.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		took  []float64
		stop  atomic.Bool
		began = time.Now()
	)
	timer := time.AfterFunc(commitRound, func() { stop.Store(true) })
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

// BenchmarkCommitMany is changes committed a second with 256 callers, beside bare hashicorp/raft with as many.
func BenchmarkCommitMany(b *testing.B) {
	q := startQuorums(b)
	drive(b, manyCallers, q.change)
	drive(b, manyCallers, q.apply)
	var rounds Rounds
	var cpuOurs, cpuBare, shared []float64
	entries := &q.cluster.Active(b).Node.Metrics().EntriesCommitted
	for b.Loop() {
		before, entriesBefore := cpuTime(b), entries.Load()
		ours, _ := drive(b, manyCallers, q.change)
		shared = append(shared, ours*commitRound.Seconds()/float64(entries.Load()-entriesBefore))
		between := cpuTime(b)
		bare, _ := drive(b, manyCallers, q.apply)
		cpuOurs = append(cpuOurs, (between-before)/(ours*commitRound.Seconds()))
		cpuBare = append(cpuBare, (cpuTime(b)-between)/(bare*commitRound.Seconds()))
		rounds.Add(ours, bare)
	}
	rounds.Report(b)
	b.ReportMetric(Median(shared), "changes/entry")
	b.ReportMetric(Median(cpuOurs), "cpu-µs/change")
	b.ReportMetric(Median(cpuBare), "reference-cpu-µs/change")
}

// cpuTime is what the process has used of both cores, in microseconds. The machine's other work does not count.
func cpuTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return microseconds(time.Duration(u.Utime.Nano() + u.Stime.Nano()))
}

// BenchmarkCommitOne is the median time of a change with one caller, in milliseconds, beside bare hashicorp/raft likewise.
func BenchmarkCommitOne(b *testing.B) {
	q := startQuorums(b)
	drive(b, 1, q.change)
	drive(b, 1, q.apply)
	var rounds Rounds
	for b.Loop() {
		_, ours := drive(b, 1, q.change)
		_, bare := drive(b, 1, q.apply)
		rounds.Add(milliseconds(ours), milliseconds(bare))
	}
	rounds.Report(b)
}

// BenchmarkCreateTopics creates 900 topics of 10 partitions in one request, in milliseconds, beside committing as many bytes
// by bare hashicorp/raft in one entry.
func BenchmarkCreateTopics(b *testing.B) {
	q := startQuorums(b)
	for id := range int32(2) {
		q.cluster.RegisterBroker(b, id+2)
	}
	api := controllerpb.NewOperatorApiClient(q.cluster.Client)
	var rounds Rounds
	for n := 0; b.Loop(); n++ {
		request := new(controllerpb.CreateTopicsRequest)
		for i := range 900 {
			partitions, factor := int32(10), int32(3)
			request.Topics = append(request.Topics, &controllerpb.CreatableTopic{
				Name: fmt.Sprintf("round-%d-topic-%03d", n, i), Partitions: &partitions, ReplicationFactor: &factor,
			})
		}
		before := q.cluster.Active(b).Node.Status().GetMetadataOffset()
		began := time.Now()
		response, err := api.CreateTopics(context.Background(), request)
		ours := milliseconds(time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		records := response.GetMetadataOffset() - before
		if records < 9900 {
			b.Fatalf("%d records, want 9900: %v", records, response.GetTopics()[0].GetError())
		}
		entry := make([]byte, createBytes(b))
		began = time.Now()
		if out := q.bare.Apply(entry).Wait(); out.Fate != raftnode.FateApplied {
			b.Fatal(out.Err)
		}
		rounds.Add(ours, milliseconds(time.Since(began)))
	}
	rounds.Report(b)
}

// createBytes is the size of the records that BenchmarkCreateTopics writes.
func createBytes(b *testing.B) int {
	b.Helper()
	shape, size := Shape{Topics: 900, Partitions: 10, Brokers: 3}, 0
	for t := range shape.Topics {
		id := shape.TopicID(t)
		size += record.Size(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{
			Name: fmt.Sprintf("round-1-topic-%03d", t), TopicId: id[:],
		}}})
		for p := range shape.Partitions {
			replicas := []int32{1, 2, 3}
			size += record.Size(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
				TopicId: id[:], Partition: int32(p), Replicas: replicas, Isr: replicas, Leader: &replicas[0],
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
			}}})
		}
	}
	return size
}
