package raftnode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// lineages are those of a cluster's members; 0 if none is named. It is not changed while they run.
type lineages map[ServerID]int32

func (l lineages) of(cfg *Config) {
	id := cfg.ID
	cfg.Lineage = func() int32 { return l[id] }
}

// recovered makes a stopped member the only voter of a lineage.
func (c *cluster) recovered(m *member, l lineages, lineage int32) {
	c.t.Helper()
	if err := os.RemoveAll(m.dir); err != nil {
		c.t.Fatal(err)
	}
	m.fsm = &listFSM{}
	c.format(m, []Server{{ID: m.id, Address: m.address(), Voter: true}})
	l[m.id] = lineage
}

// isOut tells whether a member is superseded by a lineage, with a stopped library.
func isOut(m *member, lineage int32) bool {
	s := m.node.Superseded()
	return s != nil && s.Lineage == lineage && !s.Removed && m.node.State() == raft.Shutdown
}

// What a listener says to each pair of lineages, and what it takes from it.
func TestListenerJudgesLineages(t *testing.T) {
	h := func(lineage int32) hello {
		return hello{lineage: lineage, clusterID: testCluster, from: two.String(), to: one.String()}
	}
	removed := func(id ServerID) bool { return id == two }
	for name, at := range map[string]struct {
		h       hello
		own     int32
		out     *Superseded
		removed func(ServerID) bool
		want    verdict
		tells   int32
	}{
		"equal":                                {h: h(3), own: 3, want: accepted, tells: 3},
		"the sender is older":                  {h: h(2), own: 3, want: olderSender, tells: 3},
		"the listener is older":                {h: h(4), own: 3, want: superseded, tells: 3},
		"the sender has none":                  {h: h(NoLineage), own: 3, want: accepted, tells: 3},
		"the listener has none":                {h: h(3), own: NoLineage, want: accepted, tells: NoLineage},
		"older than what is only heard of":     {h: h(0), own: 0, out: &Superseded{Lineage: 1, Keep: true}, want: olderSender, tells: 1},
		"as new as what is only heard of":      {h: h(1), own: 0, out: &Superseded{Lineage: 1, Keep: true}, want: superseded, tells: 1},
		"a probe of one that is out":           {h: h(NoLineage), own: 0, out: &Superseded{Lineage: 1, Keep: true}, want: superseded, tells: 1},
		"a broker's word is not passed on":     {h: h(0), own: 0, out: &Superseded{Lineage: 1}, want: superseded, tells: 0},
		"the listener was removed":             {h: h(0), own: 0, out: &Superseded{Removed: true}, want: superseded, tells: 0},
		"the sender was removed":               {h: h(0), own: 0, removed: removed, want: removedSender, tells: 0},
		"the sender was removed and is older":  {h: h(0), own: 1, removed: removed, want: olderSender, tells: 1},
		"another cluster is told nothing":      {h: hello{clusterID: "B", from: two.String(), to: one.String()}, own: 1, want: wrongCluster, tells: NoLineage},
		"whoever errs in the id is told":       {h: hello{clusterID: testCluster, from: two.String(), to: three.String()}, own: 1, want: wrongNode, tells: 1},
		"and learns of what is only heard of":  {h: hello{clusterID: testCluster, from: two.String(), to: anew.String()}, out: &Superseded{Lineage: 7, Keep: true}, want: wrongDirectory, tells: 7},
		"garbage is told nothing":              {h: hello{clusterID: testCluster, from: "x", to: one.String()}, own: 1, want: malformed, tells: NoLineage},
		"a sender that was removed and probes": {h: hello{purpose: askOnly, clusterID: testCluster, from: two.String(), to: one.String()}, removed: removed, want: removedSender},
	} {
		l := &streamLayer{
			clusterID: testCluster, self: peerAddress{"n1:9292", one}, judge: judge, isRemoved: at.removed,
			lineage: func() int32 { return at.own }, superseded: func() *Superseded { return at.out },
		}
		if v, tells := l.judgeAll(at.h); v != at.want || tells != at.tells {
			t.Errorf("%s: %v, tells %d; want %v, %d", name, v, tells, at.want, at.tells)
		}
	}
}

