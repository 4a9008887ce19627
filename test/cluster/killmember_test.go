package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// memberPoints are where the active controller dies in the middle of a change of the quorum, the command that comes there, and
// the voters that there must be in the end, whoever carries it out.
var memberPoints = []struct {
	point   string
	command []string
	voters  []int
}{
	{"controller.add.nonvoter", []string{"quorum", "add", "1004"}, []int{1001, 1002, 1003, 1004}},
	{"controller.remove.recorded", []string{"quorum", "remove", "1004"}, []int{1001, 1002, 1003}},
	{"controller.transfer.paused", []string{"quorum", "transfer"}, []int{1001, 1002, 1003}},
}

// The active controller dies at each point of a change of the quorum. What it began is finished without it, the quorum serves,
// and it comes back as one of the others.
func TestKillInTheMiddleOfAMembershipChange(t *testing.T) {
	t.Parallel()
	h := cluster.NewHook(t, "controller.[art]*.*")
	c := cluster.Start(t, cluster.Options{Brokers: 1, Env: []string{h.Env()}})
	joiner := c.StartController(t, 1004)
	cluster.Eventually(t, time.Minute, "the joiner has registered", func() error {
		if _, errs, code := c.CLI(t, "quorum", "add", "1004", "--dry-run"); code != 0 {
			return fmt.Errorf("exit %d: %s", code, errs)
		}
		return nil
	})
	for i, p := range memberPoints {
		active := c.Active(t)
		if active == joiner.ID { // it runs without the hook
			c.Must(t, "quorum", "transfer", "1001")
			active = c.Active(t)
		}
		h.Arm(t)
		out, errs, code := c.CLI(t, append(slices.Clone(p.command), "--timeout", "20s")...)
		pid := h.AwaitKill(t, hitWait)
		if at := h.Reached(t); at != p.point {
			t.Fatalf("it died at %s, want %s", at, p.point)
		}
		dead := c.NodeOf(t, pid)
		t.Logf("controller %d died at %s; the command says exit %d: %s%s", dead, p.point, code, out, errs)
		if dead != active {
			t.Errorf("controller %d was active", active)
		}
		if code != 0 && !strings.HasPrefix(errs, "error: ") {
			t.Errorf("exit %d: %s", code, errs)
		}
		c.Must(t, "topic", "create", fmt.Sprintf("without-%d", i))
		c.Restart(t, dead, h.Env())
		c.AwaitReady(t, dead, recoverWait)
		votersAre(t, c, p.voters)
	}
	staysOut(t, c, joiner.ID)
	c.Kill(t, joiner.ID)
	if q, err := c.Quorum(t); err != nil || len(q.Removed) != 1 || q.Removed[0].ID != joiner.ID {
		t.Errorf("removed: %+v, %v", q, err)
	}
	c.Must(t, "topic", "create", "in-the-end")
	removedAlone(t, c, joiner)
}

// removedAlone starts a controller that was removed with nobody else there: asked, it says so, and what it knew last.
func removedAlone(t *testing.T, c *cluster.Cluster, n cluster.Node) {
	t.Helper()
	for _, id := range []int{1001, 1002, 1003} {
		c.Kill(t, id)
	}
	c.Restart(t, n.ID)
	cluster.Eventually(t, time.Minute, "the removed one says so, alone", func() error {
		out, errs, code := cluster.Run(t, "quorum", "status", "--controllers", n.Addresses["grpc"])
		want := fmt.Sprintf("only controller %d answers, which is out of the quorum", n.ID)
		if code != 0 || !strings.Contains(errs, want) || !strings.Contains(out, fmt.Sprintf("node %d observer state=removed", n.ID)) ||
			!strings.Contains(out, "node 1001 voter state=unreachable") {
			return fmt.Errorf("exit %d: %s%s", code, out, errs)
		}
		return nil
	})
}

var controllerPoint = regexp.MustCompile(`\.At\("(controller\.[^"]+)"\)`)

// Each point of the controller's work that the code names is one at which a test kills it.
func TestEveryControllerPointIsInAList(t *testing.T) {
	files, err := filepath.Glob("../../quorum/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range controllerPoint.FindAllStringSubmatch(string(text), -1) {
			found++
			listed := slices.ContainsFunc(controllerPoints, func(p killPoint) bool { return p.name == m[1] })
			for _, p := range memberPoints {
				listed = listed || p.point == m[1]
			}
			if !listed {
				t.Errorf("%s: no test kills a controller at %s: add it to controllerPoints or memberPoints", name, m[1])
			}
		}
	}
	if found < len(memberPoints) {
		t.Errorf("%d points found in quorum/*.go", found)
	}
}
