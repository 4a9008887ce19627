package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// A follower is paused, and the active controller dies after it has decided that the follower leaves the ISR and before
// it has proposed so. The next one commits it, once; the follower comes back, once.
func TestFollowerShrinkAcrossControllerDeath(t *testing.T) {
	h := cluster.NewHook(t, "controller.decided.AlterPartition")
	c := cluster.Start(t, cluster.Options{Set: []string{"replica.lag.time.max.ms=3000"}, Env: []string{h.Env()}})
	observer := cluster.Observe(t, c)
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 100)
	before, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	active := c.Active(t)
	follower := before.Replicas[slices.IndexFunc(before.Replicas, func(id int) bool { return id != before.Leader })]
	h.Arm(t)
	c.Pause(t, follower)
	dead := c.NodeOf(t, h.AwaitKill(t, 30*time.Second))
	died := time.Now()
	if dead != active {
		t.Fatalf("controller %d died, the active one was %d", dead, active)
	}
	smaller := before
	cluster.Eventually(t, 30*time.Second, "the next controller takes the follower out", func() error {
		smaller, err = c.PartitionOf(t, "orders", 0)
		if err == nil && slices.Contains(smaller.ISR, follower) {
			err = fmt.Errorf("%+v", smaller)
		}
		return err
	})
	took := time.Since(died).Round(10 * time.Millisecond)
	t.Logf("committed by the next controller after %v", took)
	if acceptance && took > 3*time.Second {
		t.Errorf("committed after %v, want at most 3 s", took)
	}
	wantStep(t, "shrink", before, smaller, len(before.ISR)-1)
	acked := len(w.Acks())
	w.AwaitAcks(t, acked+50) // the high watermark goes on
	if again, err := c.PartitionOf(t, "orders", 0); err != nil || again.PartitionEpoch != smaller.PartitionEpoch {
		t.Errorf("the shrink was committed again: %+v, then %+v (%v)", smaller, again, err)
	}
	c.Resume(t, follower)
	c.Restart(t, dead)
	c.WholeISRs(t, 60*time.Second)
	whole, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	wantStep(t, "expand", smaller, whole, len(before.ISR))
	c.AwaitReady(t, dead, 60*time.Second)
	w.Stop(t)
	c.VerifyReplicas(t, "orders", w.Acks(), nil)
	c.SameDumps(t)
	observer.Check(t)
}

// wantStep wants one change of the ISR under the same leader: the partition epoch is one higher, the leader epoch the same.
func wantStep(t *testing.T, what string, from, to cluster.Partition, members int) {
	t.Helper()
	if to.PartitionEpoch != from.PartitionEpoch+1 || len(to.ISR) != members || to.Leader != from.Leader || to.LeaderEpoch != from.LeaderEpoch {
		t.Errorf("%s: from %+v to %+v, want %d members by one change", what, from, to, members)
	}
}
