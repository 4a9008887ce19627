package layering

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"sync"
	"testing"
)

// parsed is the tree, read once for all tests.
var parsed = sync.OnceValues(func() ([]*sourceFile, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	return load(dir)
})

func tree(t *testing.T) []*sourceFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	return files
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range tree(t) {
		if forTests(f.pkg) {
			continue
		}
		from, ok := bandOf(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no line in the table of bands (test/layering/bands.go)", f.path, f.pkg)
			continue
		}
		for _, imp := range f.imports() {
			checkImport(t, f, from, imp)
		}
	}
}

func checkImport(t *testing.T, f *sourceFile, from band, imp string) {
	for mod, allowed := range homes {
		if (imp == mod || strings.HasPrefix(imp, mod+"/")) && !f.test && !within(f.pkg, allowed) {
			t.Errorf("%s: %s may not import %s; only %s may", f.path, f.pkg, imp, strings.Join(allowed, ", "))
		}
	}
	to, ours := strings.CutPrefix(imp, module)
	if !ours || to == f.pkg {
		return
	}
	if forTests(to) {
		if !f.test {
			t.Errorf("%s: %s imports %s, which is for tests only", f.path, f.pkg, to)
		}
		return
	}
	if external := f.test && strings.HasSuffix(f.ast.Name.Name, "_test"); external && from.level >= 30 {
		return // a test from outside may use what the package is used with
	}
	target, ok := bandOf(to)
	if !ok {
		t.Errorf("%s: imports %s, which has no line in the table of bands", f.path, to)
		return
	}
	if !mayImport(from, target) {
		t.Errorf("%s: %s (level %d) may not import %s (level %d): imports point down, and the two sides never meet",
			f.path, f.pkg, from.level, to, target.level)
	}
}

func within(pkg string, homes []string) bool {
	return slices.ContainsFunc(homes, func(h string) bool { return pkg == h || strings.HasPrefix(pkg, h+"/") })
}

// TestMayImport shows that the law can be broken: it names the edges the design forbids.
func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"quorum", "quorum/controller", true},
		{"quorum", "fsm", true},
		{"fsm", "quorum/controller", true}, // by level; TestFSMDoesNotDecide forbids it
		{"quorum", "broker", false},
		{"broker", "quorum", false},
		{"broker", "fsm", false},
		{"broker", "quorum/client", true},
		{"alterpartition", "quorum/client", true},
		{"fsm/image", "fsm", false},
		{"quorum/client", "fsm", false},
		{"quorum/controller", "quorum/raftnode", false},
		{"cmd/quorate", "broker", true},
	} {
		from, _ := bandOf(c.from)
		to, _ := bandOf(c.to)
		if got := mayImport(from, to); got != c.want {
			t.Errorf("mayImport(%s, %s) = %v", c.from, c.to, got)
		}
	}
}

func TestFSMDoesNotDecide(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || f.pkg != "fsm" && !strings.HasPrefix(f.pkg, "fsm/") {
			continue
		}
		if slices.Contains(f.imports(), module+"quorum/controller") {
			t.Errorf("%s: fsm may not import quorum/controller: Apply replays, it never decides", f.path)
		}
	}
}

func TestPurePackages(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || f.generated || !slices.Contains(purePackages, f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if impureImports[imp] {
				t.Errorf("%s: %s is pure and may not import %s", f.path, f.pkg, imp)
			}
		}
		f.uses("time", func(name string, at token.Pos) {
			if clockReads[name] {
				t.Errorf("%s: %s is pure and may not use time.%s; take the time as an argument", f.position(at), f.pkg, name)
			}
		})
		f.uses("math/rand/v2", func(name string, at token.Pos) {
			if !randomSources[name] {
				t.Errorf("%s: %s is pure and may not draw from the global source (rand.%s); take a source as an argument", f.position(at), f.pkg, name)
			}
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: %s is pure and may not start a goroutine", f.position(g.Pos()), f.pkg)
			}
			return true
		})
	}
}

func TestOutsideOnlyThroughEnv(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || f.generated || forTests(f.pkg) || freeOfEnv[f.pkg] {
			continue
		}
		for pkg, names := range outside {
			f.uses(pkg, func(name string, at token.Pos) {
				if names[name] {
					t.Errorf("%s: %s.%s goes around the environment value; use env.Env", f.position(at), pkg, name)
				}
			})
		}
	}
}
