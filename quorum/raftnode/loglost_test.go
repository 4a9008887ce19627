package raftnode

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

// A member whose log was deleted while its votes stayed would vote with an empty log under an identity that has
// acknowledged entries; one whose votes were deleted could vote twice in a term. Neither starts.
func TestMemberWhoseLogIsGoneDoesNotStart(t *testing.T) {
	network := envtest.NewNetwork()
	defer network.Close()
	e := &env.Env{Network: network.Host("n1"), FS: env.OS("").FS, Clock: envtest.NewClock()}
	dir := t.TempDir()
	id := ServerID{NodeID: 1, DirectoryID: directoryID("one")}
	if err := Bootstrap(e, dir, []Server{{ID: id, Address: "n1:9292", Voter: true}}); err != nil {
		t.Fatal(err)
	}
	open := func() error {
		n := New(Config{
			Env: e, Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, ClusterID: testCluster, ID: id, Dir: dir,
			ListenAddress: "n1:9292", Fatal: noFatal(t),
		})
		if err := n.Open(context.Background()); err != nil {
			return err
		}
		return n.Close()
	}
	if err := open(); err != nil {
		t.Fatalf("with its log: %v", err)
	}
	votes := filepath.Join(dir, stableName)
	kept, err := os.ReadFile(votes)
	if err != nil {
		t.Fatal(err)
	}
	for name, lose := range map[string]func() error{
		"deleted": func() error { return os.Remove(votes) }, "emptied": func() error { return os.Truncate(votes, 0) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if err := open(); !errors.Is(err, ErrVotesLost) {
			t.Errorf("with its votes %s: %v, want ErrVotesLost", name, err)
		}
		if err := os.WriteFile(votes, kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(); err != nil {
		t.Fatalf("with its votes put back: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, logFile)); err != nil {
		t.Fatal(err)
	}
	if err := open(); !errors.Is(err, ErrLogLost) {
		t.Errorf("without its log: %v, want ErrLogLost", err)
	}
}
