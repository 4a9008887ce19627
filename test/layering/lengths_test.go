package layering

import (
	"go/ast"
	"slices"
	"testing"
)

// Limits of length, in lines. Tests and generated code are not counted.
const (
	fileLinesMax     = 500
	fileLinesMedian  = 150
	fileLinesP90     = 350
	functionLinesMax = 70
)

func TestLengths(t *testing.T) {
	var files, functions []int
	for _, f := range tree(t) {
		if f.test || f.generated {
			continue
		}
		files = append(files, f.lines)
		if f.lines > fileLinesMax {
			t.Errorf("%s: %d lines, limit %d; split it by subject", f.path, f.lines, fileLinesMax)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			functions = append(functions, n)
			if n > functionLinesMax {
				t.Errorf("%s: %s has %d lines, limit %d", f.position(fn.Pos()), fn.Name.Name, n, functionLinesMax)
			}
		}
	}
	median, p90 := percentile(files, 50), percentile(files, 90)
	t.Logf("files: %d, lines median %d, p90 %d", len(files), median, p90)
	t.Logf("functions: %d, lines median %d, p90 %d", len(functions), percentile(functions, 50), percentile(functions, 90))
	if median > fileLinesMedian || p90 > fileLinesP90 {
		t.Errorf("file length: median %d (limit %d), p90 %d (limit %d)", median, fileLinesMedian, p90, fileLinesP90)
	}
}

func percentile(values []int, p int) int {
	slices.Sort(values)
	return values[(len(values)-1)*p/100]
}
