package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// StartController formats a controller without initial controllers, as one that joins later, and starts it. It becomes one of
// the cluster's nodes, and ends with the test.
func (c *Cluster) StartController(t testing.TB, id int) Node {
	t.Helper()
	dir := filepath.Join(c.Dir, fmt.Sprintf("joiner-%d", id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := Node{
		ID: id, Roles: []string{"controller"}, DataDir: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"),
		Addresses: map[string]string{"grpc": freeAddress(t), "raft": freeAddress(t), "http": freeAddress(t)},
	}
	config := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf("process.roles=controller\nnode.id=%d\nlog.dirs=%s\nlisteners=GRPC://%s,RAFT://%s,HTTP://%s\n"+
		"controller.quorum.bootstrap.servers=%s\n", id, n.DataDir, n.Addresses["grpc"], n.Addresses["raft"], n.Addresses["http"],
		strings.Join(c.Controllers, ","))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	n.Config = config
	n.Argv = []string{c.Binary, "server", "--config", config}
	out, errs, code := run(t, exec.Command(c.Binary, "format", "--config", config, "--cluster-id", c.ClusterID, "--no-initial-controllers"))
	if code != 0 {
		t.Fatalf("format: exit %d\n%s%s", code, out, errs)
	}
	c.Nodes = append(c.Nodes, n)
	c.Restart(t, id)
	t.Cleanup(func() { c.end(n) })
	return n
}

// end kills a node that dev does not know.
func (c *Cluster) end(n Node) {
	if pid := c.pid(n); pid > 0 && c.runs(pid, n) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// VotersOf are the voters as one controller tells them, ascending, asked by its own GRPC address.
func (c *Cluster) VotersOf(t testing.TB, id int) ([]int, error) {
	t.Helper()
	status, err := c.statusOf(t, id)
	if err != nil {
		return nil, err
	}
	var voters []int
	for _, m := range status.GetMembers() {
		if m.GetVoter() {
			voters = append(voters, int(m.GetNodeId()))
		}
	}
	slices.Sort(voters)
	return voters, nil
}
