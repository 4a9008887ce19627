package bench

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// Metrics that every benchmark of this package reports, each a median over the rounds.
const (
	Measured  = "measured"
	Reference = "reference"
	Ratio     = "ratio"
)

// Rounds collects what the two sides of a benchmark gave, a round each.
type Rounds struct {
	measured, reference, ratio []float64
}

// Add takes one round. It returns its ratio.
func (r *Rounds) Add(measured, reference float64) float64 {
	r.measured = append(r.measured, measured)
	r.reference = append(r.reference, reference)
	r.ratio = append(r.ratio, measured/reference)
	return measured / reference
}

// Report hands the medians to the benchmark and takes its own figure, the time of a round, away.
func (r *Rounds) Report(b *testing.B) { r.ReportAs(b, "") }

// ReportAs is Report of a benchmark's further figure, see [Figure.Metric].
func (r *Rounds) ReportAs(b *testing.B, metric string) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(Median(r.measured), metric+Measured)
	b.ReportMetric(Median(r.reference), metric+Reference)
	b.ReportMetric(Median(r.ratio), metric+Ratio)
}

// Median is the middle value, the lower one of two; 0 of none.
func Median(values []float64) float64 { return quantile(values, 50) }

// quantile is the value below which percent of the values lie.
func quantile(values []float64, percent int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*percent/100]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// cpuTime is what the process has used of all processors, in microseconds. What runs beside it on the machine does not
// count, and nor does waiting; work of the garbage collector does.
func cpuTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return microseconds(time.Duration(u.Utime.Nano() + u.Stime.Nano()))
}
