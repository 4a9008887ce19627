package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestClusterElectsCommitsAndFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		first := c.leader()
		c.commit(first, "one")
		c.everybodyHas("one", c.members...)
		for _, m := range c.members {
			id, address, ok := m.node.Leader()
			if !ok || id != first.id || address != first.address() {
				t.Errorf("%v knows leader %v at %q, %v; want %v at %q", m.id, id, address, ok, first.id, first.address())
			}
			if _, ok := m.node.LastContact(); !ok {
				t.Errorf("%v has no contact", m.id)
			}
		}

		took := first.node.Leadership().Takeover
		c.network.Isolate(first.host)
		second := c.leader(c.others(first)...)
		c.commit(second, "two")
		until(t, time.Second, "the old leader hears of its loss", func() bool { return !first.node.Leadership().Leader })
		c.network.HealAll()
		c.everybodyHas("two", c.members...)
		if now := first.node.Leadership().Takeover; now != took {
			t.Errorf("take-overs of the old leader went from %d to %d", took, now)
		}
	})
}

func TestRestartKeepsTermVoteAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		for i := range 20 {
			c.commit(leader, fmt.Sprint("entry ", i))
		}
		term := leader.node.CurrentTerm()
		c.stop(c.members...)
		for _, m := range c.members {
			m.fsm.entries = nil
		}
		c.start()
		next := c.leader()
		c.everybodyHas("entry 19", c.members...)
		if got := next.node.CurrentTerm(); got <= term {
			t.Errorf("term after the restart is %d, was %d", got, term)
		}
	})
}

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

func TestMembershipAndTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		fourth := c.newMember(4, "first disk of 4")
		c.members = append(c.members, fourth)
		c.start(fourth)

		conf, err := leader.node.GetConfiguration()
		if err != nil || len(conf.Servers) != 3 {
			t.Fatalf("configuration: %+v, %v", conf, err)
		}
		if err := leader.node.AddNonvoter(t.Context(), fourth.id, fourth.address(), conf.Index); err != nil {
			t.Fatal(err)
		}
		if err := leader.node.AddVoter(t.Context(), fourth.id, fourth.address(), conf.Index); err == nil {
			t.Fatal("a change decided on an old configuration was taken")
		}
		c.commit(leader, "for four")
		c.everybodyHas("for four", fourth)
		if err := leader.node.AddVoter(t.Context(), fourth.id, fourth.address(), 0); err != nil {
			t.Fatal(err)
		}
		if err := leader.node.TransferLeadershipTo(t.Context(), fourth.id, fourth.address()); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the fourth leads", func() bool { return fourth.node.Leadership().Leader })
		c.leader(fourth)
		c.commit(fourth, "before the removal") // the library tells a removed server once, if it is not behind
		c.everybodyHas("before the removal", leader)
		if err := fourth.node.RemoveServer(t.Context(), leader.id, 0); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the removed one hears of it", func() bool {
			conf, _ := leader.node.GetConfiguration()
			return len(conf.Servers) == 3
		})
		c.stop(c.members...)
		conf, err = ReadConfiguration(env.OS(""), fourth.dir)
		if err != nil || len(conf.Servers) != 3 {
			t.Errorf("configuration on disk: %+v, %v", conf, err)
		}
	})
}

func TestBootstrapRefusesWhatItShould(t *testing.T) {
	dir := t.TempDir()
	one := Server{ID: ServerID{1, directoryID("1")}, Address: "n1:1", Voter: true}
	twice := Server{ID: ServerID{1, directoryID("2")}, Address: "n2:1", Voter: true}
	if err := Bootstrap(env.OS(""), dir, nil); err == nil {
		t.Error("no servers: taken")
	}
	if err := Bootstrap(env.OS(""), dir, []Server{one, twice}); err == nil || !strings.Contains(err.Error(), "node 1 twice") {
		t.Errorf("a node twice: %v", err)
	}
	if err := Bootstrap(env.OS(""), dir, []Server{one}); err != nil {
		t.Fatal(err)
	}
	if err := Bootstrap(env.OS(""), dir, []Server{one}); !errors.Is(err, raft.ErrCantBootstrap) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := ReadConfiguration(env.OS(""), t.TempDir()); err == nil {
		t.Error("configuration of an empty directory")
	}
}

