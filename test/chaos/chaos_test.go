package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/test/chaos"
	"github.com/quorate/quorate/test/cluster"
)

// profile makes everything happen often: short sessions, small segments, a snapshot each 200 entries.
var profile = []string{
	"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000",
	"controller.quorum.election.timeout.ms=300", "segment.bytes=1048576",
	"metadata.log.snapshot.entries=200", "metadata.log.trailing.entries=100",
}

const (
	// roundMax bounds a round; it begins only when every ISR is whole.
	roundMax = 20 * time.Second
	// wholeWait bounds the recovery between rounds.
	wholeWait = 120 * time.Second
	topic     = "chaos"
)

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s is not a number", name, text)
	}
	return n
}

func TestChaos(t *testing.T) {
	rounds := setting(t, "ROUNDS", 1)
	if rounds == 0 {
		t.Skip("ROUNDS=0 asks for no rounds")
	}
	seed := setting(t, "SEED", uint64(time.Now().UnixNano())%1_000_000)
	t.Logf("run this schedule again: make chaos ROUNDS=%d KILLS=0 SEED=%d", rounds, seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	c := cluster.Start(t, cluster.Options{Set: profile})
	c.Must(t, "topic", "create", topic, "--partitions", "3", "--replication-factor", "3")
	observer := cluster.Observe(t, c)
	stopChurn := chaos.StartChurn(t, c)
	for n := range rounds {
		c.WholeISRs(t, wholeWait, topic)
		round(t, c, draw, int(n))
		observer.Check(t)
		c.SameChains(t)
		if t.Failed() {
			t.Fatalf("round %d failed; data and logs: %s; again: make chaos ROUNDS=%d KILLS=0 SEED=%d", n, c.Dir, rounds, seed)
		}
	}
	created := stopChurn()
	c.WholeISRs(t, wholeWait)
	c.SameDumps(t)
	taken, damaged := c.Metric(t, "quorate_raft_snapshots_taken"), c.Metric(t, "quorate_raft_snapshots_damaged")
	t.Logf("%d rounds; %d topics came and went; %v snapshots since the controllers' last starts; observed %s", rounds, created, taken, observer)
	if rounds >= 5 && taken == 0 || damaged != 0 {
		t.Errorf("%v snapshots were taken and %v are damaged", taken, damaged)
	}
}

// fault is what happens to one node.
type fault struct {
	node  int
	pause bool
	at    time.Duration
	lasts time.Duration
}

func drawFault(draw *rand.Rand, node int) fault {
	return fault{
		node:  node,
		pause: draw.IntN(2) == 0,
		at:    time.Duration(draw.IntN(4000)) * time.Millisecond,
		lasts: time.Duration(500+draw.IntN(5500)) * time.Millisecond,
	}
}

func (f fault) String() string {
	verb := "kill"
	if f.pause {
		verb = "pause"
	}
	return fmt.Sprintf("%s %d at %v for %v", verb, f.node, f.at, f.lasts)
}

// round lets one controller and one broker fail, while producers write, and checks what they were told.
func round(t *testing.T, c *cluster.Cluster, draw *rand.Rand, n int) {
	t.Helper()
	controllers, brokers := c.IDs("controller"), c.IDs("broker")
	faults := []fault{
		drawFault(draw, controllers[draw.IntN(len(controllers))]),
		drawFault(draw, brokers[draw.IntN(len(brokers))]),
	}
	t.Logf("round %d: %v, %v", n, faults[0], faults[1])
	from := c.EndOffsets(t, topic)
	w := c.StartWriters(t, topic, cluster.WriterOptions{Name: fmt.Sprintf("r%d", n), Idempotent: 2, Plain: 1, Pause: 5 * time.Millisecond})
	begun := time.Now()
	var all sync.WaitGroup
	for _, f := range faults {
		all.Go(func() { f.carryOut(t, c, begun) })
	}
	all.Wait()
	c.WholeISRs(t, wholeWait, topic)
	<-time.After(min(time.Second, max(0, roundMax-time.Since(begun))))
	w.Stop(t)
	c.VerifyReplicas(t, topic, w.Acks(), from)
	if acks := w.Acks(); len(acks) == 0 {
		t.Error("nothing was acknowledged in the whole round")
	} else {
		slices.SortFunc(acks, func(a, b cluster.Ack) int { return a.At.Compare(b.At) })
		t.Logf("round %d: longest gap between acknowledgements %v", n, w.LongestGap(acks[0].At, acks[len(acks)-1].At).Round(time.Millisecond))
	}
}

func (f fault) carryOut(t *testing.T, c *cluster.Cluster, begun time.Time) {
	t.Helper()
	<-time.After(time.Until(begun.Add(f.at)))
	if f.pause {
		c.Pause(t, f.node)
	} else {
		c.Kill(t, f.node)
	}
	<-time.After(f.lasts)
	if f.pause {
		c.Resume(t, f.node)
	} else {
		c.Restart(t, f.node)
	}
}
