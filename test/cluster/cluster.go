package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// readyWait bounds the start of a cluster on a busy machine.
	readyWait = 90 * time.Second
	// stopWait is a little more than dev gives its nodes.
	stopWait = 45 * time.Second
	// commandWait bounds one command.
	commandWait = 60 * time.Second
)

// Options configure a cluster.
type Options struct {
	Controllers, Brokers int
	Set                  []string
	// Dir is kept and used again when it is not empty.
	Dir string
	// Env is added to the environment of dev and so of every node.
	Env []string
	// Binary replaces the one that Build makes.
	Binary string
}

// Node is a row of cluster.json.
type Node struct {
	ID        int               `json:"id"`
	Roles     []string          `json:"roles"`
	PID       int               `json:"pid"`
	Argv      []string          `json:"argv"`
	Config    string            `json:"config"`
	DataDir   string            `json:"dataDir"`
	Log       string            `json:"log"`
	Addresses map[string]string `json:"addresses"`
}

// Cluster is a running `quorate dev`.
type Cluster struct {
	Dir         string
	Binary      string
	ClusterID   string   `json:"clusterId"`
	Kafka       []string `json:"kafka"`
	Controllers []string `json:"controllers"`
	Nodes       []Node   `json:"nodes"`

	dev    *exec.Cmd
	exited chan struct{}
	output *lockedBuffer

	mu        sync.Mutex
	restarted []*exec.Cmd
}

var build struct {
	sync.Once
	path string
	err  error
}

// Build makes the binary once a test process, or takes the one that QUORATE_BIN names.
func Build(t testing.TB) string {
	t.Helper()
	build.Do(func() {
		if path := os.Getenv("QUORATE_BIN"); path != "" {
			build.path = path
			return
		}
		// One place for all runs of a checkout: a binary is large, and nobody would clear away a new one each time.
		checkout, err := filepath.Abs(filepath.Join("..", ".."))
		if err != nil {
			build.err = err
			return
		}
		place := fnv.New64a()
		place.Write([]byte(checkout))
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("quorate-test-bin-%d-%x", os.Getuid(), place.Sum64()))
		if build.err = os.MkdirAll(dir, 0o755); build.err != nil {
			return
		}
		build.path = filepath.Join(dir, "quorate")
		cmd := exec.Command("go", "build", "-tags", "quorate_hooks", "-o", build.path, "github.com/quorate/quorate/cmd/quorate")
		if out, err := cmd.CombinedOutput(); err != nil {
			build.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatalf("build: %v", build.err)
	}
	return build.path
}

// Start runs `quorate dev` and waits until it says ready. It is stopped when the test ends.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Build(t)
	}
	dir := o.Dir
	if dir == "" {
		made, err := os.MkdirTemp("", "quorate-cluster")
		if err != nil {
			t.Fatal(err)
		}
		dir = made
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("data and logs are kept in %s", dir)
				return
			}
			os.RemoveAll(dir)
		})
	}
	args := []string{"dev", "--dir", dir, "--port-base", "0"}
	if o.Controllers > 0 {
		args = append(args, "--controllers", fmt.Sprint(o.Controllers))
	}
	if o.Brokers > 0 {
		args = append(args, "--brokers", fmt.Sprint(o.Brokers))
	}
	for _, s := range o.Set {
		args = append(args, "--set", s)
	}
	c := &Cluster{Dir: dir, Binary: o.Binary, exited: make(chan struct{}), output: &lockedBuffer{}}
	c.dev = exec.Command(o.Binary, args...)
	c.dev.Env = append(os.Environ(), o.Env...)
	c.dev.Stdout, c.dev.Stderr = c.output, c.output
	c.dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.dev.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.dev.Wait(); close(c.exited) }()
	t.Cleanup(func() { c.Stop(t) })
	Eventually(t, readyWait, "dev says ready", func() error {
		select {
		case <-c.exited:
			t.Fatalf("dev ended: %v\n%s", c.dev.ProcessState, c.output)
		default:
		}
		if !strings.Contains("\n"+c.output.String(), "\nready") {
			return fmt.Errorf("not yet:\n%s", c.output)
		}
		return nil
	})
	c.reload(t)
	return c
}

