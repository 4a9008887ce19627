package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// fakeSide runs until its context ends, or fails when it is told.
type fakeSide struct {
	name  string
	fail  chan error
	begun chan struct{}
	order *[]string
	mu    *sync.Mutex
}

func (s *fakeSide) Run(ctx context.Context) error {
	close(s.begun)
	select {
	case <-ctx.Done():
		s.mu.Lock()
		*s.order = append(*s.order, s.name)
		s.mu.Unlock()
		return nil
	case err := <-s.fail:
		return err
	}
}

func (s *fakeSide) Ready() (bool, string)                { return false, s.name + " is starting" }
func (s *fakeSide) Register(prometheus.Registerer) error { return nil }

func fakeSides(names ...string) (sides []side, order *[]string) {
	order, mu := new([]string), new(sync.Mutex)
	for _, n := range names {
		sides = append(sides, &fakeSide{name: n, fail: make(chan error, 1), begun: make(chan struct{}), order: order, mu: mu})
	}
	return sides, order
}

func runOptions(t *testing.T) RunOptions {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	c, _, err := Load(env.OS("").FS, Sources{Set: []string{
		"process.roles=broker", "node.id=1", "log.dirs=" + dir, "listeners=KAFKA://127.0.0.1:1,GRPC://127.0.0.1:2",
		"controller.quorum.bootstrap.servers=127.0.0.1:3",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Format(env.OS(""), FormatOptions{Config: c, ClusterID: RandomUUID()}); err != nil {
		t.Fatal(err)
	}
	return RunOptions{Config: c, Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Version: "test", Exit: func(int) {}}
}

func TestSidesStopInOrder(t *testing.T) {
	o := runOptions(t)
	sides, order := fakeSides("broker", "controller")
	o.makeSides = func(Identity) ([]side, error) { return sides, nil }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	for _, s := range sides {
		<-s.(*fakeSide).begun
	}
	if pid, err := RunningPid(o.Env.FS, o.Config.DataDir); err != nil || pid != os.Getpid() {
		t.Errorf("pid %d, %v", pid, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(*order, " "); got != "broker controller" {
		t.Errorf("stopped %s", got)
	}
	if pid, err := RunningPid(o.Env.FS, o.Config.DataDir); err != nil || pid != 0 {
		t.Errorf("still locked by %d, %v", pid, err)
	}
}

func TestSideThatFailsEndsTheNode(t *testing.T) {
	o := runOptions(t)
	sides, order := fakeSides("broker", "controller")
	o.makeSides = func(Identity) ([]side, error) { return sides, nil }
	broken := errors.New("disk is gone")
	sides[1].(*fakeSide).fail <- broken
	if err := Run(t.Context(), o); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if len(*order) != 1 {
		t.Errorf("stopped %v", *order)
	}
}

func TestFirstLogLineSaysWhoRuns(t *testing.T) {
	o := runOptions(t)
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	sides, _ := fakeSides("broker")
	sides[0].(*fakeSide).fail <- nil
	o.makeSides = func(Identity) ([]side, error) { return sides, nil }
	if err := Run(t.Context(), o); err == nil {
		t.Error("a side that ends by itself is no success")
	}
	line, _, _ := strings.Cut(log.String(), "\n")
	for _, want := range []string{"version=test", "nodeId=1", "roles=broker", "KAFKA://127.0.0.1:1", "dataDir=" + o.Config.DataDir, "clusterId="} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
}

func TestTakenHTTPPortIsNamed(t *testing.T) {
	o := runOptions(t)
	l, err := o.Env.Network.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := splitAddress(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o.Config.Listeners = append(o.Config.Listeners, image.Listener{Name: HTTPListener, Host: "127.0.0.1", Port: port})
	sides, _ := fakeSides("broker")
	o.makeSides = func(Identity) ([]side, error) { return sides, nil }
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "listen for HTTP on "+l.Addr().String()) {
		t.Error(err)
	}
}
