package layering

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// sourceFile is one Go file of the tree.
type sourceFile struct {
	path      string // from the root
	pkg       string // directory from the root
	test      bool
	generated bool
	lines     int
	ast       *ast.File
	fset      *token.FileSet
}

// position names a place in a file.
func (f *sourceFile) position(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(p).Line)
}

// imports lists the paths that a file imports.
func (f *sourceFile) imports() []string {
	var out []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// localName is the name under which a file knows an imported package, "" if it does not import it.
func (f *sourceFile) localName(importPath string) string {
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		base := path.Base(importPath)
		if strings.HasPrefix(base, "v") && len(base) == 2 {
			base = path.Base(path.Dir(importPath))
		}
		return base
	}
	return ""
}

// uses calls found with every selector pkg.Name of an imported package.
func (f *sourceFile) uses(importPath string, found func(name string, at token.Pos)) {
	local := f.localName(importPath)
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local && id.Obj == nil {
				found(sel.Sel.Name, sel.Pos())
			}
		}
		return true
	})
}

// root finds the directory that holds the product's go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+strings.TrimSuffix(module, "/"))) {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("layering: no go.mod of %s above the working directory", module)
		}
		dir = filepath.Dir(dir)
	}
}

// load parses every Go file of the product's module, in path order. Nested modules are left out.
func load(dir string) ([]*sourceFile, error) {
	var files []*sourceFile
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(dir, name, d)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parse(dir, name)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	sort.Slice(files, func(i, j int) bool { return files[i].path < files[j].path })
	return files, err
}

func enter(dir, name string, d fs.DirEntry) error {
	if name == dir {
		return nil
	}
	base := d.Name()
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || base == "data" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func parse(dir, name string) (*sourceFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return nil, err
	}
	rel = filepath.ToSlash(rel)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	return &sourceFile{
		path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), generated: ast.IsGenerated(file),
		lines: bytes.Count(data, []byte("\n")), ast: file, fset: fset,
	}, nil
}

// forTests tells whether a package exists for tests only: those below test/ and the test doubles.
func forTests(pkg string) bool {
	return strings.HasPrefix(pkg, "test/") || strings.HasSuffix(path.Base(pkg), "test")
}
