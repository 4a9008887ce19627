package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Solo is a controller, as a rule the only one of its cluster, formatted and started as an operator would without dev.
type Solo struct {
	ID                   int
	Dir, Config, DataDir string
	ClusterID, Directory string
	GRPC, Raft, HTTP     string

	binary  string
	initial string // the initial controllers
}

// NewSolo writes the configuration of a controller; nothing is formatted yet.
func NewSolo(t testing.TB) *Solo {
	t.Helper()
	return NewControllers(t, 1)[0]
}

// NewControllers writes the configurations of the controllers of a cluster; nothing is formatted yet.
func NewControllers(t testing.TB, count int) []*Solo {
	t.Helper()
	var all []*Solo
	var initial, bootstrap []string
	clusterID := uuid(t)
	for i := range count {
		s := &Solo{ID: 1001 + i, Dir: t.TempDir(), binary: Build(t), ClusterID: clusterID, Directory: uuid(t)}
		s.Config, s.DataDir = filepath.Join(s.Dir, "server.properties"), filepath.Join(s.Dir, "home", "data")
		if err := os.Mkdir(filepath.Dir(s.DataDir), 0o755); err != nil {
			t.Fatal(err)
		}
		s.GRPC, s.Raft, s.HTTP = freeAddress(t), freeAddress(t), freeAddress(t)
		initial, bootstrap = append(initial, fmt.Sprintf("%d@%s:%s", s.ID, s.Raft, s.Directory)), append(bootstrap, s.GRPC)
		all = append(all, s)
	}
	for _, s := range all {
		s.initial = strings.Join(initial, ",")
		text := fmt.Sprintf("process.roles=controller\nnode.id=%d\nlog.dirs=%s\nlisteners=GRPC://%s,RAFT://%s,HTTP://%s\n"+
			"controller.quorum.bootstrap.servers=%s\n", s.ID, s.DataDir, s.GRPC, s.Raft, s.HTTP, strings.Join(bootstrap, ","))
		if err := os.WriteFile(s.Config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Format is the command line that formats the data directory.
func (s *Solo) Format() []string {
	return []string{"format", "--config", s.Config, "--cluster-id", s.ClusterID, "--initial-controllers", s.initial}
}

func uuid(t testing.TB) string {
	t.Helper()
	out, errs, code := Run(t, "random-uuid")
	if code != 0 {
		t.Fatalf("random-uuid: exit %d: %s", code, errs)
	}
	return strings.TrimSpace(out)
}

// Server is the command line that runs the controller.
func (s *Solo) Server() []string { return []string{"server", "--config", s.Config} }

// Start starts the controller and returns at once. Its lines go to log; it is killed when the test ends.
func (s *Solo) Start(t testing.TB, log *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(s.binary, s.Server()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill(cmd) })
	return cmd
}

// Kill ends the controller without a warning, if it still runs.
func (s *Solo) Kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// Serves starts the controller, waits until it is ready, stops it in order and wants exit 0.
func (s *Solo) Serves(t testing.TB) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(s.binary, s.Server()...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func(sig syscall.Signal) error { _ = cmd.Process.Signal(sig); return <-ended }
	deadline := time.NewTimer(readyWait)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := readyz(s.HTTP)
		if err == nil {
			break
		}
		select {
		case <-ended:
			t.Fatalf("the controller ended:\n%s", log.String())
		case <-deadline.C:
			_ = stop(syscall.SIGKILL)
			t.Fatalf("the controller is not ready: %v\n%s", err, log.String())
		case <-poll.C:
		}
	}
	if err := stop(syscall.SIGTERM); err != nil {
		t.Fatalf("stop: %v\n%s", err, log.String())
	}
}

// Run runs the binary to its end, and returns what it printed and its exit code.
func Run(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return run(t, exec.Command(Build(t), args...))
}

// RunNode runs a node's command line, with more of it, to its end.
func (c *Cluster) RunNode(t testing.TB, id int, extra ...string) (stdout, stderr string, code int) {
	t.Helper()
	n := c.Node(t, id)
	return run(t, exec.Command(n.Argv[0], append(n.Argv[1:], extra...)...))
}

func run(t testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	limit := time.AfterFunc(commandWait, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// freeAddress is a loopback address below the ports that the system gives to outgoing connections.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}
