package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// The last leader's disk loses acknowledged records while every broker is down, and it is the first to come back. It does
// not lead on what is left: another member of the ELR does, and the damaged replica fetches what it lost.
func TestDamagedLeaderDoesNotLead(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3", "--config", "min.insync.replicas=2")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 300)
	w.Stop(t)
	leader := c.Leader(t, "orders", 0)
	awaitHighWatermark(t, c, leader, "orders 0 "+fmt.Sprint(c.EndOffsets(t, "orders")[0]))

	// The followers go first, so that the leader is the last member of the ISR and then of the ELR.
	followers := slices.DeleteFunc(c.IDs("broker"), func(id int) bool { return id == leader })
	for _, id := range followers {
		c.Kill(t, id)
	}
	for _, id := range followers {
		c.AwaitBroker(t, id, "FENCED")
	}
	c.Kill(t, leader)
	c.AwaitBroker(t, leader, "FENCED")
	before, err := c.PartitionOf(t, "orders", 0)
	if err != nil || before.Leader >= 0 || !slices.Contains(before.ELR, leader) || len(before.ELR) < 2 {
		t.Fatalf("all are down: %+v %v, want no leader and broker %d with another one in the ELR", before, err, leader)
	}
	damage(t, c, leader, 2000)

	c.Restart(t, leader)
	c.AwaitBroker(t, leader, "UNFENCED")
	if log := c.LogOf(t, leader); !strings.Contains(log, "lostBelowHighWatermark") || strings.Contains(log, "lostBelowHighWatermark=0") {
		t.Fatal("the log was not cut below its high watermark: this test tests nothing")
	}
	damaged, err := c.PartitionOf(t, "orders", 0)
	if err != nil || damaged.Leader >= 0 || slices.Contains(slices.Concat(damaged.ISR, damaged.ELR, damaged.LastKnownELR), leader) {
		t.Errorf("broker %d lost records: %+v %v, want no leader and the broker in no list", leader, damaged, err)
	}
	for _, id := range followers {
		c.Restart(t, id)
	}
	c.WholeISRs(t, 90*time.Second, "orders")
	c.VerifyAcknowledged(t, w)
	c.VerifyReplica(t, leader, "orders", w.Acks())
}

// awaitHighWatermark waits until a line stands in a broker's checkpoint of high watermarks.
func awaitHighWatermark(t *testing.T, c *cluster.Cluster, broker int, line string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(logDir(t, c, broker)), "replication-offset-checkpoint")
	cluster.Eventually(t, 30*time.Second, "the high watermark is on disk", func() error {
		data, err := os.ReadFile(path)
		if err == nil && !slices.Contains(strings.Split(string(data), "\n"), line) {
			err = fmt.Errorf("%q has no line %q", data, line)
		}
		return err
	})
}

// damage cuts bytes off the newest segment of orders-0.
func damage(t *testing.T, c *cluster.Cluster, broker int, bytes int64) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(logDir(t, c, broker), "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments: %v %v", segments, err)
	}
	newest := slices.Max(segments)
	info, err := os.Stat(newest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(newest, info.Size()-bytes); err != nil {
		t.Fatal(err)
	}
}

// logDir is where a broker keeps orders-0.
func logDir(t *testing.T, c *cluster.Cluster, broker int) string {
	t.Helper()
	data := c.Node(t, broker).DataDir
	var found []string
	for _, pattern := range []string{"orders-0", "*/orders-0"} {
		dirs, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, dirs...)
	}
	if len(found) != 1 {
		t.Fatalf("orders-0 of broker %d is at %v", broker, found)
	}
	return found[0]
}