func (c *Cluster) reload(t testing.TB) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	if err != nil {
		t.Fatalf("cluster.json: %v", err)
	}
}

// Output is what dev has printed.
func (c *Cluster) Output() string { return c.output.String() }

// Stop tells dev to stop, waits for exit 0 and makes sure that no process of the cluster is left.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-c.exited:
	default:
		_ = c.dev.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-c.exited:
		if code := c.dev.ProcessState.ExitCode(); code != 0 && !t.Failed() {
			t.Errorf("dev exited with %d:\n%s", code, c.output)
		}
	case <-time.After(stopWait):
		t.Errorf("dev did not stop within %v:\n%s", stopWait, c.output)
		_ = c.dev.Process.Kill()
		<-c.exited
	}
	for _, n := range c.Nodes {
		if pid := c.pid(n); pid > 0 && c.runs(pid, n) {
			t.Errorf("node %d (pid %d) outlived dev", n.ID, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Node returns a node by id.
func (c *Cluster) Node(t testing.TB, id int) Node {
	t.Helper()
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	t.Fatalf("no node %d", id)
	return Node{}
}

// pid is the node's present process, from its data directory; cluster.json has only the first one.
func (c *Cluster) pid(n Node) int {
	data, err := os.ReadFile(filepath.Join(n.DataDir, "pid"))
	if err != nil {
		return n.PID
	}
	pid := 0
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		return n.PID
	}
	return pid
}

// runs tells whether the pid is still this node's process.
func (c *Cluster) runs(pid int, n Node) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(cmdline) == 0 {
		return false
	}
	return strings.HasPrefix(string(cmdline), n.Argv[0]+"\x00")
}

// Signal sends a signal to a node's process.
func (c *Cluster) Signal(t testing.TB, id int, sig syscall.Signal) {
	t.Helper()
	n := c.Node(t, id)
	pid := c.pid(n)
	if !c.runs(pid, n) {
		t.Fatalf("node %d (pid %d) does not run", id, pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal node %d: %v", id, err)
	}
}

// Kill ends a node by SIGKILL and waits until it is gone.
func (c *Cluster) Kill(t testing.TB, id int) {
	t.Helper()
	n := c.Node(t, id)
	pid := c.pid(n)
	c.Signal(t, id, syscall.SIGKILL)
	Eventually(t, 20*time.Second, "the process is gone", func() error {
		if !gone(pid) {
			return fmt.Errorf("pid %d", pid)
		}
		return nil
	})
}

// gone tells whether a process has been reaped. A zombie is not gone: its leader may be one while other threads still
// hold the lock of the data directory.
func gone(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return errors.Is(err, os.ErrNotExist)
}

// Pause stops a node by SIGSTOP; Resume lets it go on.
func (c *Cluster) Pause(t testing.TB, id int)  { t.Helper(); c.Signal(t, id, syscall.SIGSTOP) }
func (c *Cluster) Resume(t testing.TB, id int) { t.Helper(); c.Signal(t, id, syscall.SIGCONT) }

// Restart starts a killed node again by its argv, as a person would.
func (c *Cluster) Restart(t testing.TB, id int, env ...string) *exec.Cmd {
	t.Helper()
	n := c.Node(t, id)
	log, err := os.OpenFile(n.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.Argv[0], n.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.restarted = append(c.restarted, cmd)
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		select {
		case <-done:
		case <-time.After(time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	return cmd
}

// CLI runs the binary against this cluster and returns what it printed and its exit code.
func (c *Cluster) CLI(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Binary, append(args, "--cluster", c.Dir)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Must runs a command that has to succeed.
func (c *Cluster) Must(t testing.TB, args ...string) string {
	t.Helper()
	out, errs, code := c.CLI(t, args...)
	if code != 0 {
		t.Fatalf("quorate %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// LogOf is what a node has logged.
func (c *Cluster) LogOf(t testing.TB, id int) string {
	t.Helper()
	data, err := os.ReadFile(c.Node(t, id).Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Eventually polls until check returns nil, and fails with its last answer when the time is over.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		case <-pause.C:
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*lockedBuffer)(nil)

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