// Suite 5: shutdown under a full queue leaves no waiter: each proposal that was made has an outcome. The main loop is stuck in a
// write until the shutdown has begun, so that it ends with proposals before it that it has never seen (hashicorp/raft
// GH-498). The bubble's end and goleak hold the rest.
func TestShutdownUnderAFullQueueLeavesNoWaiter(t *testing.T) {
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				c.tweak = func(cfg *Config) { cfg.StoreTimeout = time.Hour }
				c.start()
				leader := c.leader()
				hang := make(chan struct{})
				leader.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
				const submitters, each = 8, 60
				outcomes := make(chan Outcome, submitters*each)
				var made atomic.Int64
				var waiting sync.WaitGroup
				waiter := leader.node.StartWaiter(submitters * each)
				for s := range submitters {
					waiting.Go(func() {
						for i := range each {
							p := leader.node.Apply(fmt.Appendf(nil, "%d %d", s, i))
							made.Add(1)
							if s%2 == 0 {
								waiter.Add(p)
								continue
							}
							waiting.Go(func() { outcomes <- p.Wait() })
						}
					})
				}
				waiting.Go(func() {
					for {
						select {
						case <-waiter.Outcomes():
						case <-leader.node.Stopped():
							return
						}
					}
				})
				synctest.Wait()
				if n := made.Load(); n == submitters*each || n < DefaultMaxAppendEntries {
					t.Fatalf("%d of %d proposals were taken: the queue is not full", n, submitters*each)
				}
				time.AfterFunc(10*time.Millisecond, func() { close(hang) })
				c.stop(leader)
				waiting.Wait()
				close(outcomes)
				told := 0
				for out := range outcomes {
					told++
					if out.Fate == FateNotInLog && out.Index != 0 || out.Fate != FateNotInLog && out.Index == 0 {
						t.Errorf("fate %v at index %d: %v", out.Fate, out.Index, out.Err)
					}
				}
				if told != submitters/2*each {
					t.Errorf("%d outcomes of %d", told, submitters/2*each)
				}
			})
		})
	}
}

// The library's futures of Apply must have the channel that bindFuture sets, else waiters would hang.
func TestFuturesOfApplyCanBeBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		m := c.leader()
		stopped := make(chan struct{})
		r := m.node.running()
		for name, f := range map[string]raft.Future{
			"Apply": r.Apply([]byte("x"), 0), "AddNonvoter": r.AddNonvoter("9", "n9:1", 0, 0), "Snapshot": r.Snapshot(),
			"LeadershipTransfer": r.LeadershipTransfer(),
		} {
			if !bindFuture(f, stopped) {
				t.Errorf("%s: %T has no ShutdownCh", name, f)
			}
			f.Error()
		}
	})
}

func TestFateOf(t *testing.T) {
	raw := errors.New("disk")
	for _, at := range []struct {
		err   error
		index uint64
		want  Fate
	}{
		{nil, 7, FateApplied},
		{raft.ErrNotLeader, 0, FateNotInLog},
		{raft.ErrLeadershipTransferInProgress, 0, FateNotInLog},
		{raft.ErrEnqueueTimeout, 0, FateNotInLog},
		{raft.ErrRaftShutdown, 0, FateNotInLog},
		{raft.ErrRaftShutdown, 7, FateUnknown},
		{raft.ErrLeadershipLost, 7, FateUnknown},
		{raft.ErrAbortedByRestore, 7, FateSuperseded},
		{raw, 7, FateUnknown},
	} {
		if got := fateOf(at.err, at.index); got != at.want {
			t.Errorf("%v at index %d: %v, want %v", at.err, at.index, got, at.want)
		}
	}
}

func TestOpenRefusesAUsedDirectoryAndATakenPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		other := c.newMember(2, "other")
		other.dir = c.members[0].dir
		if err := New(c.config(other)).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("a directory in use: %v", err)
		}
		other.dir = t.TempDir()
		other.host = c.members[0].host
		if err := New(c.config(other)).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "RAFT listener") {
			t.Errorf("a taken port: %v", err)
		}
	})
}

// Suite 6: a transfer to a server that cannot answer fails, proposals are refused meanwhile and accepted afterwards, in the
// same term. That is why entries are fenced where they are applied.
func TestTransferToAStuckTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		target := c.others(leader)[0]
		c.network.Isolate(target.host)
		c.commit(leader, "target is behind")
		term := leader.node.CurrentTerm()
		done := make(chan error)
		go func() { done <- leader.node.TransferLeadershipTo(t.Context(), target.id, target.address()) }()
		synctest.Wait()
		if out := leader.node.Apply([]byte("during")).Wait(); out.Fate != FateNotInLog {
			t.Errorf("during the transfer: %v, %v", out.Fate, out.Err)
		}
		if err := <-done; err == nil {
			t.Error("the transfer succeeded")
		}
		c.leader(leader)
		if got := leader.node.CurrentTerm(); got != term {
			t.Errorf("term went from %d to %d", term, got)
		}
	})
}

func TestTransferIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		hang := make(chan struct{})
		defer close(hang)
		leader.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
		leader.node.Apply([]byte("main loop hangs"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leader.node.TransferLeadership(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("transfer: %v", err)
		}
	})
}

// A main loop that hangs: Close gives up in time, says so, and nobody waits for a proposal.
func TestCloseGivesUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.StoreTimeout, cfg.ShutdownTimeout = time.Hour, 3*time.Second }
		c.start()
		m := c.leader()
		hang := make(chan struct{})
		m.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
		p := m.node.Apply([]byte("hangs"))
		outcome := make(chan Outcome, 1)
		go func() { outcome <- p.Wait() }()
		synctest.Wait()
		start := time.Now()
		if err := m.node.Close(); !errors.Is(err, ErrShutdownLate) || time.Since(start) != 3*time.Second {
			t.Errorf("close: %v after %v", err, time.Since(start))
		}
		if out := <-outcome; out.Fate != FateUnknown {
			t.Errorf("fate: %v", out.Fate)
		}
		m.opened = false
		close(hang) // in production the process has ended
		<-time.After(time.Second)
		m.node.transport.closeAll()
		m.node.stores.close()
	})
}

