package raftnode

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env/envtest"
)

// logged are the data of the entries in a member's log.
func logged(t *testing.T, m *member) []string {
	t.Helper()
	first, err := m.node.stores.log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := m.node.stores.log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := first; i > 0 && i <= last; i++ {
		var entry raft.Log
		if err := m.node.ReadLog(i, &entry); err != nil {
			t.Fatalf("index %d of %d to %d: %v", i, first, last, err)
		}
		all = append(all, string(entry.Data))
	}
	return all
}

func (f *listFSM) all() []applied {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.entries)
}

// diverge cuts the leader off, gives it a tail that nobody else has, and commits and takes snapshots on the others.
func diverge(c *cluster, tail int) (cut, leader *member) {
	c.t.Helper()
	cut = c.leader()
	c.commit(cut, "common")
	c.everybodyHas("common", c.members...)
	before := cut.node.LastIndex()
	c.network.Isolate(cut.host)
	for i := range tail {
		cut.node.Apply(fmt.Append(nil, "lost ", i))
	}
	until(c.t, time.Second, "the tail is in the log", func() bool { return cut.node.LastIndex() >= before+uint64(tail) })
	others := c.others(cut)
	leader = c.leader(others...)
	for i := range 20 {
		c.commit(leader, fmt.Sprint("kept ", i))
	}
	c.everybodyHas("kept 19", others...)
	for _, m := range others {
		if err := m.node.Snapshot(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	// What was sent to it before the others compacted is lost, else it would arrive and clear the tail.
	for _, m := range others {
		c.network.Sever(cut.host, m.host)
	}
	<-time.After(2 * DefaultRPCTimeout)
	return cut, leader
}

// sameEverywhere expects one history on all members and nothing of the lost tail in any log.
func sameEverywhere(c *cluster) {
	c.t.Helper()
	want := c.members[0].fsm.all()
	for _, m := range c.members {
		until(c.t, 20*time.Second, fmt.Sprintf("%v is equal", m.id), func() bool { return slices.Equal(m.fsm.all(), want) })
		for _, data := range logged(c.t, m) {
			if strings.HasPrefix(data, "lost") {
				c.t.Errorf("%v still has %q", m.id, data)
			}
		}
		select {
		case err := <-m.fatal:
			c.t.Errorf("fatal on %v: %v", m.id, err)
		default:
		}
	}
}

// S6: a leader is cut off with entries of its own; the others commit and compact; then it must follow a snapshot. Its tail
// is longer than the snapshot, ends before it, or is none.
func TestSnapshotOverADivergentTail(t *testing.T) {
	for _, at := range []struct {
		name    string
		tail    int
		control func(n *Node, index, term uint64) error
	}{
		{"longer", 60, nil},
		{"shorter", 5, nil},
		{"none", 0, nil},
		{"control: log is kept", 60, func(*Node, uint64, uint64) error { return nil }},
		{"control: the library's memory is kept", 60, func(n *Node, _, _ uint64) error {
			return n.stores.log.DeleteRange(0, n.LastIndex())
		}},
	} {
		for round := range 3 {
			t.Run(fmt.Sprint(at.name, " ", round), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, 3)
					defer c.close()
					c.tweak = func(cfg *Config) { cfg.TrailingEntries = 1 }
					if at.control != nil {
						c.prepare = func(n *Node) { n.parts.installed = at.control }
					}
					c.start()
					cut, _ := diverge(c, at.tail)
					c.network.HealAll()
					if at.control != nil {
						c.commit(c.leader(c.others(cut)...), "behind")
						if eventually(time.Second, func() bool { return cut.fsm.has("behind") }) {
							t.Error("the control does not show the fault any more: the follower follows")
						}
						return
					}
					leader := c.leader()
					for i := range 200 { // beyond the end of the old tail, and beyond one append
						c.commit(leader, fmt.Sprint("after ", i))
					}
					c.everybodyHas("after 199", c.members...)
					sameEverywhere(c)
					if m := cut.node.Metrics(); m.SnapshotsTaken.Load() != 1 || m.LogCuts.Load() != 1 {
						t.Errorf("%d snapshots were installed, the log was cut %d times, want 1 and 1", m.SnapshotsTaken.Load(), m.LogCuts.Load())
					}
					// What it holds now is good enough to lead from.
					c.network.Isolate(leader.host)
					rest := c.others(leader)
					c.commit(c.leader(rest...), "without the old leader")
					c.everybodyHas("without the old leader", rest...)
					c.network.HealAll()
					c.everybodyHas("without the old leader", leader)
					c.commit(c.leader(), "end")
					c.everybodyHas("end", c.members...)
					sameEverywhere(c)
				})
			})
			if at.control != nil {
				break
			}
		}
	}
}

