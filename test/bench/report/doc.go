// Command report reads what `go test -bench` prints, and prints medians and the table of figures.
//
// # Purpose
//
// The runs of a benchmark are many lines; a reader wants their median, and whether what was promised holds.
//
// # Usage
//
//	go test -run '^$' -bench . -benchtime 7x ./test/bench | go run ./test/bench/report
//
// With -markdown the table is one of Markdown, as docs/benchmarks.md keeps it.
//
// # Guarantees
//
// The exit code is 1 if a benchmark failed or the input could not be read. A missed bound is said in the table and is no
// failure: a busy machine misses some.
//
// # Goroutines
//
// None.
package main
