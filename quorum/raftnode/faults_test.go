package raftnode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env/envtest"
)

// header is that of a crafted message.
func header(from *member) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(from.id.String()), Addr: []byte(peerAddress{from.address(), from.id}.String())}
}

// termOf finds an entry in a node's log.
func termOf(t *testing.T, n *Node, data string) (term uint64, found bool) {
	t.Helper()
	for i := uint64(1); i <= n.LastIndex(); i++ {
		var entry raft.Log
		if err := n.ReadLog(i, &entry); err != nil {
			t.Fatal(err)
		}
		if string(entry.Data) == data {
			return entry.Term, true
		}
	}
	return 0, false
}

// S1: one heartbeat of a higher term over the real transport, then an Apply. With the library's fast path the entry
// bears the new leader's term: logs diverge. Without it, it is refused.
func TestHeartbeatOfAHigherTermThenApply(t *testing.T) {
	const newTerm = 1000
	for name, fastPath := range map[string]bool{"wrapper": false, "control: fast path": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1)
				defer c.close()
				c.prepare = func(n *Node) {
					if fastPath {
						n.parts.transport = func(t *transport) raft.Transport { return t.NetworkTransport }
					}
				}
				c.start()
				leader := c.leader()
				rival := c.newMember(2, "rival")
				peer := c.rawPeer(rival, c.servers())
				defer peer.closeAll()

				beat := &raft.AppendEntriesRequest{RPCHeader: header(rival), Term: newTerm}
				if err := peer.AppendEntries(leader.id.Raft(), "", beat, new(raft.AppendEntriesResponse)); err != nil {
					t.Fatal(err)
				}
				out := leader.node.Apply([]byte("mine")).Wait()
				term, inLog := termOf(t, leader.node, "mine")
				if fastPath && (!inLog || term != newTerm) {
					t.Errorf("the control does not show the fault any more: in log %v, term %d; the wrapper may be dropped", inLog, term)
				}
				if !fastPath && (inLog || out.Fate != FateNotInLog) {
					t.Errorf("in log %v with term %d, fate %v: %v", inLog, term, out.Fate, out.Err)
				}
			})
		})
	}
}

func TestTransportKeepsPreVoteAndHasNoPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		peer := c.rawPeer(c.newMember(2, "peer"), c.servers())
		defer peer.closeAll()
		if _, err := peer.AppendEntriesPipeline(c.members[0].id.Raft(), ""); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
			t.Errorf("pipeline: %v", err)
		}
		c.start()
		if strings.Contains(c.members[0].log.String(), "pre-vote is disabled") {
			t.Error("pre-vote is lost")
		}
	})
}

// S2: a follower's store fails for 30 ms under load; it must catch up. (In production the watchdog ends the process; here
// Fatal only tells.)
func TestFollowerCatchesUpAfterAStoreError(t *testing.T) {
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				c.start()
				leader := c.leader()
				follower := c.others(leader)[round%2]
				end := time.Now().Add(100 * time.Millisecond)
				remove := func() {}
				for i := 0; time.Now().Before(end); i++ {
					if i == 20 {
						remove = follower.faults.Add(envtest.Rule{Kind: string(CallStoreLogs)})
						time.AfterFunc(30*time.Millisecond, func() { remove() })
					}
					leader.node.Apply(fmt.Append(nil, i))
					<-time.After(time.Millisecond)
				}
				if follower.faults.Hits() == 0 {
					t.Fatal("no write failed")
				}
				if err := <-follower.fatal; !errors.Is(err, ErrStoreFailed) {
					t.Errorf("fatal: %v", err)
				}
				c.commit(c.leader(), "last")
				c.everybodyHas("last", follower)
			})
		})
	}
}

// S4: the leader's disk hangs. The process ends, and the others elect. Without the watchdog nobody would: heartbeats
// leave from other goroutines.
func TestLeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	const limit = time.Second
	t.Run("watchdog", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			defer c.close()
			c.tweak = func(cfg *Config) { cfg.StoreTimeout = limit }
			c.start()
			leader := c.leader()
			hang := make(chan struct{})
			defer close(hang)
			leader.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
			start := time.Now()
			leader.node.Apply([]byte("hangs"))
			err := <-leader.fatal
			if !errors.Is(err, ErrStoreHangs) || time.Since(start) > limit+2*watchdogTick {
				t.Fatalf("fatal after %v: %v", time.Since(start), err)
			}
			c.network.Down(leader.host) // the process ends
			died := time.Now()
			c.leader(c.others(leader)...)
			if took := time.Since(died); took > 4*DefaultElectionTimeout {
				t.Errorf("new leader after %v", took)
			}
		})
	})
	t.Run("control: no watchdog", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			defer c.close()
			c.tweak = func(cfg *Config) { cfg.StoreTimeout = time.Hour }
			c.start()
			leader := c.leader()
			hang := make(chan struct{})
			defer close(hang)
			leader.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
			leader.node.Apply([]byte("hangs"))
			if eventually(20*DefaultElectionTimeout, func() bool {
				for _, m := range c.others(leader) {
					if m.node.State() == raft.Leader {
						return true
					}
				}
				return false
			}) {
				t.Error("the control does not show the fault any more: somebody was elected")
			}
		})
	})
}