// A crash after the snapshot's last write and before the log was cut: the next start cuts it.
func TestCrashBeforeTheLogIsCut(t *testing.T) {
	for _, tail := range []int{60, 5} {
		t.Run(fmt.Sprint("tail ", tail), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				var crashing atomic.Pointer[member]
				died := make(chan error, 1)
				c.tweak = func(cfg *Config) {
					cfg.TrailingEntries = 1
					dir := cfg.Dir
					cfg.Env.Hook = func(point string) {
						if m := crashing.Load(); point == PointSnapshotDone && m != nil && m.dir == dir && crashing.CompareAndSwap(m, nil) {
							died <- os.CopyFS(dir+" of the crash", os.DirFS(dir))
						}
					}
				}
				c.start()
				cut, _ := diverge(c, tail)
				crashing.Store(cut)
				c.network.HealAll()
				if err := <-died; err != nil {
					t.Fatal(err)
				}
				c.stop(cut)
				cut.dir += " of the crash"
				cut.fsm = &listFSM{}
				c.network.Isolate(cut.host)
				c.start(cut)
				if left := logged(t, cut); len(left) > 0 || cut.node.Metrics().LogCuts.Load() != 1 || !cut.fsm.has("kept 19") {
					t.Errorf("%d entries are left after the start, %d cuts", len(left), cut.node.Metrics().LogCuts.Load())
				}
				c.network.HealAll()
				c.commit(c.leader(), "end")
				c.everybodyHas("end", c.members...)
				sameEverywhere(c)
			})
		})
	}
}

// A snapshot of the node's own state is never compared with the log, and the next start finds nothing to cut.
func TestOwnSnapshotsNeverCutTheLog(t *testing.T) {
	for _, trailing := range []uint64{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			defer c.close()
			c.tweak = func(cfg *Config) { cfg.TrailingEntries = trailing }
			c.prepare = func(n *Node) {
				n.parts.installed = func(_ *Node, index, _ uint64) error {
					t.Errorf("own snapshot up to %d taken for a leader's", index)
					return nil
				}
			}
			c.start()
			leader := c.leader()
			for i := range 30 {
				c.commit(leader, fmt.Sprint("entry ", i))
			}
			c.everybodyHas("entry 29", c.members...)
			for range 2 {
				for _, m := range c.members {
					if err := m.node.Snapshot(t.Context()); err != nil {
						t.Error(err)
					}
				}
				c.commit(leader, "behind")
				c.everybodyHas("behind", c.members...)
				<-time.After(time.Second) // a snapshot's name is its index and millisecond
			}
			c.everybodyHas("behind", c.members...)
			c.stop(c.members...)
			c.start()
			c.commit(c.leader(), "end")
			c.everybodyHas("end", c.members...)
			for _, m := range c.members {
				if n := m.node.Metrics().LogCuts.Load(); n != 0 {
					t.Errorf("%v has cut its log %d times", m.id, n)
				}
			}
			sameEverywhere(c)
		})
	}
}

// What leaves a log, for every place of a snapshot beside it: nothing that the snapshot does not hold or contradict.
func TestPlanCut(t *testing.T) {
	for _, at := range []struct {
		name        string
		first, last uint64 // of the log, all of term 3
		hole        uint64 // not in the log
		index, term uint64
		want        cut
	}{
		{"empty log", 0, 0, 0, 25, 5, cut{}},
		{"same entry", 10, 62, 0, 25, 3, cut{}},
		{"same entry, the last", 10, 25, 0, 25, 3, cut{}},
		{"same entry, the first", 25, 62, 0, 25, 3, cut{}},
		{"other term", 10, 62, 0, 25, 5, cut{10, 62, true}},
		{"other term, the last", 10, 25, 0, 25, 5, cut{10, 25, true}},
		{"other term, the first", 25, 62, 0, 25, 5, cut{25, 62, true}},
		{"ends before", 10, 20, 0, 25, 5, cut{10, 20, true}},
		{"begins behind", 26, 62, 0, 25, 5, cut{}},
		{"begins behind, same term", 26, 62, 0, 25, 3, cut{}},
		{"hole", 10, 62, 25, 25, 5, cut{10, 25, false}},
	} {
		st := testStores(t, envtest.NewFaults(), noFatal(t))
		for i := at.first; i > 0 && i <= at.last; i++ {
			if i == at.hole {
				continue
			}
			if err := st.log.StoreLog(&raft.Log{Index: i, Term: 3}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := planCut(st.log, at.index, at.term); err != nil || got != at.want {
			t.Errorf("%s: %+v, %v, want %+v", at.name, got, err, at.want)
		}
	}
}

// A snapshot that comes late, behind what was applied here, cuts nothing, whatever it says.
func TestLateSnapshotCutsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		leader := c.leader()
		c.commit(leader, "kept")
		before := logged(t, leader)
		if err := leader.node.cutForInstalled(leader.node.running().AppliedIndex(), 99); err != nil {
			t.Fatal(err)
		}
		if after := logged(t, leader); !slices.Equal(before, after) {
			t.Errorf("log %q, want %q", after, before)
		}
	})
}
