package raftnode

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// Under cuts, one-way cuts, broken frames and restarts every FSM sees the same entry at an index, and nothing that was
// acknowledged is missing.
func TestLogsAgreeUnderCuts(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				defer c.close()
				c.tweak = func(cfg *Config) { cfg.TrailingEntries = 1 << 40 }
				c.start()
				c.leader()
				acknowledged := runUnderCuts(c, rand.New(rand.NewPCG(seed, 0)), 15*time.Second)
				c.network.HealAll()
				last := c.leader()
				c.commit(last, "the last")
				c.everybodyHas("the last", c.members...)
				compare(t, c, acknowledged)
			})
		})
	}
}

// runUnderCuts submits on whoever leads while faults come and go, and returns what was acknowledged.
func runUnderCuts(c *cluster, random *rand.Rand, d time.Duration) (acknowledged []string) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	var mu sync.Mutex
	for i, m := range c.members {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				if !m.node.Leadership().Leader {
					continue
				}
				data := fmt.Sprint("member ", i, " entry ", n)
				p := m.node.Apply([]byte(data))
				running.Go(func() {
					if p.Wait().Fate == FateApplied {
						mu.Lock()
						acknowledged = append(acknowledged, data)
						mu.Unlock()
					}
				})
			}
		})
	}
	pick := func() string { return c.members[random.IntN(len(c.members))].host }
	for end := time.Now().Add(d); time.Now().Before(end); {
		switch random.IntN(5) {
		case 0:
			c.network.Isolate(pick())
		case 1:
			c.network.Cut(pick(), "*")
		case 2:
			c.network.Cut(pick(), pick())
		case 3:
			c.network.CloseAfter(pick(), "*", 1+random.IntN(2000))
		case 4:
			c.network.Delay(pick(), "*", time.Duration(random.IntN(200))*time.Millisecond)
		}
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
		c.network.HealAll()
		<-time.After(time.Duration(random.IntN(700)) * time.Millisecond)
	}
	c.network.HealAll()
	close(stop)
	running.Wait()
	return acknowledged
}

func compare(t *testing.T, c *cluster, acknowledged []string) {
	t.Helper()
	at := make(map[uint64]applied)
	seen := make(map[string]bool)
	for _, m := range c.members {
		for _, e := range m.fsm.entries {
			if other, ok := at[e.index]; ok && other != e {
				t.Fatalf("index %d is %+v on one node and %+v on another", e.index, other, e)
			}
			at[e.index] = e
			seen[e.data] = true
		}
	}
	for _, data := range acknowledged {
		if !seen[data] {
			t.Errorf("%q was acknowledged and is gone", data)
		}
	}
	if len(acknowledged) < 100 {
		t.Errorf("only %d entries were acknowledged: the test shows little", len(acknowledged))
	}
}

// The same nodes over real sockets, as in production.
func TestClusterOverTCP(t *testing.T) {
	c := newCluster(t, 0)
	defer c.close()
	ports := make(map[*member]string)
	for i := int32(1); i <= 3; i++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := c.newMember(i, fmt.Sprint("disk of ", i))
		ports[m] = l.Addr().String()
		l.Close()
		c.members = append(c.members, m)
	}
	servers := c.servers()
	for i, m := range c.members {
		servers[i].Address = ports[m]
	}
	for _, m := range c.members {
		c.format(m, servers)
	}
	for _, m := range c.members {
		c.tweak = func(cfg *Config) { cfg.Env, cfg.ListenAddress = env.OS("127.0.0.1"), ports[m] }
		c.start(m)
	}
	first := c.leader()
	c.commit(first, "one")
	c.everybodyHas("one", c.members...)
	c.stop(first)
	second := c.leader(c.others(first)...)
	c.commit(second, "two")
	c.everybodyHas("two", c.others(first)...)
}
