package layering

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	majorVersion = regexp.MustCompile(`/v[0-9]+$`)
	modulePath   = regexp.MustCompile("`([^`]+)`")
)

// TestDependenciesAreDecided: the record of dependencies names the modules that go.mod requires directly, and no other. What only
// some packages may import is among them.
func TestDependenciesAreDecided(t *testing.T) {
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(dir, "docs", "adr", "0003-dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	required, decided := requiredModules(string(goMod)), decidedModules(string(record))
	for _, m := range required {
		if !slices.Contains(decided, m) {
			t.Errorf("go.mod requires %s: give it a line in docs/adr/0003-dependencies.md", m)
		}
	}
	for _, m := range decided {
		if !slices.Contains(required, m) {
			t.Errorf("docs/adr/0003-dependencies.md names %s, which go.mod does not require", m)
		}
	}
	for m := range homes {
		if !slices.Contains(required, m) {
			t.Errorf("bands.go gives %s a home, which go.mod does not require", m)
		}
	}
}

// requiredModules lists the modules that are required directly, without their major versions.
func requiredModules(goMod string) []string {
	var out []string
	for line := range strings.Lines(goMod) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "\t") && len(fields) == 2 {
			out = append(out, majorVersion.ReplaceAllString(fields[0], ""))
		}
	}
	return out
}

// decidedModules lists the modules in the first column of the record's table.
func decidedModules(record string) []string {
	var out []string
	for line := range strings.Lines(record) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range modulePath.FindAllStringSubmatch(cells[1], -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func TestDependenciesAreRead(t *testing.T) {
	goMod := "module m\n\nrequire (\n\ta.org/b v1.0.0\n\ta.org/c/v4 v4.1.0\n)\n\nrequire (\n\ta.org/d v1.0.0 // indirect\n)\n"
	if got, want := requiredModules(goMod), []string{"a.org/b", "a.org/c"}; !slices.Equal(got, want) {
		t.Errorf("required: %v, want %v", got, want)
	}
	record := "| module | for |\n| --- | --- |\n| `a.org/b`, `a.org/c` | what `a.org/e` does |\n\nNot `a.org/d`.\n"
	if got, want := decidedModules(record), []string{"a.org/b", "a.org/c"}; !slices.Equal(got, want) {
		t.Errorf("decided: %v, want %v", got, want)
	}
}
