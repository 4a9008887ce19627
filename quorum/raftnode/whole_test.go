package raftnode

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

// stateOf makes the Raft folder of the only voter of a quorum: with entries, and, if it is compacted, a snapshot that alone holds what
// is before them.
func stateOf(t *testing.T, compacted bool) (open func(begun bool) error, dir string) {
	t.Helper()
	network := envtest.NewNetwork()
	t.Cleanup(network.Close)
	e := &env.Env{Network: network.Host("n1"), FS: env.OS("").FS, Clock: envtest.NewClock()}
	dir = memoryDir(t)
	if err := Bootstrap(e, dir, []Server{{ID: one, Address: "n1:9292", Voter: true}}); err != nil {
		t.Fatal(err)
	}
	node := func(begun bool) (*Node, error) {
		n := New(Config{
			Env: e, Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, ClusterID: testCluster, ID: one, Dir: dir,
			ListenAddress: "n1:9292", Fatal: noFatal(t), TrailingEntries: 1, Begun: begun,
		})
		return n, n.Open(t.Context())
	}
	n, err := node(true)
	if err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "it leads", func() bool { return n.State() == raft.Leader })
	for i := range 10 {
		if out := n.Apply([]byte(fmt.Sprint(i))).Wait(); out.Fate != FateApplied {
			t.Fatal(out.Err)
		}
		if i == 5 && compacted {
			if err := n.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	return func(begun bool) error {
		n, err := node(begun)
		if err == nil {
			err = n.Close()
		}
		return err
	}, dir
}

// Which of a member's files can vanish, alone or together: with any that holds what it has acknowledged or voted it does not start, and
// says in one line which one, and what to do. Emptied is as good as gone. Only when the folder was never used, everything may be missing.
func TestMemberDoesNotStartWithoutItsFiles(t *testing.T) {
	files := []string{logFile, stableName, snapshotsDir}
	for _, compacted := range []bool{false, true} {
		open, dir := stateOf(t, compacted)
		kept := copyOf(t, dir)
		for lose := range 1 << len(files) {
			var gone []string
			for i, name := range files {
				if lose&(1<<i) != 0 {
					gone = append(gone, name)
				}
			}
			has := func(name string) bool { return slices.Contains(gone, name) }
			var want error
			switch {
			case has(logFile) && has(stableName) && (has(snapshotsDir) || !compacted):
				want = ErrStateLost
			case has(logFile):
				want = ErrLogLost
			case has(stableName):
				want = ErrVotesLost
			case has(snapshotsDir) && compacted:
				want = ErrSnapshotsLost
			}
			for _, emptied := range []bool{false, true} {
				if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept))); err != nil {
					t.Fatal(err)
				}
				for _, name := range gone {
					path := filepath.Join(dir, name)
					if err := os.RemoveAll(path); err != nil {
						t.Fatal(err)
					}
					if !emptied {
						continue
					}
					err := os.MkdirAll(path, 0o755)
					if name != snapshotsDir {
						err = errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // what a start refuses, the next one refuses
					err := open(true)
					var state *StateError
					if !errors.Is(err, want) || want != nil && (!errors.As(err, &state) || strings.Contains(err.Error(), "\n") ||
						!strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "quorum add")) {
						t.Errorf("compacted %v, without %v (emptied %v): %v, want %v", compacted, gone, emptied, err, want)
					}
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := open(true); !errors.Is(err, ErrStateLost) {
			t.Errorf("without its folder: %v", err)
		}
		if err := open(false); err != nil {
			t.Errorf("never used: %v", err)
		}
	}
}

// Votes of an older copy do not fit a newer log.
func TestVotesOlderThanTheLogAreRefused(t *testing.T) {
	open, dir := stateOf(t, true)
	file, err := openStableFile(filepath.Join(dir, stableName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.set(pair{keyCurrentTerm, uint64Bytes(1)}), file.close()); err != nil {
		t.Fatal(err)
	}
	if err := open(true); !errors.Is(err, ErrVotesLost) || !strings.Contains(err.Error(), "older than the log") {
		t.Errorf("%v", err)
	}
}

// That a state has begun is noted before the first term is written, and by a member that was made before it was noted.
func TestFirstTermIsNotedOutside(t *testing.T) {
	var noted []string
	dir := memoryDir(t)
	st, err := openStores(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: dir, Fatal: func(error) {}}.withDefaults(), new(Metrics))
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	n := New(Config{Begin: func() error {
		term, _ := st.stable.GetUint64(keyCurrentTerm)
		noted = append(noted, fmt.Sprint(term))
		return nil
	}})
	st.stable.begin = n.begin
	for term := range uint64(3) {
		if err := st.stable.SetUint64(keyCurrentTerm, term+1); err != nil {
			t.Fatal(err)
		}
	}
	if len(noted) != 1 || noted[0] != "0" {
		t.Errorf("noted %v", noted)
	}
	n = New(Config{Begin: func() error { return errors.New("disk full") }})
	st.stable.begin = n.begin
	if err := st.stable.SetUint64(keyCurrentTerm, 9); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("written without the note: %v", err)
	}
}
