package bench

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/raftnode"
)

// BenchmarkCommitMany is changes committed a second with 256 callers, beside bare hashicorp/raft with as many.
func BenchmarkCommitMany(b *testing.B) {
	q := StartQuorums(b)
	Drive(b, ManyCallers, q.Change)
	Drive(b, ManyCallers, q.Apply)
	var rounds Rounds
	var cpuOurs, cpuBare, shared []float64
	entries := &q.Cluster.Active(b).Node.Metrics().EntriesCommitted
	for b.Loop() {
		before, entriesBefore := cpuTime(b), entries.Load()
		ours, _ := Drive(b, ManyCallers, q.Change)
		shared = append(shared, ours*CommitRound.Seconds()/float64(entries.Load()-entriesBefore))
		between := cpuTime(b)
		bare, _ := Drive(b, ManyCallers, q.Apply)
		cpuOurs = append(cpuOurs, (between-before)/(ours*CommitRound.Seconds()))
		cpuBare = append(cpuBare, (cpuTime(b)-between)/(bare*CommitRound.Seconds()))
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
	q := StartQuorums(b)
	Drive(b, 1, q.Change)
	Drive(b, 1, q.Apply)
	var rounds Rounds
	for b.Loop() {
		_, ours := Drive(b, 1, q.Change)
		_, bare := Drive(b, 1, q.Apply)
		rounds.Add(milliseconds(ours), milliseconds(bare))
	}
	rounds.Report(b)
}

// BenchmarkCreateTopics creates 900 topics of 10 partitions in one request, in milliseconds, beside committing as many bytes
// by bare hashicorp/raft in one entry.
func BenchmarkCreateTopics(b *testing.B) {
	q := StartQuorums(b)
	for id := range int32(2) {
		q.Cluster.RegisterBroker(b, id+2)
	}
	api := controllerpb.NewOperatorApiClient(q.Cluster.Client)
	var rounds Rounds
	for n := 0; b.Loop(); n++ {
		request := new(controllerpb.CreateTopicsRequest)
		for i := range 900 {
			partitions, factor := int32(10), int32(3)
			request.Topics = append(request.Topics, &controllerpb.CreatableTopic{
				Name: fmt.Sprintf("round-%d-topic-%03d", n, i), Partitions: &partitions, ReplicationFactor: &factor,
			})
		}
		before := q.Cluster.Active(b).Node.Status().GetMetadataOffset()
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
