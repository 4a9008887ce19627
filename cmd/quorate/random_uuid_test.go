package main

import (
	"regexp"
	"testing"
)

func TestRandomUUID(t *testing.T) {
	w := newWorld(t)
	w.golden(t, "random_uuid.txt", nil)
	form := regexp.MustCompile(`^exit 0\nstdout:\n[A-Za-z0-9_][A-Za-z0-9_-]{21}\n$`)
	seen := map[string]bool{}
	for range 100 {
		out := w.run("random-uuid")
		if !form.MatchString(out) || seen[out] {
			t.Fatalf("%q", out)
		}
		seen[out] = true
	}
}
