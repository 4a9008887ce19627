package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// TestRandomKills kills one node after the other by kill -9 at a random moment of its life, often while it still starts,
// and starts it again at once: the next start must always work. KILLS= sets how often.
func TestRandomKills(t *testing.T) {
	kills := setting(t, "KILLS", 10)
	if kills == 0 {
		t.Skip("KILLS=0 asks for no kills")
	}
	seed := setting(t, "SEED", uint64(time.Now().UnixNano())%1_000_000)
	t.Logf("run this schedule again: make chaos ROUNDS=0 KILLS=%d SEED=%d", kills, seed)
	draw := rand.New(rand.NewPCG(seed, 1))
	c := cluster.Start(t, cluster.Options{Set: profile})
	c.Must(t, "topic", "create", topic, "--partitions", "3", "--replication-factor", "3")
	observer := cluster.Observe(t, c)
	w := c.StartWriters(t, topic, cluster.WriterOptions{Idempotent: 2, Plain: 1, Pause: 5 * time.Millisecond})
	nodes := append(c.IDs("controller"), c.IDs("broker")...)
	for n := range kills {
		node := nodes[draw.IntN(len(nodes))]
		lives := time.Duration(draw.IntN(1500)) * time.Millisecond
		<-time.After(lives)
		c.Kill(t, node)
		c.Restart(t, node)
		churn(t, c, int(n))
	}
	c.WholeISRs(t, wholeWait)
	w.Stop(t)
	c.VerifyReplicas(t, topic, w.Acks(), nil)
	observer.Check(t)
	c.SameDumps(t)
	t.Logf("%d kills; observed %s", kills, observer)
}

// churn keeps topics coming and going, so that kills meet creations, rolls and deletions. Whether a command gets through
// in the middle of a kill is not the question here.
func churn(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	if n%5 != 0 {
		return
	}
	c.CLI(t, "topic", "create", fmt.Sprintf("churn-%d", n), "--partitions", "2", "--replication-factor", "3", "--no-wait", "--timeout", "3s")
	if n >= 10 {
		c.CLI(t, "topic", "delete", fmt.Sprintf("churn-%d", n-10), "--no-wait", "--timeout", "3s")
	}
}
