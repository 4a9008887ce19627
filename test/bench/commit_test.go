package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// change is the same call whoever leads: the product's client finds it.
func (q *Quorums) change() func() error { return q.Change }

// BenchmarkCommitMany is changes committed a second with 256 callers of the product's client, gRPC and both its ends
// included, beside bare hashicorp/raft behind the same gRPC method. Package quorum has the same without gRPC on either side.
func BenchmarkCommitMany(b *testing.B) {
	q := StartQuorums(b)
	q.Compare(b, ManyCallers, q.change, q.applyBehindGRPC) // warm
	var rounds Rounds
	var cpuOurs, cpuBare, shared []float64
	for b.Loop() {
		before := q.entriesCommitted()
		ours, bare := q.Compare(b, ManyCallers, q.change, q.applyBehindGRPC)
		rounds.Add(ours.PerSecond, bare.PerSecond)
		shared = append(shared, float64(ours.Calls)/float64(q.entriesCommitted()-before))
		cpuOurs, cpuBare = append(cpuOurs, ours.CPU), append(cpuBare, bare.CPU)
	}
	rounds.Report(b)
	b.ReportMetric(Median(shared), "changes/entry")
	b.ReportMetric(Median(cpuOurs), "cpu-µs/change")
	b.ReportMetric(Median(cpuBare), "reference-cpu-µs/change")
}

// entriesCommitted counts those of every member that was ever active.
func (q *Quorums) entriesCommitted() (n int64) {
	for _, m := range q.Cluster.Members {
		n += m.Node.Metrics().EntriesCommitted.Load()
	}
	return n
}

// BenchmarkCommitOne is the median time of a change with one caller, in milliseconds, gRPC included, beside bare hashicorp/raft
// without it.
func BenchmarkCommitOne(b *testing.B) {
	q := StartQuorums(b)
	q.Compare(b, 1, q.change, q.Apply) // warm
	var rounds Rounds
	for b.Loop() {
		ours, bare := q.Compare(b, 1, q.change, q.Apply)
		rounds.Add(milliseconds(ours.Median), milliseconds(bare.Median))
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
	entry := make([]byte, createBytes(b))
	var rounds Rounds
	for n := 0; b.Loop(); n++ {
		var failed error
		for try := range roundTries {
			q.await(b)
			var ours, bare time.Duration
			if ours, failed = q.createTopics(b, fmt.Sprintf("round-%d-%d", n, try)); failed != nil {
				continue
			}
			began := time.Now()
			if failed = q.commit(entry); failed == nil {
				bare = time.Since(began)
				rounds.Add(milliseconds(ours), milliseconds(bare))
				break
			}
		}
		if failed != nil {
			b.Fatal(failed)
		}
	}
	rounds.Report(b)
}

// createTopics creates 900 topics of 10 partitions in one request and checks that their records are committed.
func (q *Quorums) createTopics(b *testing.B, prefix string) (time.Duration, error) {
	b.Helper()
	request := new(controllerpb.CreateTopicsRequest)
	for i := range 900 {
		partitions, factor := int32(10), int32(3)
		request.Topics = append(request.Topics, &controllerpb.CreatableTopic{
			Name: fmt.Sprintf("%s-topic-%03d", prefix, i), Partitions: &partitions, ReplicationFactor: &factor,
		})
	}
	before := q.Cluster.Active(b).Node.Status().GetMetadataOffset()
	began := time.Now()
	response, err := controllerpb.NewOperatorApiClient(q.Cluster.Client).CreateTopics(context.Background(), request)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if records := response.GetMetadataOffset() - before; records < 9900 {
		b.Fatalf("%d records, want 9900: %v", records, response.GetTopics()[0].GetError())
	}
	return took, nil
}

// createBytes is the size of the records that BenchmarkCreateTopics writes.
func createBytes(b *testing.B) int {
	b.Helper()
	shape, size := Shape{Topics: 900, Partitions: 10, Brokers: 3}, 0
	for t := range shape.Topics {
		id := shape.TopicID(t)
		size += record.Size(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{
			Name: fmt.Sprintf("round-1-0-topic-%03d", t), TopicId: id[:],
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
