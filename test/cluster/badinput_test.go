package cluster_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// result is what a command printed and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

func resultOf(stdout, stderr string, code int) result { return result{stdout, stderr, code} }

// wantRefusal wants exit 1 and one line of a reason, which holds all the words.
func wantRefusal(t *testing.T, r result, words ...string) {
	t.Helper()
	if r.code != 1 {
		t.Errorf("exit %d, want 1\n%s", r.code, r.stderr)
	}
	var reasons []string
	for line := range strings.Lines(r.stderr) {
		if strings.HasPrefix(line, "error: ") {
			reasons = append(reasons, line)
		}
	}
	if len(reasons) != 1 || !strings.HasSuffix(r.stderr, reasons[0]) {
		t.Fatalf("%d lines of a reason, want one, at the end:\n%s", len(reasons), r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(reasons[0], w) {
			t.Errorf("%q is not in %q", w, reasons[0])
		}
	}
}

// fingerprint is the content of a folder but for the pid of who used it last.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "pid" {
			return err
		}
		fmt.Fprintln(sum, path, d.IsDir())
		if d.IsDir() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A node that cannot have its directory or its ports says why and what to do, exits 1 and leaves everything as it was.
func TestStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Controllers: 1, Brokers: 2, Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "2", "--replication-factor", "2")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1})
	w.AwaitAcks(t, 50)
	controller, other, own := c.Node(t, 1001), c.Node(t, 1), c.Node(t, 2)
	for _, n := range []cluster.Node{controller, own} {
		pid := strings.TrimSpace(readFile(t, filepath.Join(n.DataDir, "pid")))
		wantRefusal(t, resultOf(c.RunNode(t, n.ID)), "in use by process "+pid, "stop it first")
		c.AwaitReady(t, n.ID, time.Minute)
	}
	w.Stop(t)
	c.Kill(t, own.ID)
	dir := func(name string, files map[string]string) string { return makeDir(t, name, files) }
	identity := readFile(t, filepath.Join(own.DataDir, "meta.properties"))
	foreign := dir("foreign", nil) // formatted below, as an operator would who has made the directory
	foreignConfig := filepath.Join(t.TempDir(), "foreign.properties")
	if err := os.WriteFile(foreignConfig, []byte(readFile(t, own.Argv[slices.Index(own.Argv, "--config")+1])+"log.dirs="+foreign+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(c.Must(t, "random-uuid"))
	if _, errs, code := cluster.Run(t, "format", "--config", foreignConfig, "--cluster-id", id); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	for name, refused := range map[string]struct {
		dir   string
		words []string
	}{
		"unformatted":     {dir("empty", nil), []string{"not formatted", "run quorate format"}},
		"another node's":  {other.DataDir, []string{"belongs to node 1", "node.id is 2", "correct"}},
		"not a directory": {filepath.Join(dir("file", map[string]string{"x": ""}), "x"), []string{"not a directory", "log.dirs"}},
		"garbage":         {dir("garbage", map[string]string{"meta.properties": "\x00\xfe\x01 not what it was"}), []string{"meta.properties", "restore the file"}},
		"cut":             {dir("cut", map[string]string{"meta.properties": identity[:len(identity)/2]}), []string{"meta.properties", "restore the file"}},
		"newer":           {dir("newer", map[string]string{"meta.properties": strings.Replace(identity, "version=1", "version=2", 1)}), []string{`version is "2"`, "reads 1"}},
		"another cluster": {foreign, []string{"another cluster", id, c.ClusterID, "correct log.dirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := ""
			if name != "another cluster" && name != "another node's" { // it begins a life before it hears of it; it is in use
				before = fingerprint(t, refused.dir)
			}
			wantRefusal(t, resultOf(c.RunNode(t, own.ID, "--set", "log.dirs="+refused.dir)), refused.words...)
			if before != "" && fingerprint(t, refused.dir) != before {
				t.Error("the directory was changed")
			}
		})
	}
	wantRefusal(t, resultOf(c.RunNode(t, own.ID, "--set", "num.partition=3")), "num.partition", "did you mean num.partitions?")
	for _, listener := range []string{"kafka", "grpc", "http"} {
		t.Run("port of "+listener, func(t *testing.T) {
			address := own.Addresses[listener]
			taken := listen(t, address)
			defer taken.Close()
			before := fingerprint(t, own.DataDir)
			wantRefusal(t, resultOf(c.RunNode(t, own.ID)), address, "address already in use", "free the port")
			if fingerprint(t, own.DataDir) != before {
				t.Error("the data directory was changed")
			}
		})
	}
	c.Restart(t, own.ID)
	c.AwaitInSync(t, own.ID, 2*time.Minute, "orders")
	c.VerifyReplica(t, own.ID, "orders", w.Acks())
}

// makeDir makes a directory of its own with these files.
func makeDir(t *testing.T, name string, files map[string]string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// The same for a controller's ports.
func TestControllerPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	s := cluster.NewSolo(t)
	if _, errs, code := cluster.Run(t, s.Format()...); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	for name, address := range map[string]string{"GRPC": s.GRPC, "RAFT": s.Raft, "HTTP": s.HTTP} {
		taken := listen(t, address)
		wantRefusal(t, resultOf(cluster.Run(t, s.Server()...)), name, address, "address already in use", "free the port")
		taken.Close()
	}
	s.Serves(t)
}

// listen takes a port that nobody listens on.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var taken net.Listener
	cluster.Eventually(t, 20*time.Second, "the port "+address, func() (err error) {
		taken, err = net.Listen("tcp", address)
		return err
	})
	return taken
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A full disk at format and at start: refused, nothing damaged, and all is well once there is space.
func TestFullDiskAtStart(t *testing.T) {
	s := cluster.NewSolo(t)
	mount := filepath.Dir(s.DataDir)
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs the right to mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(mount, "filler")
	fill := func() {
		t.Helper()
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	free := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	wantRefusal(t, resultOf(cluster.Run(t, s.Format()...)), "no space left", "free some space")
	if left, _ := os.ReadDir(mount); len(left) != 1 {
		t.Errorf("left after a format on a full disk: %v", left)
	}
	free()
	if _, errs, code := cluster.Run(t, s.Format()...); code != 0 {
		t.Fatalf("format: %s", errs)
	}
	fill()
	before := fingerprint(t, s.DataDir)
	wantRefusal(t, resultOf(cluster.Run(t, s.Server()...)), "no space left", "free some space")
	if fingerprint(t, s.DataDir) != before {
		t.Error("the data directory was changed")
	}
	free()
	s.Serves(t)
}

// metric is the sum of a node's counters whose name and labels begin so.
func metric(t *testing.T, n cluster.Node, name string) float64 {
	t.Helper()
	var body string
	cluster.Eventually(t, time.Minute, "metrics", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addresses["http"]+"/metrics", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		body = string(data)
		return err
	})
	sum := 0.0
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			fields := strings.Fields(line)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// peakMiB is the most memory that a node's process ever held.
func peakMiB(t *testing.T, n cluster.Node) int {
	t.Helper()
	pid := strings.TrimSpace(readFile(t, filepath.Join(n.DataDir, "pid")))
	for line := range strings.Lines(readFile(t, "/proc/"+pid+"/status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
