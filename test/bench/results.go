package bench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// lineBytesMax bounds a line of the output of `go test -bench`.
const lineBytesMax = 1 << 20

// Result is what the runs of one benchmark gave.
type Result struct {
	// Package is the path below the module's, Name the benchmark's without Benchmark and the number of processors.
	Package, Name string
	// Units are in the order in which they were first printed.
	Units  []string
	values map[string][]float64
}

// Runs is how often the unit was printed.
func (r *Result) Runs(unit string) int { return len(r.values[unit]) }

// Median is the middle value of a unit; ok is false if the benchmark does not have it.
func (r *Result) Median(unit string) (value float64, ok bool) {
	values := r.values[unit]
	return Median(values), len(values) > 0
}

// Output is what `go test -bench` printed.
type Output struct {
	// Results are in the order in which they were first printed.
	Results []*Result
	// Failures are lines that tell of a failure.
	Failures []string
}

// Find returns a result, nil if there is none.
func (o *Output) Find(pkg, name string) *Result {
	i := slices.IndexFunc(o.Results, func(r *Result) bool { return r.Package == pkg && r.Name == name })
	if i < 0 {
		return nil
	}
	return o.Results[i]
}

// Read takes the output of one or more runs of `go test -bench`, and hands each line to echo as it comes.
func Read(r io.Reader, module string, echo func(line string)) (*Output, error) {
	o, pkg := new(Output), ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		line := lines.Text()
		echo(line)
		switch {
		case strings.HasPrefix(line, "pkg: "):
			pkg = strings.TrimPrefix(strings.TrimPrefix(line, "pkg: "), module+"/")
		case strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "--- FAIL"), strings.HasPrefix(line, "panic:"):
			o.Failures = append(o.Failures, line)
		case strings.HasPrefix(line, "Benchmark"):
			if err := o.add(pkg, strings.Fields(line)); err != nil {
				return nil, fmt.Errorf("bench: %w in line %q", err, line)
			}
		}
	}
	return o, lines.Err()
}

// add takes a line: name, iterations, then pairs of value and unit. One without figures is a benchmark that has only begun.
func (o *Output) add(pkg string, fields []string) error {
	if len(fields) < 4 {
		return nil
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	r := o.Find(pkg, name)
	if r == nil {
		r = &Result{Package: pkg, Name: name, values: map[string][]float64{}}
		o.Results = append(o.Results, r)
	}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		unit := fields[i+1]
		if r.values[unit] == nil {
			r.Units = append(r.Units, unit)
		}
		r.values[unit] = append(r.values[unit], value)
	}
	return nil
}

// String is the benchmark with the median of each unit, on one line.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Package, r.Name)
	for _, unit := range r.Units {
		value, _ := r.Median(unit)
		fmt.Fprintf(&b, "  %s %s", number(value), unit)
	}
	return b.String()
}

// number prints a figure with as many digits as it deserves.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
