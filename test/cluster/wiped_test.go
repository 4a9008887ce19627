package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// elected is what `partition elect --unclean -o json` says.
type elected struct {
	Partitions []struct {
		Leader           int    `json:"leader"`
		RecordsMayBeLost bool   `json:"recordsMayBeLost"`
		LossFromOffset   int64  `json:"lossFromOffset"`
		LossBasis        string `json:"lossBasis"`
		Replicas         []struct {
			Broker    int   `json:"broker"`
			LastEpoch int   `json:"lastEpoch"`
			EndOffset int64 `json:"endOffset"`
		} `json:"replicas"`
	} `json:"partitions"`
}

// The only member of an ISR loses its disk, and other replicas hold older data. It never leads cleanly on what is left; an
// unclean election says what may be lost and brings the older data back. The disk is lost in two ways: formatted anew under
// the same id, and emptied but for meta.properties.
func TestWipedLeader(t *testing.T) {
	if !acceptance {
		t.Parallel()
	}
	cluster.Build(t)
	began := time.Now()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=5000", "broker.heartbeat.interval.ms=500"}})
	loseTheOnlyMember(t, c, "formatted", formatAnew, true)
	loseTheOnlyMember(t, c, "emptied", emptyDirectory, false)
	t.Logf("both after %v", time.Since(began).Round(time.Second))
	if took := time.Since(began); acceptance && took > 45*time.Second {
		t.Errorf("took %v, want at most 45s", took)
	}
}

func loseTheOnlyMember(t *testing.T, c *cluster.Cluster, topic string, wipe func(*testing.T, *cluster.Cluster, int), silence bool) {
	o := operator{t, c}
	o.does("topic create "+topic+" --partitions 1 --replication-factor 3 --config min.insync.replicas=1", 0)
	older := c.StartWriters(t, topic, cluster.WriterOptions{Name: "older", Idempotent: 1, Plain: 1})
	older.AwaitAcks(t, 200)
	older.Stop(t)
	kept := c.EndOffsets(t, topic)[0]
	leader := c.Leader(t, topic, 0)
	others := slices.DeleteFunc(c.IDs("broker"), func(id int) bool { return id == leader })
	for _, id := range others {
		c.Signal(t, id, syscall.SIGTERM)
	}
	for _, id := range others {
		c.AwaitGone(t, id)
	}
	newer := c.StartWriters(t, topic, cluster.WriterOptions{Name: "newer", Idempotent: 1})
	newer.AwaitAcks(t, 100)
	newer.Stop(t)
	if p, err := c.PartitionOf(t, topic, 0); err != nil || !slices.Equal(p.ISR, []int{leader}) {
		t.Fatalf("%+v %v, want broker %d alone in the ISR", p, err, leader)
	}
	epoch := c.BrokerEpoch(t, leader)
	c.Kill(t, leader)
	wipe(t, c, leader)

	// It comes back first and empty, then the others, then it once more.
	c.Restart(t, leader)
	epoch = awaitLife(t, c, leader, epoch)
	wantNoLeader(t, c, topic, leader)
	for _, id := range others {
		c.Restart(t, id)
	}
	for _, id := range others {
		c.AwaitBroker(t, id, "UNFENCED")
	}
	c.Signal(t, leader, syscall.SIGTERM)
	c.AwaitGone(t, leader)
	c.Restart(t, leader)
	awaitLife(t, c, leader, epoch)
	wantNoLeader(t, c, topic, leader)
	o.does("partition elect --preferred "+topic+"-0", 1, "error: PREFERRED_LEADER_NOT_AVAILABLE")
	wantNoLeader(t, c, topic, leader)

	// As long as a live replica does not say how far it is, nobody is elected.
	if silence {
		c.Pause(t, others[0])
		o.does("partition elect --unclean "+topic+"-0", 1, "does not answer", fmt.Sprintf("unfenced replicas [%d] do not say", others[0]))
		c.Resume(t, others[0])
		wantNoLeader(t, c, topic, leader)
		c.AwaitBroker(t, others[0], "UNFENCED")
	}

	electTheOlder(t, c, topic, leader, kept)
	c.WholeISRs(t, 60*time.Second, topic)
	c.VerifyAcknowledged(t, older)
	for _, r := range c.ReadAll(t, topic) {
		if strings.HasPrefix(string(r.Value), "newer") {
			t.Fatalf("%s is back, and its only disk was lost", r.Value)
		}
	}
	again := c.StartWriters(t, topic, cluster.WriterOptions{Name: "again", Idempotent: 1})
	again.AwaitAcks(t, 20)
	again.Stop(t)
	c.VerifyReplica(t, leader, topic, slices.Concat(older.Acks(), again.Acks()))
}

