package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// movedPartitions is how many partitions each plan moves.
const movedPartitions = 100

// plan is a file in the format of Kafka's tools.
type plan struct {
	Version    int          `json:"version"`
	Partitions []planTarget `json:"partitions"`
}

type planTarget struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Replicas  []int  `json:"replicas"`
}

// movesOf is what `partition reassignments -o json` says.
type movesOf struct {
	Partitions []struct {
		Partition int   `json:"partition"`
		Original  []int `json:"original"`
		Progress  []struct {
			Broker    int   `json:"broker"`
			Bytes     int64 `json:"bytes"`
			BytesToGo int64 `json:"bytesToGo"`
		} `json:"progress"`
	} `json:"partitions"`
	SilentBrokers []int `json:"silentBrokers"`
}

// A hundred partitions are moved by plan while producers run and the active controller dies twice; then half of another
// plan is cancelled.
func TestMovesSurviveTheActiveController(t *testing.T) {
	if !acceptance {
		t.Parallel()
	}
	cluster.Build(t)
	began := time.Now()
	c := cluster.Start(t, cluster.Options{Brokers: 4, Set: []string{"broker.session.timeout.ms=5000", "broker.heartbeat.interval.ms=500"}})
	o := operator{t, c}
	const topic = "orders"
	rotations := func(ids ...int) func(int) []int {
		return func(p int) []int { return slices.Concat(ids[p%len(ids):], ids[:p%len(ids)]) }
	}
	before, after := rotations(1, 2, 3), rotations(4, 2, 1)
	o.does(fmt.Sprintf("topic create %s --replica-assignment %s --config min.insync.replicas=2", topic, assignment(before)), 0)
	w := c.StartWriters(t, topic, cluster.WriterOptions{Idempotent: 2, Plain: 1, Pad: 500})
	w.AwaitAcks(t, 500)

	// Broker 4, to which everything moves, stands still, so that the moves are under way when the controllers die.
	c.Pause(t, 4)
	o.does("partition reassign --no-wait --plan "+writePlan(t, topic, movedPartitions, after), 0, "reassigned partition orders-99")
	for range 2 {
		active := c.Active(t)
		c.Kill(t, active)
		cluster.Eventually(t, 30*time.Second, "another active controller, that goes on with the moves", func() error {
			q, err := c.Quorum(t)
			if err == nil && (q.ActiveController < 0 || q.ActiveController == active) {
				return fmt.Errorf("%+v", q)
			}
			if n := len(moves(t, c).Partitions); n != movedPartitions {
				return fmt.Errorf("%d partitions are being moved", n)
			}
			return err
		})
		c.Restart(t, active)
	}
	c.Resume(t, 4)
	awaitMoved(t, c, topic, after)
	t.Logf("moved after %v", time.Since(began).Round(time.Second))
	w.AwaitAcks(t, len(w.Acks())+200)

	// Another plan, and for a quarter of it another target after that; half of it is cancelled.
	c.Pause(t, 3)
	o.does("partition reassign --no-wait --plan "+writePlan(t, topic, movedPartitions/4, rotations(3, 1)), 0)
	target := rotations(1, 3, 2)
	o.does("partition reassign --no-wait --plan "+writePlan(t, topic, movedPartitions, target), 0)
	if m := moves(t, c); len(m.Partitions) != movedPartitions || !slices.Equal(m.Partitions[0].Original, after(0)) {
		t.Errorf("the second plan moves %d partitions, from %+v", len(m.Partitions), m.Partitions[:min(1, len(m.Partitions))])
	}
	o.does("partition cancel --no-wait --plan "+writePlan(t, topic, movedPartitions/2, target), 0, "cancelled the move of partition orders-49")
	checkCancelled(t, c, topic, movedPartitions/2, after)
	c.Resume(t, 3)
	awaitMoved(t, c, topic, func(p int) []int {
		if p < movedPartitions/2 {
			return after(p)
		}
		return target(p)
	})
	checkCancelled(t, c, topic, movedPartitions/2, after)
	w.AwaitAcks(t, len(w.Acks())+200)
	w.Stop(t)
	c.VerifyReplicas(t, topic, w.Acks(), nil)
	c.SameDumps(t)
	t.Logf("all after %v", time.Since(began).Round(time.Second))
	if took := time.Since(began); acceptance && took > 90*time.Second {
		t.Errorf("took %v, want at most 90s", took)
	}
}

// assignment is --replica-assignment of all partitions.
func assignment(of func(int) []int) string {
	text := ""
	for p := range movedPartitions {
		for i, id := range of(p) {
			switch {
			case i > 0:
				text += ":"
			case p > 0:
				text += ","
			}
			text += fmt.Sprint(id)
		}
	}
	return text
}

// writePlan writes a plan for the first n partitions.
func writePlan(t *testing.T, topic string, n int, target func(int) []int) string {
	t.Helper()
	p := plan{Version: 1}
	for i := range n {
		p.Partitions = append(p.Partitions, planTarget{topic, i, target(i)})
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func moves(t *testing.T, c *cluster.Cluster) (m movesOf) {
	t.Helper()
	out, errs, code := c.CLI(t, "partition", "reassignments", "-o", "json")
	if code != 0 {
		t.Logf("partition reassignments: exit %d: %s", code, errs)
		return m
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// awaitMoved waits until every partition has its replicas, in order, all in sync.
func awaitMoved(t *testing.T, c *cluster.Cluster, topic string, target func(int) []int) {
	t.Helper()
	cluster.Eventually(t, 60*time.Second, "the moves are complete", func() error {
		topics, err := c.Describe(t, topic)
		if err != nil || len(topics) != 1 {
			return fmt.Errorf("%d topics, %w", len(topics), err)
		}
		waiting := 0
		var one cluster.Partition
		for _, p := range topics[0].Partitions {
			if !slices.Equal(p.Replicas, target(p.Partition)) || len(p.ISR) != len(p.Replicas) || p.Leader < 0 {
				waiting++
				one = p
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d partitions are not there, such as %+v", waiting, one)
		}
		return nil
	})
	if m := moves(t, c); len(m.Partitions) > 0 {
		t.Errorf("still being moved: %+v", m)
	}
}

// checkCancelled wants the first n partitions to have their original replicas, in order, and a live leader.
func checkCancelled(t *testing.T, c *cluster.Cluster, topic string, n int, original func(int) []int) {
	t.Helper()
	topics, err := c.Describe(t, topic)
	if err != nil || len(topics) != 1 {
		t.Fatalf("%d topics, %v", len(topics), err)
	}
	brokers, err := c.Brokers(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range topics[0].Partitions[:n] {
		live := slices.ContainsFunc(brokers, func(b cluster.Broker) bool { return b.ID == p.Leader && b.State == "UNFENCED" })
		if !slices.Equal(p.Replicas, original(p.Partition)) || !slices.Contains(p.Replicas, p.Leader) || !live {
			t.Errorf("cancelled partition %d is %+v, want the replicas %v and one of them, live, as leader", p.Partition, p, original(p.Partition))
		}
	}
}
