package quorum_test

import (
	"context"
	"testing"

	"github.com/quorate/quorate/test/bench"
)

// change commits one small record through the active controller, called without gRPC as bare Raft is.
func change(b *testing.B, q *bench.Quorums) func() func() error {
	return func() func() error {
		server := q.Cluster.Active(b).Node.BrokerServer()
		return func() error {
			_, err := server.AllocateProducerIds(context.Background(), q.Request)
			return err
		}
	}
}

// BenchmarkCommitMany is changes committed a second with 256 callers, beside bare hashicorp/raft with as many.
func BenchmarkCommitMany(b *testing.B) {
	q := bench.StartQuorums(b)
	call := change(b, q)
	q.Compare(b, bench.ManyCallers, call, q.Apply) // warm
	var rounds bench.Rounds
	for b.Loop() {
		ours, bare := q.Compare(b, bench.ManyCallers, call, q.Apply)
		rounds.Add(ours.PerSecond, bare.PerSecond)
	}
	rounds.Report(b)
}

// BenchmarkCommitOne is the median time of a change with one caller, in milliseconds, beside bare hashicorp/raft likewise.
func BenchmarkCommitOne(b *testing.B) {
	q := bench.StartQuorums(b)
	call := change(b, q)
	q.Compare(b, 1, call, q.Apply) // warm
	var rounds bench.Rounds
	for b.Loop() {
		ours, bare := q.Compare(b, 1, call, q.Apply)
		rounds.Add(float64(ours.Median.Microseconds())/1000, float64(bare.Median.Microseconds())/1000)
	}
	rounds.Report(b)
}
