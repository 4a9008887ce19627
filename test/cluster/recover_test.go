package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// recoverPoints are where a recovery dies: before the rename that counts the old state stays, from then on the new one is finished
// by whoever comes next.
var recoverPoints = []string{
	"recover.begin", "recover.copied", "recover.temporary-directory", "raftnode/snapshot close begins", "recover.written",
	"recover.renamed", "recover.old-removed", "recover.done",
}

// All controllers die, the disks of two are destroyed, and the third brings the cluster back: brokers come back with their data,
// everything acknowledged is there, what may be lost is said, and nothing is deleted until an operator confirms. A quorum
// that lives, or may live, is not recovered, and a recovery that dies anywhere can be run again.
func TestRecoverFromTheLastController(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3", "--config", "min.insync.replicas=2")
	c.Must(t, "topic", "create", "audit", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 300)
	w.Stop(t)
	c.WholeISRs(t, 60*time.Second)

	controllers := c.IDs("controller")
	survivor, lost := controllers[2], controllers[:2]
	c.Kill(t, survivor)
	refuseRecovery(t, c, survivor, "a majority")
	refuseRecovery(t, c, survivor, "a majority", "--force")
	for _, id := range lost {
		c.Kill(t, id)
		if err := os.RemoveAll(c.Node(t, id).DataDir); err != nil {
			t.Fatal(err)
		}
	}
	refuseRecovery(t, c, survivor, "cannot be told")
	refuseRecovery(t, c, survivor, "in use by process", "--force", "--directory", c.Node(t, 1).DataDir)

	out, errs, code := recoverController(t, c, survivor, "", "--force", "--dry-run")
	if code != 0 || !strings.Contains(out, "may be lost") || !strings.Contains(out, "lineage 1") {
		t.Fatalf("dry run: exit %d\n%s%s", code, out, errs)
	}
	for _, point := range recoverPoints {
		hook := cluster.NewHook(t, point)
		hook.Arm(t)
		if out, errs, code := recoverController(t, c, survivor, hook.Env(), "--force"); hook.Hit(t) == 0 || code == 0 {
			t.Fatalf("no death at %s: exit %d\n%s%s", point, code, out, errs)
		}
	}
	if out, errs, code = recoverController(t, c, survivor, "", "--force"); code != 0 || !strings.Contains(out, "had recovered") || !strings.Contains(out, "lineage 1,") {
		t.Fatalf("recover once more, forced: exit %d\n%s%s", code, out, errs)
	}
	if out, errs, code = recoverController(t, c, survivor, ""); code != 0 || !strings.Contains(out, "only voter of lineage 1") || !strings.Contains(out, "quorum add") {
		t.Fatalf("recover: exit %d\n%s%s", code, out, errs)
	}
	if copies, err := filepath.Glob(filepath.Join(c.Node(t, survivor).DataDir, "lineage-0*.copy", "raft", "log.bolt")); err != nil || len(copies) == 0 {
		t.Errorf("the state before is not kept: %v %v", copies, err)
	}

	stopped := c.IDs("broker")[0]
	c.Kill(t, stopped)
	c.Restart(t, survivor)
	c.Restart(t, stopped)
	for _, id := range c.IDs("broker")[1:] { // a broker that ran through the recovery ends, to begin anew
		c.AwaitGone(t, id)
		if log := c.LogOf(t, id); !strings.Contains(log, "start it again") {
			t.Errorf("broker %d does not say why it has ended:\n%s", id, log)
		}
		c.Restart(t, id)
	}
	for _, id := range c.IDs("broker") {
		c.AwaitBroker(t, id, "UNFENCED")
	}
	c.WholeISRs(t, 90*time.Second)
	c.VerifyAcknowledged(t, w)
	if status, errs, code := c.CLI(t, "quorum", "status"); code != 0 || !strings.Contains(status, "lineage=1") || !strings.Contains(errs, "recover --confirm") {
		t.Errorf("quorum status: exit %d\n%s%s", code, status, errs)
	}
	for _, id := range append(c.IDs("broker"), survivor) {
		c.AwaitReady(t, id, 30*time.Second)
	}
	confirmDeletes(t, c)
	for _, id := range []int{1004, 1005} { // a quorum of three again, as the recovery says
		c.StartController(t, id)
		addController(t, c, id)
	}
	votersAre(t, c, []int{survivor, 1004, 1005})
	c.Kill(t, 1005) // two of three are a majority again
	c.Must(t, "topic", "create", "with-two-of-three")
	more := c.StartWriters(t, "orders", cluster.WriterOptions{Name: "after", Idempotent: 1})
	more.AwaitAcks(t, 50)
	more.Stop(t)
	c.VerifyAcknowledged(t, more)
}

// confirmDeletes deletes a topic, whose data stays until the lineage is confirmed.
func confirmDeletes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Must(t, "topic", "delete", "audit")
	data := func() (left []string) {
		for _, id := range c.IDs("broker") {
			for _, pattern := range []string{"audit-0*", "*/audit-0*"} {
				found, err := filepath.Glob(filepath.Join(c.Node(t, id).DataDir, pattern))
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, found...)
			}
		}
		return left
	}
	if left := data(); len(left) < len(c.IDs("broker")) {
		t.Errorf("data was deleted in an unconfirmed lineage: %v", left)
	}
	if out := c.Must(t, "quorum", "recover", "--confirm"); !strings.Contains(out, "confirmed lineage 1") {
		t.Errorf("confirm: %s", out)
	}
	cluster.Eventually(t, 60*time.Second, "the deleted topic's data is gone", func() error {
		if left := data(); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// recoverController runs an offline recovery of a controller, with a hook if env is not empty.
func recoverController(t *testing.T, c *cluster.Cluster, id int, env string, extra ...string) (stdout, stderr string, code int) {
	t.Helper()
	argv := c.Node(t, id).Argv
	at := slices.Index(argv, "--config")
	if at < 0 {
		t.Fatalf("no --config in %v", argv)
	}
	cmd := exec.Command(argv[0], append([]string{"quorum", "recover", "--offline", "--config", argv[at+1]}, extra...)...)
	cmd.Env = os.Environ()
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func refuseRecovery(t *testing.T, c *cluster.Cluster, id int, words string, extra ...string) {
	t.Helper()
	out, errs, code := recoverController(t, c, id, "", extra...)
	if code != 1 || !strings.Contains(errs, words) || out != "" {
		t.Errorf("recover %v: exit %d, want a refusal with %q\n%s%s", extra, code, words, out, errs)
	}
}