// naiveStable writes as the library asks, one key at a time, and can crash before the candidate.
type naiveStable struct {
	*voteStore
	faults *envtest.Faults
}

func (s naiveStable) SetUint64(key []byte, value uint64) error {
	return s.file.set(pair{key, uint64Bytes(value)})
}

func (s naiveStable) Set(key, value []byte) error {
	if err := s.faults.Call("candidate", ""); err != nil {
		return err
	}
	return s.file.set(pair{key, value})
}

// S3: a crash between the two writes of a vote. Without the wrapper, the node then grants the term to the candidate of
// the vote before, whose log is behind.
func TestCrashBetweenTheWritesOfAVote(t *testing.T) {
	for name, naive := range map[string]bool{"wrapper": false, "control: two writes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				voter, a, b := c.members[0], c.members[1], c.members[2]
				c.prepare = func(n *Node) {
					if naive {
						n.parts.stable = func(s *voteStore) raft.StableStore { return naiveStable{s, voter.faults} }
					}
				}
				c.start(voter)
				granted := func(candidate *member, term, lastIndex, lastTerm uint64) bool {
					peer := c.rawPeer(candidate, c.servers())
					defer peer.closeAll()
					req := &raft.RequestVoteRequest{RPCHeader: header(candidate), Term: term, LastLogIndex: lastIndex, LastLogTerm: lastTerm}
					var resp raft.RequestVoteResponse
					if err := peer.RequestVote(voter.id.Raft(), "", req, &resp); err != nil {
						t.Fatal(err)
					}
					return resp.Granted
				}
				if !granted(a, 5, 1, 1) {
					t.Fatal("a's first request was refused")
				}
				if granted(b, 4, 1, 1) || granted(b, 5, 1, 1) {
					t.Fatal("a second vote in one term, or one in an old term")
				}
				kind := string(CallStableVote)
				if naive {
					kind = "candidate"
				}
				remove := voter.faults.Add(envtest.Rule{Kind: kind})
				if granted(b, 6, 1, 1) {
					t.Fatal("granted without a write")
				}
				remove()
				c.stop(voter)
				c.start(voter)
				if got := granted(a, 6, 0, 0); got != naive {
					t.Errorf("a candidate with a stale log was granted the vote: %v", got)
				}
			})
		})
	}
}

// Identity: three voters; one is down, another is wiped and formatted anew under its node id, with a new directory id, and
// started at its old address. The wiped one must not help the third to a majority: it has forgotten what it acknowledged.
func TestWipedVoterDoesNotCount(t *testing.T) {
	for name, at := range map[string]struct{ handshake, initial bool }{
		"handshake, formatted empty":                    {handshake: true},
		"handshake, formatted with initial controllers": {handshake: true, initial: true},
		"control: no handshake":                         {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				if !at.handshake {
					c.prepare = func(n *Node) { n.parts.judge = func(hello, string, ServerID) verdict { return accepted } }
				}
				c.start()
				leader := c.leader()
				c.commit(leader, "acknowledged")
				survivor, gone, wiped := c.members[0], c.members[1], c.members[2]
				c.everybodyHas("acknowledged", survivor)
				c.stop(c.members...)
				anew := c.newMember(wiped.id.NodeID, "second disk of 3")
				c.members = []*member{survivor, gone, anew}
				if at.initial {
					c.format(anew, c.servers())
				}
				c.start(survivor, anew)

				elected := eventually(30*DefaultElectionTimeout, func() bool {
					return survivor.node.State() == raft.Leader || anew.node.State() == raft.Leader
				})
				out := survivor.node.Apply([]byte("with the wiped one"))
				if !at.handshake {
					if !elected || out.Wait().Fate != FateApplied {
						t.Error("the control does not show the fault any more")
					}
					return
				}
				if elected || survivor.fsm.has("with the wiped one") {
					t.Error("a wiped voter counted")
				}
				for _, m := range []*member{survivor, anew} {
					for _, want := range []string{"quorate quorum remove", "quorate quorum add", wiped.id.String(), anew.id.String()} {
						if !strings.Contains(m.log.String(), want) {
							t.Errorf("the log of %v does not name %q:\n%s", m.id, want, m.log)
						}
					}
				}
				if got := anew.node.Metrics().Handshakes[wrongDirectory].Load(); got == 0 {
					t.Error("not counted")
				}
				if n := strings.Count(anew.log.String(), "raft connection refused"); n > 3 {
					t.Errorf("%d lines in a few seconds", n)
				}
				// The third comes back: with the survivor it is a majority, and nothing was lost.
				c.start(gone)
				c.commit(c.leader(survivor, gone), "again")
			})
		})
	}
}
