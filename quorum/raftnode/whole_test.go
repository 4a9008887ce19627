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

// A folder says whose it is from the first start on, and no other server goes on with its term, vote and log.
func TestStateOfAnotherServerIsRefused(t *testing.T) {
	open, dir := stateOf(t, false)
	file, err := openStableFile(filepath.Join(dir, stableName))
	if err != nil {
		t.Fatal(err)
	}
	if owner, err := file.get(keyOwner); err != nil || string(owner) != one.String() {
		t.Errorf("owner %q, %v; want %s", owner, err, one)
	}
	if err := errors.Join(file.set(pair{keyOwner, []byte(two.String())}), file.close()); err != nil {
		t.Fatal(err)
	}
	var state *StateError
	if err := open(true); !errors.Is(err, ErrForeignState) || !errors.As(err, &state) || !strings.Contains(err.Error(), two.String()) || !strings.Contains(err.Error(), "quorum remove") {
		t.Errorf("%v", err)
	}
}

// That a state has begun is noted when the first entries are on the disk, before anybody is told, once.
func TestFirstEntryIsNotedOutside(t *testing.T) {
	noted := 0
	fails := errors.New("disk full")
	for _, want := range []error{nil, fails} {
		st, err := openStores(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: memoryDir(t), Fatal: func(error) {}}.withDefaults(), new(Metrics))
		if err != nil {
			t.Fatal(err)
		}
		defer st.close()
		n := New(Config{Begin: func() error {
			if last, _ := st.log.LastIndex(); last != 1 {
				t.Errorf("noted when the log ends at %d", last)
			}
			noted++
			return want
		}})
		n.stores, st.guard.begin = st, n.begin
		if err := st.stable.SetUint64(keyCurrentTerm, 1); err != nil || noted > 0 && want == nil {
			t.Errorf("noted %d times for a term alone: %v", noted, err)
		}
		for i := range uint64(3) {
			if err := st.log.StoreLog(&raft.Log{Index: i + 1, Term: 1}); !errors.Is(err, want) {
				t.Errorf("entry %d: %v, want %v", i+1, err, want)
			}
			if want != nil {
				break
			}
		}
	}
	if noted != 2 {
		t.Errorf("noted %d times, want once each", noted)
	}
}

// A newcomer hears a term with the first message of the leader, and may be killed before entries or a snapshot come, which takes as
// long as sending that snapshot takes. It has lost nothing and starts; once it has entries it does not start without them.
func TestNewcomerKilledBeforeItsFirstEntryStarts(t *testing.T) {
	network := envtest.NewNetwork()
	defer network.Close()
	e := &env.Env{Network: network.Host("n1"), FS: env.OS("").FS, Clock: envtest.NewClock()}
	dir, begun := memoryDir(t), false
	life := func(what func(n *Node) error) error {
		n := New(Config{
			Env: e, Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, ClusterID: testCluster, ID: one, Dir: dir,
			ListenAddress: "n1:9292", Fatal: noFatal(t), Begun: begun, Begin: func() error { begun = true; return nil },
		})
		if err := n.Open(t.Context()); err != nil {
			return err
		}
		return errors.Join(what(n), n.Close())
	}
	term := uint64(0)
	hear := func(n *Node) error { term++; return n.stores.stable.SetUint64(keyCurrentTerm, term) }
	for range 3 {
		if err := life(hear); err != nil || begun {
			t.Fatalf("with term %d and nothing else: %v, begun %v", term, err, begun)
		}
	}
	if err := life(func(n *Node) error { return n.stores.log.StoreLog(&raft.Log{Index: 1, Term: term}) }); err != nil || !begun {
		t.Fatalf("first entry: %v, begun %v", err, begun)
	}
	for _, begun = range []bool{true, false} { // false: an entry alone takes the note away, too
		if err := os.Remove(filepath.Join(dir, logFile)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := life(hear); !errors.Is(err, ErrLogLost) {
			t.Errorf("begun %v, without its log: %v, want ErrLogLost", begun, err)
		}
	}
}
