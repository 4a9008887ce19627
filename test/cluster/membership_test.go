package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// The quorum grows to five, gives up its active controller, and goes on while others die and come back. The one that was
// given up comes back with its old directory: it stays out, says why, and disturbs nobody.
func TestQuorumMembershipWhileTopicsAreServed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1, Pause: 10 * time.Millisecond})
	w.AwaitAcks(t, 50)

	c.StartController(t, 1004)
	addController(t, c, 1004)
	c.Kill(t, 1003)
	c.StartController(t, 1005)
	addController(t, c, 1005) // four of five is enough
	c.Restart(t, 1003)
	votersAre(t, c, []int{1001, 1002, 1003, 1004, 1005})
	c.Must(t, "topic", "create", "with-five")

	if c.Active(t) != 1001 {
		c.Must(t, "quorum", "transfer", "1001")
	}
	directory := directoryOf(t, c, 1001)
	out := c.Must(t, "quorum", "remove", "1001")
	if !strings.Contains(out, "removed controller 1001 directoryId="+directory) {
		t.Errorf("remove said %q", out)
	}
	left := []int{1002, 1003, 1004, 1005}
	votersAre(t, c, left)
	staysOut(t, c, 1001)
	c.Must(t, "topic", "create", "with-four")

	active := c.Active(t)
	c.Kill(t, active)
	next := c.Active(t)
	for next == active {
		next = c.Active(t)
	}
	c.Must(t, "topic", "create", "after-a-death")
	c.Restart(t, active)
	votersAre(t, c, left)

	// With its old directory it stays out, also when it is started again.
	c.Kill(t, 1001)
	before, err := c.Quorum(t)
	if err != nil {
		t.Fatal(err)
	}
	c.Restart(t, 1001)
	staysOut(t, c, 1001)
	c.Must(t, "topic", "create", "undisturbed")
	after, err := c.Quorum(t)
	if err != nil || after.ControllerEpoch != before.ControllerEpoch || after.ActiveController != before.ActiveController {
		t.Errorf("the removed one disturbed the quorum: %+v, then %+v (%v)", before, after, err)
	}
	if len(after.Removed) != 1 || after.Removed[0].ID != 1001 || after.Removed[0].DirectoryID != directory {
		t.Errorf("removed: %+v", after.Removed)
	}
	raft := c.Node(t, 1001).Addresses["raft"]
	if _, errs, code := c.CLI(t, "quorum", "add", "1001@"+raft+":"+directory); code != 1 || !strings.Contains(errs, "stays out") {
		t.Errorf("added again with its old directory: exit %d, %s", code, errs)
	}
	if _, errs, code := c.CLI(t, "quorum", "add", "1009@"+raft+":AAAAAAAAQACAAAAAAAAAAQ"); code != 1 || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("added with a bad address: exit %d, %s", code, errs)
	}
	votersAre(t, c, left)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
	c.SameChains(t)
}

// addController adds a controller as soon as it has registered.
func addController(t *testing.T, c *cluster.Cluster, id int) {
	t.Helper()
	cluster.Eventually(t, time.Minute, fmt.Sprintf("%d is added", id), func() error {
		_, errs, code := c.CLI(t, "quorum", "add", fmt.Sprint(id))
		if code == 1 && !strings.Contains(errs, "has not registered") {
			t.Fatalf("quorum add %d: %s", id, errs)
		}
		if code != 0 {
			return fmt.Errorf("exit %d: %s", code, errs)
		}
		return nil
	})
}

// votersAre waits until each of the voters says that they are the voters, and none else is.
func votersAre(t *testing.T, c *cluster.Cluster, want []int) {
	t.Helper()
	cluster.Eventually(t, time.Minute, fmt.Sprintf("the voters are %v on each of them", want), func() error {
		for _, id := range want {
			got, err := c.VotersOf(t, id)
			if err != nil || !slices.Equal(got, want) {
				return fmt.Errorf("%d says %v: %w", id, got, err)
			}
		}
		q, err := c.Quorum(t)
		if err != nil {
			return err
		}
		var voters []int
		for _, n := range q.Nodes {
			if n.Voter {
				voters = append(voters, n.ID)
			}
		}
		if !slices.Equal(voters, want) {
			return fmt.Errorf("quorum status says %+v", q)
		}
		return nil
	})
}

// staysOut waits until a controller says that it was removed, in its state, its readiness and its log.
func staysOut(t *testing.T, c *cluster.Cluster, id int) {
	t.Helper()
	cluster.Eventually(t, time.Minute, fmt.Sprintf("%d says that it was removed", id), func() error {
		state, err := c.StateOf(t, id)
		if err != nil || state != "removed" {
			return fmt.Errorf("state %s: %w", state, err)
		}
		if err := c.Readyz(t, id); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("quorate quorum add %d", id)) {
			return fmt.Errorf("readyz: %v", err)
		}
		if !strings.Contains(c.LogOf(t, id), "this controller stays out") {
			return fmt.Errorf("its log does not say so")
		}
		return nil
	})
}

func directoryOf(t *testing.T, c *cluster.Cluster, id int) string {
	t.Helper()
	out := c.Must(t, "quorum", "status")
	for line := range strings.Lines(out) {
		if _, directory, ok := strings.Cut(line, "directoryId="); ok && strings.HasPrefix(line, fmt.Sprintf("node %d ", id)) {
			return strings.Fields(directory)[0]
		}
	}
	t.Fatalf("no directory of %d in\n%s", id, out)
	return ""
}
