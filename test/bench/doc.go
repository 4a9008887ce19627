// Package bench measures what the product promises of speed and memory, each figure beside a reference of the same run.
//
// # Purpose
//
// Absolute figures of a shared machine say little: its disk alone varies several times over between hours. A ratio to
// something measured in the same seconds says much. So every benchmark here alternates, round by round, between the product
// and its reference: bare hashicorp/raft on the same stores and transport, a plain Go map, a read of the same file, a scan
// of the same image. This package holds the references and turns what `go test -bench` prints into medians and a table.
//
// # Usage
//
//	make bench            # everything, seven rounds
//	make bench COUNT=3    # fewer rounds
//	go test -run '^$' -bench Commit -benchtime 7x ./test/bench
//
// An iteration of a benchmark is a round of both sides. The metrics are named measured, reference and ratio, in the unit
// that the table names; docs/benchmarks.md keeps a run.
//
// # Guarantees
//
// What one goroutine computes is measured in processor time, what waits for disks and others by the clock. Ratios are taken
// within a round, and their median is reported, not the ratio of medians. A benchmark fails when what
// it measured did not happen: an error, a refusal, a record that was not acknowledged.
//
// # Goroutines
//
// [Bare] owns those of its nodes and ends them with Close. The rest runs on the caller's.
package bench
