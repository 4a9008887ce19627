package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/test/cluster"
)

// A controller whose Raft files are gone, beside an intact meta.properties, does not start as the voter that it was: it would have
// forgotten what it acknowledged. The refusal is one line with the next step, and the next start is refused as well.
func TestControllerWithoutItsRaftFilesIsRefused(t *testing.T) {
	t.Parallel()
	s := cluster.NewSolo(t)
	if out, errs, code := cluster.Run(t, s.Format()...); code != 0 {
		t.Fatalf("format: exit %d\n%s%s", code, out, errs)
	}
	s.Serves(t)
	raft, kept := filepath.Join(s.DataDir, "raft"), filepath.Join(s.Dir, "kept")
	if err := os.Rename(raft, kept); err != nil {
		t.Fatal(err)
	}
	for name, lose := range map[string]func() error{
		"the raft state is gone: no folder": func() error { return os.RemoveAll(raft) },
		"the raft state is gone: emptied":   func() error { removeAll(t, raft, ""); return nil },
		"the raft log is gone":              func() error { return os.Remove(filepath.Join(raft, "log.bolt")) },
		"the raft log is gone: emptied":     func() error { return os.Truncate(filepath.Join(raft, "log.bolt"), 0) },
		"the raft votes are gone":           func() error { return os.Remove(filepath.Join(raft, "stable.bolt")) },
		"the raft votes are gone: emptied":  func() error { return os.Truncate(filepath.Join(raft, "stable.bolt"), 0) },
	} {
		if err := os.RemoveAll(raft); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(raft, os.DirFS(kept)); err != nil {
			t.Fatal(err)
		}
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		what, _, _ := strings.Cut(name, ": ")
		for range 2 {
			out, errs, code := cluster.Run(t, s.Server()...)
			wantRefusal(t, result{out, errs, code}, "KAFKA_STORAGE_ERROR", what, "quorum remove", "format", "quorum add")
		}
	}
	if err := os.RemoveAll(raft); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(raft, os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	s.Serves(t)
}
