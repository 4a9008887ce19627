package controller_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTranscriptsReachEverything: each error code that a decision may give is an answer in testdata, and each API is
// called by a command of the transcripts.
func TestTranscriptsReachEverything(t *testing.T) {
	transcripts := readAll(t, "testdata/*.txt")
	for _, code := range codesOf(t) {
		if !regexp.MustCompile(`(→|refused) ` + code + `: `).MatchString(transcripts) {
			t.Errorf("no transcript in testdata is answered %s: write one", code)
		}
	}
	runner := readAll(t, "transcript*_test.go") + readAll(t, "harness_test.go")
	for api := range decisions(t) {
		if !strings.Contains(runner, "controller."+api+"(") {
			t.Errorf("no command of the transcripts calls %s: add one and a transcript", api)
		}
	}
	// A command of the runner that no transcript uses reaches nothing.
	for _, m := range regexp.MustCompile(`(?m)^\tcase "([a-z-]+)":\n\t\t(?:return s\.|req|d, err)`).FindAllStringSubmatch(readAll(t, "transcript*_test.go"), -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `( |$)`).MatchString(transcripts) {
			t.Errorf("no transcript has the command %s", m[1])
		}
	}
}

func readAll(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %d files", pattern, err, len(paths))
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// codesOf lists Kafka's names of the codes in codes.go that decisions use.
func codesOf(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(code\w+) += controllerpb\.ErrorCode_ERROR_CODE_([A-Z_]+)`).FindAllStringSubmatch(readAll(t, "codes.go"), -1) {
		if regexp.MustCompile(`\b`+m[1]+`\b`).MatchString(readAll(t, "[a-bd-z]*.go")) || regexp.MustCompile(`[(, ]`+m[1]+`,`).MatchString(readAll(t, "c*.go")) {
			names = append(names, m[2])
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d codes in codes.go are used", len(names))
	}
	return names
}

// decisions are the exported functions from a View to a Decision, and whether they take a request.
func decisions(t *testing.T) map[string]bool {
	t.Helper()
	paths, _ := filepath.Glob("*.go")
	names := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Params.List) == 0 {
				continue
			}
			view, _ := f.Type.Params.List[0].Type.(*ast.Ident)
			of, _ := f.Type.Results.List[0].Type.(*ast.IndexExpr)
			if view == nil || view.Name != "View" || of == nil {
				continue
			}
			if x, ok := of.X.(*ast.Ident); ok && x.Name == "Decision" {
				params := f.Type.Params.List
				_, takesRequest := params[len(params)-1].Type.(*ast.StarExpr)
				names[f.Name.Name] = takesRequest
			}
		}
	}
	if len(names) < 15 {
		t.Fatalf("only %v", names)
	}
	return names
}

// TestFuzzedRequestsReachEveryAPI: no request is left out.
func TestFuzzedRequestsReachEveryAPI(t *testing.T) {
	var names []string
	for _, a := range fuzzedAPIs(fuzzHarness(t, true).image) {
		names = append(names, a.name)
	}
	for api, takesRequest := range decisions(t) {
		if takesRequest && !slices.Contains(names, api) {
			t.Errorf("%s is not fuzzed: add it to fuzzedAPIs", api)
		}
	}
}
