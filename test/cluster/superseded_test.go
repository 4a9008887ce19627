package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// All controllers die, one is recovered offline and deletes a topic, and the two others start together from their old directories: a
// majority of the quorum that was. They acknowledge nothing, and whoever asks all three is told what the recovered one says. They
// still know when the recovered one is gone.
func TestOldMajorityIsSuperseded(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Brokers: 1})
	c.Must(t, "topic", "create", "before", "--partitions", "1", "--replication-factor", "1")
	controllers := c.IDs("controller")
	x, old := controllers[2], controllers[:2]
	var theirs []string
	for _, id := range controllers {
		c.Kill(t, id)
	}
	for _, id := range old {
		theirs = append(theirs, c.Node(t, id).Addresses["grpc"])
	}
	out, errs, code := recoverController(t, c, x, "", "--directory", c.Node(t, old[0]).DataDir, "--directory", c.Node(t, old[1]).DataDir)
	if code != 0 {
		t.Fatalf("recover: exit %d\n%s%s", code, out, errs)
	}
	c.Restart(t, x)
	c.Must(t, "topic", "delete", "before", "--no-wait")

	change := func(when string) {
		t.Helper()
		for range 3 {
			out, errs, code := cluster.Run(t, "topic", "delete", "before", "--no-wait", "--timeout", "2s", "--controllers", strings.Join(theirs, ","))
			if code == 0 {
				t.Errorf("%s: a change is acknowledged in lineage 0: %s%s", when, out, errs)
			}
		}
	}
	areOut := func(when string) {
		t.Helper()
		for _, id := range old {
			cluster.Eventually(t, time.Minute, fmt.Sprintf("%s: %d is superseded", when, id), func() error {
				state, err := c.StateOf(t, id)
				if err != nil || state != "superseded" {
					return fmt.Errorf("state %q: %w", state, err)
				}
				if err := c.Readyz(t, id); err == nil || !strings.Contains(err.Error(), "lineage 1") || !strings.Contains(err.Error(), "quorum add") {
					return fmt.Errorf("readyz: %v", err)
				}
				return nil
			})
		}
	}
	for _, id := range old {
		c.Restart(t, id)
	}
	for range 10 { // while they start, and after
		if out, errs, code := c.CLI(t, "topic", "list"); code != 0 || strings.Contains(out, "before") {
			t.Errorf("topic list with all three: exit %d\n%s%s", code, out, errs)
		}
	}
	areOut("with the recovered one")
	change("with the recovered one")
	for _, id := range old {
		out, errs, code := c.CLI(t, "topic", "list", "--node", fmt.Sprint(id))
		if code != 3 || out != "" || !strings.Contains(errs, "lineage 1") {
			t.Errorf("topic list --node %d: exit %d\n%s%s", id, code, out, errs)
		}
	}
	if out, errs, code := c.CLI(t, "quorum", "status"); code != 0 || !strings.Contains(out, "state=superseded") || !strings.Contains(errs, "format another directory") {
		t.Errorf("quorum status: exit %d\n%s%s", code, out, errs)
	}

	c.Kill(t, x)
	for _, id := range old {
		c.Kill(t, id)
		c.Restart(t, id)
	}
	areOut("without the recovered one")
	change("without the recovered one")
	if out, errs, code := c.CLI(t, "topic", "list", "--timeout", "2s"); code != 3 || strings.Contains(out, "before") {
		t.Errorf("topic list with the old ones only: exit %d\n%s%s", code, out, errs)
	}
}

// Two old controllers were paused while the third was recovered, and wake together, a majority of what was: they hear of the newer lineage
// and are out, and whoever asks all three is told the recovered truth.
func TestOldMajorityThatWakesIsSuperseded(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Brokers: 1})
	c.Must(t, "topic", "create", "before", "--partitions", "1", "--replication-factor", "1")
	controllers := c.IDs("controller")
	x, old := controllers[2], controllers[:2]
	for _, id := range old {
		c.Pause(t, id)
	}
	c.Kill(t, x)
	if out, errs, code := recoverController(t, c, x, "", "--force"); code != 0 || !strings.Contains(out, "may be lost") {
		t.Fatalf("recover: exit %d\n%s%s", code, out, errs)
	}
	c.Restart(t, x)
	c.Must(t, "topic", "delete", "before", "--no-wait")
	for _, id := range old {
		c.Resume(t, id)
	}
	for _, id := range old {
		cluster.Eventually(t, time.Minute, fmt.Sprintf("%d is superseded", id), func() error {
			if state, err := c.StateOf(t, id); err != nil || state != "superseded" {
				return fmt.Errorf("state %q: %w", state, err)
			}
			return nil
		})
	}
	if out, errs, code := c.CLI(t, "topic", "list"); code != 0 || strings.Contains(out, "before") {
		t.Errorf("topic list with all three: exit %d\n%s%s", code, out, errs)
	}
}
