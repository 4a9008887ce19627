package quorum_test

import (
	"context"
	"testing"

	"github.com/quorate/quorate/test/bench"
)

// change commits one small record through the active controller, called without gRPC as bare Raft is.
func change(b *testing.B, q *bench.Quorums) func() error {
	server := q.Cluster.Active(b).Node.BrokerServer()
	return func() error {
		_, err := server.AllocateProducerIds(context.Background(), q.Request)
		return err
	}
}

// BenchmarkCommitMany is changes committed a second with 256 callers, beside bare hashicorp/raft with as many.
func BenchmarkCommitMany(b *testing.B) {
	q := bench.StartQuorums(b)
	call := change(b, q)
	bench.Drive(b, bench.ManyCallers, call)
	bench.Drive(b, bench.ManyCallers, q.Apply)
	var rounds bench.Rounds
	for b.Loop() {
		ours, _ := bench.Drive(b, bench.ManyCallers, call)
		bare, _ := bench.Drive(b, bench.ManyCallers, q.Apply)
		rounds.Add(ours, bare)
	}
	rounds.Report(b)
}

// BenchmarkCommitOne is the median time of a change with one caller, in milliseconds, beside bare hashicorp/raft likewise.
func BenchmarkCommitOne(b *testing.B) {
	q := bench.StartQuorums(b)
	call := change(b, q)
	bench.Drive(b, 1, call)
	bench.Drive(b, 1, q.Apply)
	var rounds bench.Rounds
	for b.Loop() {
		_, ours := bench.Drive(b, 1, call)
		_, bare := bench.Drive(b, 1, q.Apply)
		rounds.Add(float64(ours.Microseconds())/1000, float64(bare.Microseconds())/1000)
	}
	rounds.Report(b)
}
