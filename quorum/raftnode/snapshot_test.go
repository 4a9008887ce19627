package raftnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestSnapshotIsRestoredAndInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.TrailingEntries = 5 }
		c.start()
		leader := c.leader()
		behind := c.others(leader)[0]
		c.network.Isolate(behind.host)
		for i := range 100 {
			c.commit(leader, fmt.Sprint("entry ", i))
		}
		if err := leader.node.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		oldest, err := leader.node.OldestIndex()
		if err != nil || oldest < 50 {
			t.Fatalf("oldest index after the snapshot: %d, %v", oldest, err)
		}
		if err := leader.node.ReadLog(oldest-1, new(raft.Log)); err != raft.ErrLogNotFound {
			t.Fatalf("reading before the oldest: %v", err)
		}
		c.network.HealAll()
		c.everybodyHas("entry 99", behind)
		if got := behind.node.Metrics().SnapshotsTaken.Load(); got == 0 {
			t.Error("caught up without a snapshot")
		}

		c.stop(leader)
		leader.fsm.entries = nil
		c.start(leader)
		c.everybodyHas("entry 99", leader)
	})
}

func TestSnapshotByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.SnapshotBytes = 10_000 }
		c.start()
		leader := c.leader()
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { leader.node.Run(t.Context()) })
		defer c.close()
		c.commit(leader, strings.Repeat("x", 9000))
		<-time.After(5 * time.Second)
		if got := leader.node.Metrics().SnapshotsTaken.Load(); got != 0 {
			t.Errorf("%d snapshots below the limit", got)
		}
		c.commit(leader, strings.Repeat("x", 1000))
		<-time.After(5 * time.Second)
		if got := leader.node.Metrics().SnapshotsTaken.Load(); got != 1 {
			t.Errorf("%d snapshots above the limit, want 1", got)
		}
	})
}

// A flipped byte in the newest snapshot: it is refused and named, the older one and the log serve. Both damaged and
// the log gone: Open says so and nothing of them reaches the FSM.
func TestDamagedSnapshotIsRefusedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.TrailingEntries = 50 }
		c.start()
		m := c.leader()
		var names []string
		for i := range 2 {
			for k := range 30 {
				c.commit(m, fmt.Sprint("entry ", i, " ", k))
			}
			if err := m.node.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		c.stop(m)
		entries, err := os.ReadDir(filepath.Join(m.dir, snapshotsDir))
		if err != nil || len(entries) != 2 {
			t.Fatalf("%d snapshots, %v", len(entries), err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		newest := names[1]

		damage(t, filepath.Join(m.dir, snapshotsDir, newest, "state.bin"))
		m.fsm.entries = nil
		c.start(m)
		c.leader()
		c.everybodyHas("entry 1 29", m)
		if !strings.Contains(m.log.String(), "metadata snapshot refused") || !strings.Contains(m.log.String(), newest) {
			t.Error("the log does not name the snapshot")
		}
		c.stop(m)

		damage(t, filepath.Join(m.dir, snapshotsDir, names[0], "state.bin"))
		m.fsm.entries = nil
		err = New(c.config(m)).Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), "snapshots are damaged") {
			t.Errorf("open: %v", err)
		}
		if len(m.fsm.entries) != 0 {
			t.Error("a damaged snapshot reached the FSM")
		}
	})
}

func damage(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
