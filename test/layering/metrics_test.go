package layering_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var metricName = regexp.MustCompile(`quorate_[a-z_]+[a-z]`)

// A metric that the documents name is one that the code has: whole, or as the broker's prefix and a name.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	var code strings.Builder
	for _, dir := range []string{"quorum", "broker", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			code.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range append(documents, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(data), -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name == "quorate_hooks" { // a build tag
				continue
			}
			named++
			short, isBroker := strings.CutPrefix(name, "quorate_broker_")
			if !strings.Contains(code.String(), `"`+name+`"`) && !(isBroker && strings.Contains(code.String(), `("`+short+`"`)) {
				t.Errorf("%s names %s, which no code registers", path, name)
			}
		}
	}
	if named < 10 {
		t.Errorf("the documents name %d metrics", named)
	}
}
