package raftnode

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/quorum/env"
)

// flip changes one bit in each place of a file where bytes follow a mark: a page that was freed may hold a copy.
func flip(t *testing.T, path string, mark []byte, behind int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 0; ; found++ {
		i := bytes.Index(data[at:], mark)
		if i < 0 {
			break
		}
		at += i + len(mark)
		data[at-len(mark)+behind] ^= 4
	}
	if found == 0 {
		t.Fatalf("%s does not hold %q", path, mark)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A bit that has changed within an entry or a vote lies within no structure of bolt's: only a sum of its own shows it.
func TestChangedBitIsFound(t *testing.T) {
	dir := filled(t, 120)
	open := func() (*stores, error) {
		return openStores(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: dir, Fatal: noFatal(t)}.withDefaults(), new(Metrics))
	}
	t.Run("entry", func(t *testing.T) {
		flip(t, filepath.Join(dir, logFile), bytes.Repeat([]byte{100}, 3720), 7)
		st, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer st.close()
		for index := uint64(99); index <= 101; index++ {
			var log raft.Log
			err := st.log.GetLog(index, &log)
			if damaged := index == 100; errors.Is(err, errChecksum) != damaged || (err == nil) == damaged {
				t.Errorf("entry %d: %v", index, err)
			}
			if err == nil && len(log.Extensions) > 0 {
				t.Errorf("entry %d is given with what the disk alone should see", index)
			}
		}
	})
	t.Run("term", func(t *testing.T) {
		dir = filled(t, 20)
		path := filepath.Join(dir, stableName)
		flip(t, path, append(keyCurrentTerm, uint64Bytes(40)...), len(keyCurrentTerm)+7)
		if _, err := open(); !errors.Is(err, errChecksum) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "format it anew") {
			t.Errorf("opened: %v", err)
		}
		if _, err := OpenOffline(env.OS(""), dir); !errors.Is(err, errChecksum) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("offline: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		o, err := OpenOffline(env.OS(""), dir)
		if err != nil || o.Term != o.LastTerm || o.Owner != "" {
			t.Fatalf("offline, without it: %+v, %v", o, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A release from before the sums reads and writes the same files: its entries have none, and its votes make the sum old.
func TestFilesWithoutSumsAreRead(t *testing.T) {
	dir := filled(t, 20)
	log, err := openBoltLog(dir, boltOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.BoltStore.StoreLogs([]*raft.Log{{Index: 21, Term: 40, Data: []byte("old")}}); err != nil {
		t.Fatal(err)
	}
	var got raft.Log
	if err := log.GetLog(21, &got); err != nil || string(got.Data) != "old" {
		t.Errorf("%q, %v", got.Data, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	stable, err := openStableFile(filepath.Join(dir, stableName))
	if err != nil {
		t.Fatal(err)
	}
	err = stable.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(stableBucket).Put(keyCurrentTerm, uint64Bytes(41)) })
	if err := errors.Join(err, stable.close()); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(env.OS(""), dir)
	if err != nil || o.Term != 41 {
		t.Fatalf("offline: %+v, %v", o, err)
	}
	if err := errors.Join(o.Close(), reopen(dir), reopen(dir)); err != nil {
		t.Error(err)
	}
}

// A follower that needs an entry which is damaged on the leader's disk, but which a snapshot covers, gets that snapshot.
func TestDamagedEntryThatASnapshotCoversHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.TrailingEntries, cfg.CacheEntries = 1000, 1 }
		c.start()
		leader := c.leader()
		behind := c.others(leader)[0]
		c.network.Isolate(behind.host)
		changed := c.commit(leader, "changed")
		c.commit(leader, "after it")
		if err := leader.node.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		store := leader.node.stores.log.(*logCache).inner.(chunkedDelete).LogStore.(*guardedLog).inner.(*boltLog)
		var entry raft.Log
		if err := store.GetLog(changed.Index, &entry); err != nil {
			t.Fatal(err)
		}
		entry.Data, entry.Extensions = []byte("changeD"), entrySum(&entry)
		if err := store.BoltStore.StoreLog(&entry); err != nil {
			t.Fatal(err)
		}
		if err := leader.node.ReadLog(changed.Index, &entry); !errors.Is(err, errChecksum) {
			t.Errorf("read: %v", err)
		}
		c.network.Sever(leader.host, behind.host) // with what was read before
		<-time.After(2 * DefaultRPCTimeout)
		c.network.HealAll()
		c.everybodyHas("after it", behind)
		if !behind.fsm.has("changed") || behind.fsm.has("changeD") || behind.node.Metrics().SnapshotsTaken.Load() == 0 {
			t.Errorf("it has %v, after %d snapshots", behind.fsm.all(), behind.node.Metrics().SnapshotsTaken.Load())
		}
	})
}
