package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// quick settings make sessions end soon.
var quick = []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}

// F11: the ISR dies member by member. Whoever was last, and it alone, brings the partition back, without an operator.
func TestF11LastMemberReturns(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: append(slices.Clone(quick), "min.insync.replicas=1")})
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1})
	w.AwaitAcks(t, 50)
	replicas := func() cluster.Partition {
		p, err := c.PartitionOf(t, "orders", 0)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	order := slices.Clone(replicas().Replicas)
	last := order[0]
	for _, id := range []int{order[2], order[1]} {
		c.Kill(t, id)
		awaitPartition(t, c, fmt.Sprintf("%d is out of the ISR", id), func(p cluster.Partition) bool { return !slices.Contains(p.ISR, id) && p.Leader >= 0 })
	}
	acked := len(w.Acks())
	w.AwaitAcks(t, acked+20)
	c.Kill(t, last)
	awaitPartition(t, c, "no leader", func(p cluster.Partition) bool { return p.Leader < 0 })
	epoch := replicas().LeaderEpoch
	c.Restart(t, order[1])
	c.Restart(t, order[2])
	c.AwaitBroker(t, order[1], "UNFENCED")
	c.AwaitBroker(t, order[2], "UNFENCED")
	if p := replicas(); p.Leader >= 0 {
		t.Errorf("led by %d, which was not the last member: %+v", p.Leader, p)
	}
	c.Restart(t, last)
	awaitPartition(t, c, "led by the last member", func(p cluster.Partition) bool { return p.Leader == last })
	if p := replicas(); p.LeaderEpoch <= epoch {
		t.Errorf("leader epoch %d did not rise above %d", p.LeaderEpoch, epoch)
	}
	c.WholeISRs(t, 60*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}

func awaitPartition(t *testing.T, c *cluster.Cluster, what string, ok func(cluster.Partition) bool) {
	t.Helper()
	cluster.Eventually(t, 60*time.Second, what, func() error {
		p, err := c.PartitionOf(t, "orders", 0)
		if err == nil && !ok(p) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
}

// F15: a broker that dies and is back within its session is another incarnation: it is refused until the old one's
// session has ended, leads nothing meanwhile, and comes back under another broker epoch with the leader epoch raised.
func TestF15CrashAndReturnWithinTheSession(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: quick})
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 50)
	before, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	epoch := c.BrokerEpoch(t, before.Leader)
	c.Kill(t, before.Leader)
	c.Restart(t, before.Leader)
	awaitPartition(t, c, "another leader", func(p cluster.Partition) bool { return p.Leader >= 0 && p.Leader != before.Leader })
	c.WholeISRs(t, 60*time.Second)
	after, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	if after.LeaderEpoch <= before.LeaderEpoch {
		t.Errorf("leader epoch %d after the crash, %d before", after.LeaderEpoch, before.LeaderEpoch)
	}
	if now := c.BrokerEpoch(t, before.Leader); now <= epoch {
		t.Errorf("broker epoch %d after the crash, %d before", now, epoch)
	}
	// The new life was let in only when the old one's session had ended: had it been before, its registration would be the cause.
	history := c.Must(t, "metadata", "history", "orders-0")
	if !strings.Contains(history, fmt.Sprintf("broker %d's session ended", before.Leader)) {
		t.Errorf("the leadership did not end with the session:\n%s", history)
	}
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}

// F16: a leader that is told to stop hands over first; what it acknowledged until then is there, and producers go on.
func TestF16LeaderHandsOverBeforeItStops(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 50)
	leader := c.Leader(t, "orders", 0)
	c.Signal(t, leader, syscall.SIGTERM)
	awaitPartition(t, c, "another leader", func(p cluster.Partition) bool { return p.Leader >= 0 && p.Leader != leader })
	acked := len(w.Acks())
	w.AwaitAcks(t, acked+50)
	c.AwaitGone(t, leader)
	c.Restart(t, leader)
	c.WholeISRs(t, 60*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}
