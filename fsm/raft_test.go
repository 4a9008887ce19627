package fsm

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestUnderRaft runs the FSM below hashicorp/raft: claims and entries in batches, a snapshot while a configuration is the
// newest entry (issue 617), and a restart from snapshot and log.
func TestUnderRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		start := func(f *FSM) *raft.Raft {
			addr, trans := raft.NewInmemTransport("")
			cfg := raft.DefaultConfig()
			cfg.LocalID, cfg.BatchApplyCh, cfg.TrailingLogs = "1", true, 1
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: io.Discard})
			servers := raft.Configuration{Servers: []raft.Server{{ID: "1", Address: addr}}}
			if last, err := store.LastIndex(); err != nil || last == 0 {
				if err := raft.BootstrapCluster(cfg, store, store, snaps, trans, servers); err != nil {
					t.Fatal(err)
				}
			}
			r, err := raft.NewRaft(cfg, f, store, store, snaps, trans)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		apply := func(r *raft.Raft, data []byte) any {
			fut := r.Apply(data, time.Second)
			if err := fut.Error(); err != nil {
				t.Fatal(err)
			}
			return fut.Response()
		}
		f, a := newFSM(t, nil), newAuthor(t)
		r := start(f)
		<-r.LeaderCh()
		claim := func(r *raft.Raft, f *FSM) {
			res, ok := apply(r, a.claim().Data).(ClaimResult)
			if !ok {
				t.Fatal("claim was not answered")
			}
			a.state = res.State
		}
		entry := func(r *raft.Raft, n int, name string) {
			data := encodeEntry(t, a.header(), topicRecord(n, name))
			res, ok := apply(r, data).(EntryResult)
			if !ok || res.Verdict != Apply {
				t.Fatalf("entry %s: %+v", name, res)
			}
			a.state = res.State
		}
		claim(r, f)
		entry(r, 1, "a")
		if err := r.AddNonvoter("2", "nowhere", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		if err := r.Snapshot().Error(); err != nil {
			t.Fatalf("snapshot while a configuration is newest: %v", err)
		}
		entry(r, 2, "b")
		want := dump(t, f.Image())
		if err := r.Shutdown().Error(); err != nil {
			t.Fatal(err)
		}

		g := newFSM(t, nil)
		r = start(g)
		<-r.LeaderCh()
		claim(r, g) // proves that everything before is applied
		if got := dump(t, g.Image()); got != want || g.Counters().Restores.Load() != 1 {
			t.Errorf("after the restart\n%s\nwant\n%s", got, want)
		}
		entry(r, 3, "c")
		if err := r.Shutdown().Error(); err != nil {
			t.Fatal(err)
		}
	})
}
