package layering

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// headings are those of every package comment, in this order.
var headings = []string{"# Purpose", "# Usage", "# Guarantees", "# Goroutines"}

func TestPackageDocs(t *testing.T) {
	files := tree(t)
	comment := map[string]string{}
	var packages []string
	for _, f := range files {
		if f.test || f.generated {
			continue
		}
		if !slices.Contains(packages, f.pkg) {
			packages = append(packages, f.pkg)
		}
		if f.ast.Doc == nil {
			continue
		}
		if !strings.HasSuffix(f.path, "/doc.go") {
			t.Errorf("%s: the package comment belongs into doc.go", f.path)
		}
		comment[f.pkg] = f.ast.Doc.Text()
	}
	for _, pkg := range packages {
		if err := checkHeadings(comment[pkg]); err != "" {
			t.Errorf("%s/doc.go: %s", pkg, err)
		}
	}
}

// checkHeadings says what is wrong with a package comment, "" if nothing is.
func checkHeadings(doc string) string {
	var got []string
	for line := range strings.Lines(doc) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "# ") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, headings) {
		return "headings are " + strings.Join(got, ", ") + "; want " + strings.Join(headings, ", ")
	}
	return ""
}

func TestCheckHeadings(t *testing.T) {
	good := "Package x.\n\n# Purpose\n\na\n\n# Usage\n\nb\n\n# Guarantees\n\nc\n\n# Goroutines\n\nd\n"
	if err := checkHeadings(good); err != "" {
		t.Error(err)
	}
	for _, bad := range []string{"", strings.Replace(good, "# Usage", "# Use", 1), strings.Replace(good, "# Purpose\n", "", 1)} {
		if checkHeadings(bad) == "" {
			t.Errorf("accepted %q", bad)
		}
	}
}

// TestDesignNotes asks a DESIGN.md of every package that starts goroutines.
func TestDesignNotes(t *testing.T) {
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range tree(t) {
		if f.test || f.generated || forTests(f.pkg) || seen[f.pkg] {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			_, starts := n.(*ast.GoStmt)
			if starts && !seen[f.pkg] {
				seen[f.pkg] = true
				if _, err := os.Stat(filepath.Join(dir, f.pkg, "DESIGN.md")); err != nil {
					t.Errorf("%s starts a goroutine (%s) and has no DESIGN.md", f.pkg, f.position(n.Pos()))
				}
			}
			return true
		})
	}
}

var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)[^`]*`")

func TestRulesHaveTests(t *testing.T) {
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, f := range tree(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, problem := range checkRules(string(data), tests) {
		t.Errorf("docs/rules.md: %s", problem)
	}
}

// checkRules walks the table of rules and says which rows are wrong.
func checkRules(text string, tests map[string]bool) []string {
	var problems []string
	rules := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| rule ") {
			continue
		}
		rules++
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if len(cells) != 3 || strings.TrimSpace(cells[0]) == "" || strings.TrimSpace(cells[1]) == "" {
			problems = append(problems, "want three cells, rule, source and test, in "+line)
			continue
		}
		names := testName.FindAllStringSubmatch(cells[2], -1)
		if len(names) == 0 {
			problems = append(problems, "no test named in "+line)
		}
		for _, m := range names {
			if !tests[m[1]] {
				problems = append(problems, m[1]+" is not in the tree, in "+line)
			}
		}
	}
	if rules == 0 {
		problems = append(problems, "no rules")
	}
	return problems
}

func TestCheckRules(t *testing.T) {
	tests := map[string]bool{"TestA": true}
	head := "| rule | source | test |\n| --- | --- | --- |\n"
	for _, c := range []struct {
		row  string
		good bool
	}{
		{"| One leader. | KIP-1 | `TestA` |\n", true},
		{"| One leader. | KIP-1 | `TestA/case` |\n", true},
		{"| One leader. | KIP-1 | `TestB` |\n", false},
		{"| One leader. | KIP-1 | |\n", false},
		{"| One leader. | `TestA` |\n", false},
		{"", false},
	} {
		if got := checkRules(head+c.row, tests); (len(got) == 0) != c.good {
			t.Errorf("%q: %v", c.row, got)
		}
	}
}
