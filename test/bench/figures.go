package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Figure is one thing that is promised, or reported, and the benchmark that measures it.
type Figure struct {
	// What says it in the reader's words; Unit is that of measured and reference.
	What, Unit string
	// Name is the benchmark, of this package unless Package names another.
	Name, Package string
	// Metric stands before the names of its metrics, for one of several figures of a benchmark.
	Metric string
	// Reference says what it is measured beside.
	Reference string
	// AtMost is the absolute bound, in Unit. Zero: none.
	AtMost float64
	// RatioAtMost and RatioAtLeast bound measured ÷ reference. Zero: none. With an absolute bound as well, one of both
	// has to hold: on a slower machine the ratio says more.
	RatioAtMost, RatioAtLeast float64
}

// Figures are all that the product promises and this package measures.
var Figures = []Figure{
	{What: "image of 100,000 partitions, RF 3: heap a partition", Unit: "B", Name: "ImageHeap/100k",
		Reference: "Go map of structs, no indexes", AtMost: 110},
	{What: "image of 2,000,000 partitions: heap a partition", Unit: "B", Name: "ImageHeap/2M",
		Reference: "Go map of structs, no indexes", AtMost: 110},
	{What: "apply a PartitionChange and publish, in batches of 100, of 100,000", Unit: "µs", Name: "ImageApply/100k",
		Reference: "Go map changed in place", AtMost: 5},
	{What: "the same of 2,000,000", Unit: "µs", Name: "ImageApply/2M", Reference: "Go map changed in place"},
	{What: "load 100,000 partitions from a snapshot", Unit: "ms", Name: "SnapshotLoad/100k",
		Reference: "read the file with its checksum", RatioAtMost: 15},
	{What: "load 2,000,000 partitions from a snapshot", Unit: "ms", Name: "SnapshotLoad/2M",
		Reference: "read the file with its checksum", AtMost: 2000, RatioAtMost: 10},
	{What: "256 callers, three controllers: committed changes a second", Unit: "/s", Name: "CommitMany", Package: "quorum",
		Reference: "bare hashicorp/raft, 256 callers", RatioAtLeast: 0.6},
	{What: "the same through the product's client and gRPC", Unit: "/s", Name: "CommitMany",
		Reference: "bare hashicorp/raft behind the same gRPC method", RatioAtLeast: 0.6},
	{What: "one caller: commit latency, median", Unit: "ms", Name: "CommitOne", Package: "quorum",
		Reference: "bare hashicorp/raft, one caller", RatioAtMost: 1.6},
	{What: "the same behind gRPC", Unit: "ms", Name: "CommitOne",
		Reference: "bare hashicorp/raft, one caller, no gRPC", RatioAtMost: 1.6},
	{What: "create 900 topics × 10 partitions in one request", Unit: "ms", Name: "CreateTopics",
		Reference: "bare hashicorp/raft, the same bytes", AtMost: 1000, RatioAtMost: 4},
	{What: "one of 100 brokers dies, 2,000,000 partitions: decide and encode", Unit: "ms", Name: "Fence",
		Reference: "scan of all partitions", AtMost: 100, RatioAtMost: 4},
	{What: "the same: expiry → all records committed and applied by a follower", Unit: "ms", Name: "FenceCommitted",
		Reference: "bare hashicorp/raft, the same bytes", AtMost: 2000},
	{What: "the longest wait of a heartbeat meanwhile", Unit: "ms", Name: "FenceCommitted", Metric: "heartbeat-",
		Reference: "bare hashicorp/raft, one small entry", AtMost: 100},
	{What: "controlled shutdown of such a broker: first request → fenced, applied by a follower", Unit: "ms", Name: "ControlledShutdown",
		Reference: "bare hashicorp/raft, the same bytes", AtMost: 2000},
	{What: "10,000 AlterPartition changes in requests of 1,000: decide", Unit: "ms", Name: "AlterPartition",
		Reference: "scan of the image's 300,000 partitions", AtMost: 50},
	{What: "start of a controller over 2,000,000 partitions → first change committed", Unit: "ms", Name: "Start",
		Reference: "the same over an empty snapshot", AtMost: 6000},
	{What: "controller process at 2,000,000 partitions, idle for 60 s: resident memory", Unit: "MiB", Name: "ControllerMemory",
		Reference: "heap of the image", AtMost: 1024},
	{What: "its peak while it takes a snapshot", Unit: "MiB", Name: "ControllerMemory", Metric: "peak-",
		Reference: "heap of the image"},
	{What: "kill -9 of the active controller → first change of the next", Unit: "ms", Name: "Failover",
		Reference: "bare hashicorp/raft, leader stopped", AtMost: 1000},
	{What: "produce 1 KiB records, acks=all RF 3", Unit: "/s", Name: "ProduceMany", Reference: "acks=1 RF 1, same client"},
	{What: "produce one 1 KiB record alone, acks=all RF 3", Unit: "ms", Name: "ProduceOne", Reference: "acks=1 RF 1, same client"},
}

// figuresPackage is where the benchmarks of most figures are.
const figuresPackage = "test/bench"

// bound says what has to hold.
func (f Figure) bound() string {
	var parts []string
	if f.AtMost > 0 {
		parts = append(parts, fmt.Sprintf("≤ %g %s", f.AtMost, f.Unit))
	}
	if f.RatioAtMost > 0 {
		parts = append(parts, fmt.Sprintf("≤ %g ×", f.RatioAtMost))
	}
	if f.RatioAtLeast > 0 {
		parts = append(parts, fmt.Sprintf("≥ %g ×", f.RatioAtLeast))
	}
	if len(parts) == 0 {
		return "reported"
	}
	return strings.Join(parts, " or ")
}

// met tells whether the bound holds: "yes", "no", or "-" if there is none.
func (f Figure) met(measured, ratio float64) string {
	switch {
	case f.AtMost > 0 && measured <= f.AtMost,
		f.RatioAtMost > 0 && ratio <= f.RatioAtMost,
		f.RatioAtLeast > 0 && ratio >= f.RatioAtLeast:
		return "yes"
	case f.AtMost == 0 && f.RatioAtMost == 0 && f.RatioAtLeast == 0:
		return "-"
	}
	return "no"
}

// row is a line of the table.
func (f Figure) row(o *Output) []string {
	pkg := figuresPackage
	if f.Package != "" {
		pkg = f.Package
	}
	r := o.Find(pkg, f.Name)
	if r == nil {
		return []string{f.What, f.bound(), "not run", f.Reference, "", ""}
	}
	measured, _ := r.Median(f.Metric + Measured)
	reference, _ := r.Median(f.Metric + Reference)
	ratio, _ := r.Median(f.Metric + Ratio)
	return []string{
		f.What, f.bound(), number(measured) + " " + f.Unit,
		fmt.Sprintf("%s: %s %s", f.Reference, number(reference), f.Unit), number(ratio), f.met(measured, ratio),
	}
}

var columns = []string{"what", "bound", "measured", "reference", "ratio", "met"}

// WriteTable prints every figure, for a terminal or as Markdown.
func WriteTable(w io.Writer, o *Output, markdown bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	begin, between, end := "", "\t", "\n"
	if markdown {
		begin, between, end = "| ", " | ", " |\n"
	}
	line := func(cells []string) { fmt.Fprint(t, begin, strings.Join(cells, between), end) }
	line(columns)
	if markdown {
		line([]string{"---", "---", "---", "---", "---", "---"})
	}
	for _, f := range Figures {
		line(f.row(o))
	}
	return t.Flush()
}
