package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Hook is a named point at which one process dies as by kill -9, once each time it is armed. Processes take part that
// are started with its Env by a binary that was built with the tag quorate_hooks.
type Hook struct {
	Point string
	guard string
}

var hooksMade atomic.Int64

// NewHook makes a disarmed hook.
func NewHook(t testing.TB, point string) *Hook {
	t.Helper()
	h := &Hook{Point: point, guard: filepath.Join(t.TempDir(), fmt.Sprintf("guard-%d", hooksMade.Add(1)))}
	if err := os.WriteFile(h.guard, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

// Env is what the processes that may die get into their environment.
func (h *Hook) Env() string { return "QUORATE_HOOK=" + h.Point + "=" + h.guard }

// Arm lets the next process that comes to the point die there.
func (h *Hook) Arm(t testing.TB) {
	t.Helper()
	if err := os.Remove(h.guard); err != nil {
		t.Fatal(err)
	}
}

// Hit tells which process has died at the point since the hook was armed; 0 if none has.
func (h *Hook) Hit(t testing.TB) int {
	t.Helper()
	_, pid := h.read(t)
	return pid
}

// Reached is the point at which it died, of a hook whose point is a pattern of package path.
func (h *Hook) Reached(t testing.TB) string {
	t.Helper()
	point, _ := h.read(t)
	return point
}

// read reads what the process that died has left.
func (h *Hook) read(t testing.TB) (point string, pid int) {
	t.Helper()
	data, err := os.ReadFile(h.guard)
	if errors.Is(err, os.ErrNotExist) || len(data) == 0 {
		return "", 0
	}
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	at := strings.LastIndexByte(text, ' ')
	if at < 0 || len(text) == len(data) {
		return "", 0 // being written
	}
	point = text[:at]
	if matched, err := path.Match(h.Point, point); err != nil || !matched {
		return "", 0
	}
	if pid, err = strconv.Atoi(text[at+1:]); err != nil {
		return "", 0
	}
	return point, pid
}

// Alive tells whether a process that has reached the point is not gone yet.
func (h *Hook) Alive(pid int) bool { return !gone(pid) }

// AwaitKill waits until a process has died at the point, and returns its pid.
func (h *Hook) AwaitKill(t testing.TB, limit time.Duration) int {
	t.Helper()
	pid := 0
	Eventually(t, limit, "a process dies at "+h.Point, func() error {
		if pid = h.Hit(t); pid == 0 {
			return errors.New("the point was not reached")
		}
		if !gone(pid) {
			return fmt.Errorf("pid %d has reached it and is not gone", pid)
		}
		return nil
	})
	return pid
}

// KillIfAlive kills a node, and waits until it is gone, unless it has died before.
func (c *Cluster) KillIfAlive(t testing.TB, id int) bool {
	t.Helper()
	n := c.Node(t, id)
	pid := c.pid(n)
	if !c.runs(pid, n) || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return false
	}
	Eventually(t, 20*time.Second, "the process is gone", func() error {
		if !gone(pid) {
			return fmt.Errorf("pid %d", pid)
		}
		return nil
	})
	return true
}

// NodeOf is the node whose data directory a process has used last.
func (c *Cluster) NodeOf(t testing.TB, pid int) int {
	t.Helper()
	for _, n := range c.Nodes {
		if c.pid(n) == pid {
			return n.ID
		}
	}
	t.Fatalf("no node had the pid %d", pid)
	return -1
}

// Readyz is why a node says that it is not ready; nil if it is.
func (c *Cluster) Readyz(t testing.TB, id int) error {
	t.Helper()
	if err := readyz(c.Node(t, id).Addresses["http"]); err != nil {
		return fmt.Errorf("node %d: %w", id, err)
	}
	return nil
}

func readyz(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(body)))
	}
	return err
}

// AwaitReady waits until a node says that it is ready.
func (c *Cluster) AwaitReady(t testing.TB, id int, limit time.Duration) {
	t.Helper()
	Eventually(t, limit, fmt.Sprintf("node %d is ready", id), func() error { return c.Readyz(t, id) })
}

// AwaitInSync waits until a broker is ready and, by its own word, in the ISR of each of its partitions of the topics.
func (c *Cluster) AwaitInSync(t testing.TB, broker int, limit time.Duration, topics ...string) {
	t.Helper()
	client := c.Client(t, kgo.SeedBrokers(c.Node(t, broker).Addresses["kafka"]))
	defer client.Close()
	Eventually(t, limit, fmt.Sprintf("broker %d is in every ISR", broker), func() error {
		if err := c.Readyz(t, broker); err != nil {
			return err
		}
		return inSync(client.SeedBrokers()[0], int32(broker), topics)
	})
}

func inSync(asked *kgo.Broker, id int32, topics []string) error {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := asked.RetriableRequest(ctx, request)
	if err != nil {
		return err
	}
	for _, topic := range answer.(*kmsg.MetadataResponse).Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return err
		}
		for _, p := range topic.Partitions {
			if slices.Contains(p.Replicas, id) && !slices.Contains(p.ISR, id) {
				return fmt.Errorf("%s-%d: replicas %v, ISR %v", *topic.Topic, p.Partition, p.Replicas, p.ISR)
			}
		}
	}
	return nil
}