// electTheOlder asks for an unclean election: what may be lost is told before and when it is done, and the wiped broker is not elected.
func electTheOlder(t *testing.T, c *cluster.Cluster, topic string, wiped int, kept int64) {
	o := operator{t, c}
	told := fmt.Sprintf("acknowledged records from offset %d on may be lost", kept)
	t.Log(o.does("partition elect --unclean --dry-run "+topic+"-0", 0, "empty", "shall lead", told, "PartitionChange"))
	wantNoLeader(t, c, topic, wiped)
	var e elected
	out := o.does("partition elect --unclean -o json "+topic+"-0", 0)
	if err := json.Unmarshal([]byte(out), &e); err != nil || len(e.Partitions) != 1 {
		t.Fatalf("%s: %v", out, err)
	}
	if p := e.Partitions[0]; p.Leader == wiped || !p.RecordsMayBeLost || p.LossFromOffset != kept || p.LossBasis != "log-end" || len(p.Replicas) != 3 {
		t.Errorf("%s, want another leader than %d and loss from %d on", out, wiped, kept)
	}
	for _, r := range e.Partitions[0].Replicas {
		if r.Broker == wiped && (r.EndOffset != 0 || r.LastEpoch != -1) {
			t.Errorf("the wiped broker holds %+v", r)
		}
	}
}

// A partition is made on a broker that has just died: it never had a log there, so nothing is lost, and it gets its leader
// without an operator when the broker is back.
func TestLogThatWasNeverMade(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=5000", "broker.heartbeat.interval.ms=500"}})
	o := operator{t, c}
	epoch := c.BrokerEpoch(t, 3)
	c.Kill(t, 3)
	o.does("topic create lone --replica-assignment 3 --no-wait", 0)
	c.AwaitBroker(t, 3, "FENCED")
	if p, err := c.PartitionOf(t, "lone", 0); err != nil || p.Leader >= 0 {
		t.Fatalf("%+v %v, want no leader", p, err)
	}
	c.Restart(t, 3)
	awaitLife(t, c, 3, epoch)
	if leader := c.Leader(t, "lone", 0); leader != 3 {
		t.Errorf("broker %d leads", leader)
	}
	w := c.StartWriters(t, "lone", cluster.WriterOptions{Idempotent: 1})
	w.AwaitAcks(t, 20)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}

// awaitLife waits until a broker is unfenced in a life after the one with the epoch, and returns the new epoch.
func awaitLife(t *testing.T, c *cluster.Cluster, id int, before int64) (epoch int64) {
	t.Helper()
	cluster.Eventually(t, 60*time.Second, fmt.Sprintf("broker %d serves in a new life", id), func() error {
		brokers, err := c.Brokers(t)
		for _, b := range brokers {
			if b.ID == id && b.Epoch != before && b.State == "UNFENCED" {
				epoch = b.Epoch
				return nil
			}
		}
		return fmt.Errorf("%+v %w", brokers, err)
	})
	return epoch
}

// wantNoLeader wants the partition without a leader, and the broker in none of the lists that a leader comes from.
func wantNoLeader(t *testing.T, c *cluster.Cluster, topic string, wiped int) {
	t.Helper()
	p, err := c.PartitionOf(t, topic, 0)
	if err != nil || p.Leader >= 0 || slices.Contains(slices.Concat(p.ISR, p.ELR, p.LastKnownELR), wiped) {
		t.Errorf("%+v %v, want no leader and broker %d in no list", p, err, wiped)
	}
}

// emptyDirectory leaves of a data directory what says whose it is.
func emptyDirectory(t *testing.T, c *cluster.Cluster, broker int) {
	t.Helper()
	removeAll(t, c.Node(t, broker).DataDir, "meta.properties")
}

// formatAnew makes the directory another one, under the same id.
func formatAnew(t *testing.T, c *cluster.Cluster, broker int) {
	t.Helper()
	n := c.Node(t, broker)
	removeAll(t, n.DataDir)
	at := slices.Index(n.Argv, "--config")
	if at < 0 || at+1 == len(n.Argv) {
		t.Fatalf("no --config in %q", n.Argv)
	}
	if _, errs, code := cluster.Run(t, "format", "--config", n.Argv[at+1], "--cluster-id", c.ClusterID); code != 0 {
		t.Fatalf("format: exit %d: %s", code, errs)
	}
}

// removeAll removes what is in a directory, but for some names.
func removeAll(t *testing.T, dir string, except ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains(except, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
