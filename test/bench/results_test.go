package bench

import (
	"strings"
	"testing"
)

const sample = `goos: linux
pkg: example.org/m/test/bench
BenchmarkCommitMany-2   	       7	      6000 measured	      0.75 ratio	      8000 reference
PASS
ok  	example.org/m/test/bench	1.5s
pkg: example.org/m/fsm
BenchmarkApply/deep-er-2   	     100	       300 ns/op
BenchmarkApply/deep-er-2   	     100	       100 ns/op
BenchmarkApply/deep-er-2   	     100	       200 ns/op
`

func read(t *testing.T, text string) *Output {
	t.Helper()
	lines := 0
	o, err := Read(strings.NewReader(text), "example.org/m", func(string) { lines++ })
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Count(text, "\n"); lines != want {
		t.Errorf("%d lines echoed, want %d", lines, want)
	}
	return o
}

func TestReadTakesMedians(t *testing.T) {
	o := read(t, sample)
	if got := o.Find("fsm", "Apply/deep-er"); got == nil || got.String() != "fsm Apply/deep-er  200 ns/op" {
		t.Errorf("got %v", got)
	}
	if len(o.Results) != 2 || len(o.Failures) != 0 {
		t.Errorf("results %v, failures %q", o.Results, o.Failures)
	}
}

func TestReadNoticesFailures(t *testing.T) {
	o := read(t, sample+"--- FAIL: BenchmarkX\nFAIL\n")
	if len(o.Failures) != 2 {
		t.Errorf("failures %q, want 2", o.Failures)
	}
	if _, err := Read(strings.NewReader("BenchmarkX-2 1 fast ns/op\n"), "m", func(string) {}); err == nil {
		t.Error("a figure that is no number was accepted")
	}
}

// A row says what was measured; a missed bound and a benchmark that did not run are seen.
func TestTableRows(t *testing.T) {
	o := read(t, sample)
	f := Figure{What: "changes", Unit: "/s", Name: "CommitMany", Reference: "bare", RatioAtLeast: 0.6}
	if got, want := strings.Join(f.row(o), "|"), "changes|≥ 0.6 ×|6000 /s|bare: 8000 /s|0.75|yes"; got != want {
		t.Errorf("row %s, want %s", got, want)
	}
	f.RatioAtLeast = 0.8
	if got := f.row(o); got[5] != "no" {
		t.Errorf("row %q: want the bound missed", got)
	}
	f.Name = "Other"
	if got := f.row(o); got[2] != "not run" {
		t.Errorf("row %q: want it not run", got)
	}
}

func TestMet(t *testing.T) {
	for _, c := range []struct {
		figure          Figure
		measured, ratio float64
		want            string
	}{
		{Figure{}, 1, 1, "-"},
		{Figure{AtMost: 5}, 5, 100, "yes"},
		{Figure{AtMost: 5}, 6, 1, "no"},
		{Figure{AtMost: 5, RatioAtMost: 2}, 6, 2, "yes"},
		{Figure{AtMost: 5, RatioAtMost: 2}, 6, 3, "no"},
		{Figure{RatioAtMost: 2}, 6, 2.1, "no"},
		{Figure{RatioAtLeast: 0.6}, 6, 0.5, "no"},
	} {
		if got := c.figure.met(c.measured, c.ratio); got != c.want {
			t.Errorf("%+v with %g, ratio %g: %s, want %s", c.figure, c.measured, c.ratio, got, c.want)
		}
	}
}

// Ratios are those of rounds: a slow second of the machine that hits both sides of a round does not move them.
func TestRoundsTakeRatiosWithinARound(t *testing.T) {
	var rounds Rounds
	rounds.Add(10, 5)
	rounds.Add(200, 100)
	rounds.Add(30, 15)
	if got := Median(rounds.ratio); got != 2 {
		t.Errorf("ratio %g, want 2", got)
	}
	if Median(nil) != 0 || Median([]float64{3, 1, 2, 4}) != 2 {
		t.Error("median of none or of an even number")
	}
}