// Two of three start again from their old directories while the third has begun a newer lineage. They hear it before they take part:
// nobody campaigns, votes or leads, and both say why. They still know when nobody can tell them any more.
func TestStartAsksForTheLineageBeforeItTakesPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		l := lineages{}
		c.tweak = l.of
		c.start()
		leader := c.leader()
		c.commit(leader, "of lineage 0")
		c.everybodyHas("of lineage 0", c.members...)
		term := leader.node.CurrentTerm()
		c.stop(c.members...)
		x, old := c.members[0], c.members[1:]
		c.recovered(x, l, 1)
		c.start(x)
		c.leader(x)
		c.start(old...)
		for _, m := range old {
			if !isOut(m, 1) {
				t.Fatalf("%v takes part: %v, %+v", m.id, m.node.State(), m.node.Superseded())
			}
		}
		<-time.After(20 * DefaultElectionTimeout)
		for _, m := range old {
			if got := m.node.CurrentTerm(); got != term || m.node.Leadership().Takeover > 0 {
				t.Errorf("%v is in term %d, was in %d, and led %d times", m.id, got, term, m.node.Leadership().Takeover)
			}
			for _, want := range []string{"lineage 1", "lineage 0", "quorate quorum add", "controller "} {
				if !strings.Contains(m.node.Superseded().Reason(m.id), want) {
					t.Errorf("its reason does not name %q: %s", want, m.node.Superseded().Reason(m.id))
				}
			}
		}
		c.commit(x, "of lineage 1")
		c.stop(c.members...)
		c.start(old...) // and nobody of the newer lineage runs
		<-time.After(20 * DefaultElectionTimeout)
		for _, m := range old {
			if !isOut(m, 1) || m.node.CurrentTerm() != term {
				t.Errorf("%v has forgotten it: %v in term %d", m.id, m.node.State(), m.node.CurrentTerm())
			}
		}
	})
}

// A start waits for voters that do not answer, at most a second, and not at all for those that are down.
func TestStartWaitsForSilentVotersOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		begin := time.Now()
		c.start(c.members[0])
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("beside two that are down the start took %v", took)
		}
		c.stop(c.members[0])
		c.start(c.members[1], c.members[2])
		leader := c.leader(c.members[1], c.members[2])
		c.network.Isolate(c.members[0].host)
		begin = time.Now()
		c.start(c.members[0])
		if took := time.Since(begin); took < startAskMax || took > startAskMax+100*time.Millisecond {
			t.Errorf("the start of one that is cut off took %v", took)
		}
		if c.members[0].node.Superseded() != nil || leader.node.State() != raft.Leader {
			t.Error("silence supersedes nobody")
		}
		c.network.HealAll()
		c.commit(leader, "together")
		c.everybodyHas("together", c.members...)
	})
}

// Old members that ran on, cut off, are told as soon as they reach anybody who knows: the leader by its own dialing, a follower by its
// watch, and the rest by them.
func TestOldMembersAreToldWhenTheyCanBeReached(t *testing.T) {
	for name, byLeader := range map[string]bool{"only the leader reaches it": true, "only a follower reaches it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				l := lineages{}
				c.tweak = l.of
				c.start()
				x := c.others(c.leader())[0]
				c.stop(x)
				c.network.Isolate(x.host)
				c.recovered(x, l, 1)
				c.start(x)
				old := c.others(x)
				leader := c.leader(old...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for _, m := range old {
					go m.node.Run(ctx)
				}
				c.commit(leader, "cut off: the inherent rest")
				c.network.HealAll()
				for _, m := range old {
					if (m == leader) != byLeader {
						c.network.Partition(m.host, x.host)
					}
				}
				for _, m := range old {
					until(t, 20*time.Second, "superseded", func() bool { return isOut(m, 1) })
				}
				if out := leader.node.Apply([]byte("lost")).Wait(); out.Fate == FateApplied {
					t.Error("the old leader commits")
				}
				if x.node.Superseded() != nil {
					t.Error("the newer one is superseded")
				}
			})
		})
	}
}

// What is kept is named for what it is, and a damaged file is refused.
func TestSupersededFile(t *testing.T) {
	files, dir := env.OS("").FS, t.TempDir()
	if s, err := readSuperseded(files, dir); s != nil || err != nil {
		t.Errorf("of an empty folder: %v, %v", s, err)
	}
	for content, ok := range map[string]bool{
		`{"lineage":2,"ownLineage":1,"removed":false,"saidBy":"controller 1"}`: true,
		`{"lineage":1,"ownLineage":1,"removed":true,"saidBy":"controller 1"}`:  true,
		`{"lineage":1,"ownLineage":1,"removed":false,"saidBy":"controller 1"}`: false,
		`{"lineage":0,"ownLineage":1,"removed":true,"saidBy":"controller 1"}`:  false,
		`{"lineage":2,"ownLineage":1}`:                                         false, ``: false, `{"lineage":`: false,
	} {
		if err := os.WriteFile(filepath.Join(dir, supersededFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSuperseded(files, dir); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), supersededFile) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// A node that cannot read whether it is superseded, or finds what another node has kept, does not start, and leaves nothing running.
func TestDamagedSupersededFileIsRefused(t *testing.T) {
	open, dir := stateOf(t, false)
	path := filepath.Join(dir, supersededFile)
	foreign := `{"lineage":2,"ownLineage":1,"removed":true,"saidBy":"controller 9","server":"` + two.String() + `"}`
	for _, content := range []string{`{"lin`, foreign} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var state *StateError
		if err := open(true); !errors.As(err, &state) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", content, err)
		}
	}
	if err := errors.Join(os.Remove(path), open(true)); err != nil {
		t.Errorf("without it: %v", err)
	}
}