// F22: "leader" twice is two take-overs, also when "not leader" was never seen, and however slow the reader is.
func TestEachNoticeOfLeadershipIsATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership()
		metrics := new(Metrics)
		go l.run(metrics)
		for range 10 * notifyQueue { // nobody reads the signal; the library must not block
			l.notices <- true
		}
		synctest.Wait()
		if got := l.current(); got != (Leadership{Leader: true, Takeover: 10 * notifyQueue}) || metrics.Takeovers.Load() != got.Takeover {
			t.Errorf("leadership: %+v", got)
		}
		<-l.changed
		select {
		case <-l.changed:
			t.Error("a second signal without a change")
		default:
		}
		l.notices <- false
		<-l.changed
		if l.current().Leader {
			t.Error("still leader")
		}
		l.notices <- true
		synctest.Wait()
		l.close()
		if l.current().Leader {
			t.Error("leader after close")
		}
	})
}

func TestMandatorySettings(t *testing.T) {
	cfg := Config{ID: one, Env: env.OS(""), Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	rc := cfg.raftConfig(nil)
	if rc.RestoreCommittedLogs || rc.PreVoteDisabled || rc.ShutdownOnRemove || !rc.BatchApplyCh || !rc.NoLegacyTelemetry {
		t.Errorf("a switch is wrong: %+v", rc)
	}
	if rc.HeartbeatTimeout != 300*time.Millisecond || rc.ElectionTimeout != rc.HeartbeatTimeout || rc.LeaderLeaseTimeout != rc.HeartbeatTimeout {
		t.Errorf("times: %v %v %v", rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout)
	}
	if rc.CommitTimeout != 10*time.Millisecond || rc.MaxAppendEntries != 128 || rc.SnapshotThreshold != 8192 || rc.TrailingLogs != 20000 {
		t.Errorf("numbers: %+v", rc)
	}
	if err := raft.ValidateConfig(rc); err != nil {
		t.Error(err)
	}
	tc := networkTransportConfig(nil, nil, cfg.RPCTimeout, nil)
	if tc.MaxRPCsInFlight != 1 || tc.MaxPool != 3 || tc.Timeout != 2*time.Second {
		t.Errorf("transport: %+v", tc)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	good := Config{
		Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, Fatal: func(error) {},
		ClusterID: testCluster, ID: one, Dir: "d", ListenAddress: ":9292",
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Config){
		"Env": func(c *Config) { c.Env = nil }, "Logger": func(c *Config) { c.Logger = nil }, "FSM": func(c *Config) { c.FSM = nil },
		"Fatal": func(c *Config) { c.Fatal = nil }, "ClusterID": func(c *Config) { c.ClusterID = "" }, "Dir": func(c *Config) { c.Dir = "" },
		"ID": func(c *Config) { c.ID.DirectoryID = "short" }, "ListenAddress": func(c *Config) { c.ListenAddress = "x" },
		"AdvertisedAddress": func(c *Config) { c.AdvertisedAddress = "x" }, "ElectionTimeout": func(c *Config) { c.ElectionTimeout = 1 },
		"CommitTimeout": func(c *Config) { c.CommitTimeout = 1 }, "RPCTimeout": func(c *Config) { c.RPCTimeout = -1 },
		"SnapshotInterval": func(c *Config) { c.SnapshotInterval = 1 }, "StoreTimeout": func(c *Config) { c.StoreTimeout = 1 },
		"ShutdownTimeout": func(c *Config) { c.ShutdownTimeout = -1 }, "MaxAppendEntries": func(c *Config) { c.MaxAppendEntries = 1025 },
		"CacheEntries": func(c *Config) { c.CacheEntries = -1 }, "CacheBytes": func(c *Config) { c.CacheBytes = -1 },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "raftnode: "+field) {
			t.Errorf("%s: %v", field, err)
		}
		if err := New(c).Open(t.Context()); err == nil {
			t.Errorf("%s: opened", field)
		}
	}
}

func TestLibraryLinesGoToSlog(t *testing.T) {
	var log logBuffer
	l := newHCLog(slog.New(slog.NewTextHandler(&log, nil)), env.OS("").Clock).With("with", 1).Named("part")
	l.Debug("hidden")
	l.Warn("shown", "servers", hclog.Fmt("%+v", []int{1, 2}))
	l.Error("bad")
	l.StandardLogger(nil).Print("printed")
	for _, want := range []string{`level=WARN msg=shown library=raft.part with=1 servers="[1 2]"`, "level=ERROR msg=bad", "msg=printed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hidden") || l.IsDebug() || !l.IsInfo() || l.GetLevel() != hclog.Info {
		t.Error("levels")
	}
}
