package raftnode

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// removals is what a cluster's members know of removed servers.
type removals struct {
	mu  sync.Mutex
	ids map[ServerID]bool
}

func (r *removals) add(id ServerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[id] = true
}

func (r *removals) has(id ServerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// A server that was removed while it was down comes back with its old directory: it is told so, dials nobody any more,
// and costs the members neither a term nor a leader.
func TestRemovedServerStaysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		defer c.close()
		gone := &removals{ids: map[ServerID]bool{}}
		c.tweak = func(cfg *Config) { cfg.Removed = gone.has }
		c.start()
		leader := c.leader()
		removed := c.others(leader)[0]
		c.stop(removed)

		gone.add(removed.id)
		c.start(removed)
		c.commit(leader, "recorded, still a member")
		c.everybodyHas("recorded, still a member", removed)
		if removed.node.Superseded() != nil {
			t.Error("a member was refused before it had left the configuration")
		}
		c.stop(removed)

		if err := leader.node.RemoveServer(t.Context(), removed.id, 0); err != nil {
			t.Fatal(err)
		}
		term := leader.node.CurrentTerm()
		<-time.After(15 * time.Second) // the library tries once more to tell it, after a pause of up to ten seconds
		c.start(removed)
		until(t, 30*time.Second, "the removed one is told", func() bool { s := removed.node.Superseded(); return s != nil && s.Removed })
		dials := removed.node.Metrics().DialsRefused.Load()
		<-time.After(20 * DefaultElectionTimeout)
		if got := removed.node.Metrics().DialsRefused.Load(); got > dials+3 {
			t.Errorf("it goes on dialing: %d refusals, %d when it was told", got, dials)
		}
		if leader.node.State() != raft.Leader || leader.node.CurrentTerm() != term {
			t.Errorf("the leader is %v in term %d, was in %d", leader.node.State(), leader.node.CurrentTerm(), term)
		}
		c.commit(leader, "undisturbed")
		for _, want := range []string{"removed from the quorum", "quorate quorum add", removed.id.String()} {
			if !strings.Contains(removed.log.String(), want) {
				t.Errorf("its log does not name %q", want)
			}
		}
		counted := false
		for _, m := range c.others(removed) {
			counted = counted || m.node.Metrics().Handshakes[removedSender].Load() > 0
		}
		if !counted {
			t.Error("not counted")
		}
	})
}

// A probe tells who listens at an address.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		joiner := c.newMember(2, "first disk of 2")
		c.members = append(c.members, joiner)
		c.start()
		leader := c.leader(c.members[0])
		probe := func(id ServerID, address string) string {
			var refused *HandshakeRefusedError
			switch err := leader.node.Probe(id, address, time.Second); {
			case err == nil:
				return "accepted"
			case errors.As(err, &refused):
				return refused.Reason
			default:
				return "no answer"
			}
		}
		for _, at := range []struct {
			id      ServerID
			address string
			want    string
		}{
			{joiner.id, joiner.address(), "accepted"},
			{ServerID{2, directoryID("other disk")}, joiner.address(), "wrong_directory"},
			{ServerID{3, directoryID("three")}, joiner.address(), "wrong_node"},
			{joiner.id, leader.address(), "wrong_node"},
			{joiner.id, "n9:9292", "no answer"},
		} {
			if got := probe(at.id, at.address); got != at.want {
				t.Errorf("%v at %s: %s, want %s", at.id, at.address, got, at.want)
			}
		}
		if err := leader.node.Probe(ServerID{2, "x"}, joiner.address(), time.Second); err == nil {
			t.Error("a malformed directory id was taken")
		}
		c.network.Isolate(joiner.host)
		if got := probe(joiner.id, joiner.address()); got != "no answer" {
			t.Errorf("cut off: %s", got)
		}
	})
}

// The leader knows how far each follower is, in the present term only.
func TestProgressOfFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		near, far := c.others(leader)[0], c.others(leader)[1]
		match := func(m *member) uint64 { p, _ := leader.node.Progress(m.id); return p.Match }
		until(t, 5*time.Second, "both are level", func() bool {
			return match(near) == leader.node.LastIndex() && match(far) == leader.node.LastIndex()
		})
		c.network.Isolate(far.host)
		at := match(far)
		c.commit(leader, "for one")
		until(t, 5*time.Second, "the near one is level", func() bool { return match(near) == leader.node.LastIndex() })
		<-time.After(time.Second)
		p, ok := leader.node.Progress(far.id)
		if !ok || p.Match != at || p.Contact < time.Second {
			t.Errorf("the far one: %+v, %v, was at %d", p, ok, at)
		}
		if p, _ := leader.node.Progress(near.id); p.Contact > DefaultElectionTimeout {
			t.Errorf("the near one was heard %v ago", p.Contact)
		}
		c.network.Isolate(leader.host)
		c.network.Heal(far.host, "*")
		c.network.Heal("*", far.host)
		next := c.leader(near, far)
		if _, ok := next.node.Progress(leader.id); ok {
			t.Error("something is known of a server that was not heard in this term")
		}
		if _, ok := near.node.Progress(ServerID{9, directoryID("nine")}); ok {
			t.Error("something is known of a stranger")
		}
	})
}

// Suite 6: a target that hangs just when leadership is to be handed to it. The message is given up within an election
// time-out, so that proposals are refused for less time than a claim may be refused.
func TestTransferToATargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		target := c.others(leader)[0]
		until(t, 5*time.Second, "the target is level", func() bool {
			p, _ := leader.node.Progress(target.id)
			return p.Match == leader.node.LastIndex()
		})
		c.network.Isolate(target.host) // its connections stay open
		start := time.Now()
		if err := leader.node.TransferLeadershipTo(t.Context(), target.id, target.address()); err == nil {
			t.Fatal("the transfer succeeded")
		}
		until(t, 5*time.Second, "an entry is accepted again", func() bool {
			return leader.node.Apply([]byte("again")).Wait().Fate == FateApplied
		})
		if took := time.Since(start); took > 2*DefaultElectionTimeout+100*time.Millisecond {
			t.Errorf("proposals were refused for %v", took)
		}
	})
}
