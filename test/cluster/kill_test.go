package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// acceptance is set by `make acceptance`: full observation times, and bounds on the clock are asserted. The ordinary
// test run asserts only what holds on any machine, and logs the rest.
var acceptance = os.Getenv("QUORATE_ACCEPTANCE") != ""

func observe(short, full time.Duration) time.Duration {
	if acceptance {
		return full
	}
	return short
}

// A partition leader dies: nothing acknowledged is lost, another leads, and the dead one comes back by itself.
func TestKillPartitionLeader(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1})
	w.AwaitAcks(t, 200)
	leader := c.Leader(t, "orders", 0)
	killed := time.Now()
	c.Kill(t, leader)
	cmd := c.Restart(t, leader)
	if cmd.Process.Pid <= 0 {
		t.Fatal("not started")
	}
	cluster.Eventually(t, 60*time.Second, "another live leader", func() error {
		p, err := c.PartitionOf(t, "orders", 0)
		if err == nil && (p.Leader < 0 || p.Leader == leader) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	t.Logf("another leader after %v (session time-out 3 s)", time.Since(killed).Round(10*time.Millisecond))
	if took := time.Since(killed); acceptance && took > 4500*time.Millisecond {
		t.Errorf("leader after %v, want session time-out + 1 s, and the time of a command", took)
	}
	c.WholeISRs(t, 90*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}

// The active controller dies, or is paused; or a standby that feeds the leader is paused: producers hardly notice.
func TestActiveControllerDiesOrPauses(t *testing.T) {
	for _, how := range []string{"kill", "pause", "pause-standby"} {
		t.Run(how, func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{})
			c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
			w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1})
			w.AwaitAcks(t, 100)
			before, after := observe(3*time.Second, 60*time.Second), observe(4*time.Second, 10*time.Second)
			from := time.Now()
			<-time.After(before)
			active := c.Active(t)
			victim := active
			if how == "pause-standby" {
				victim = standbyOf(t, c, active)
			}
			event := time.Now()
			if how == "kill" {
				c.Kill(t, victim)
			} else {
				c.Pause(t, victim)
			}
			n := 0
			cluster.Eventually(t, 30*time.Second, "creates succeed again", func() error {
				n++
				_, errs, code := c.CLI(t, "topic", "create", fmt.Sprintf("after-%d", n), "--partitions", "1", "--replication-factor", "3", "--timeout", "5s", "--no-wait")
				if code != 0 {
					return fmt.Errorf("exit %d: %s", code, errs)
				}
				return nil
			})
			created := time.Since(event)
			<-time.After(time.Until(event.Add(after)))
			usual, worst := w.LongestGap(from, event), w.LongestGap(event, event.Add(after))
			t.Logf("%s: longest gap %v before, %v after; create after %v", how, usual, worst, created)
			if acceptance {
				if bound := max(2*usual, 500*time.Millisecond); worst > bound {
					t.Errorf("longest gap %v, want at most %v", worst, bound)
				}
				if created > 2*time.Second {
					t.Errorf("first create after %v, want at most 2 s", created)
				}
			}
			if how != "kill" {
				c.Resume(t, victim)
			}
			c.WholeISRs(t, 60*time.Second)
			w.Stop(t)
			c.VerifyAcknowledged(t, w)
		})
	}
}

// A follower that is paused for less than a session leaves the ISR by its leader's request, and comes back.
func TestPausedFollowerLeavesByLagAndReturns(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Set: []string{"replica.lag.time.max.ms=3000"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1, Plain: 1})
	w.AwaitAcks(t, 100)
	leader := c.Leader(t, "orders", 0)
	p, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	follower := p.Replicas[slices.IndexFunc(p.Replicas, func(id int) bool { return id != leader })]
	paused := time.Now()
	c.Pause(t, follower)
	cluster.Eventually(t, 8*time.Second, "the ISR is smaller", func() error {
		p, err = c.PartitionOf(t, "orders", 0)
		if err == nil && slices.Contains(p.ISR, follower) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	t.Logf("smaller after %v", time.Since(paused).Round(10*time.Millisecond))
	brokers, err := c.Brokers(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		if b.ID == follower && b.State != "UNFENCED" {
			t.Errorf("the paused follower is %s, want UNFENCED: it left by lag, not by its session", b.State)
		}
	}
	acked := len(w.Acks())
	w.AwaitAcks(t, acked+50)
	c.Resume(t, follower)
	c.WholeISRs(t, 60*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
	c.AwaitLogLine(t, "orders-0", "lag")
}

// A follower that is paused for longer than its session is fenced.
func TestPausedFollowerIsFenced(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 1})
	w.AwaitAcks(t, 50)
	p, err := c.PartitionOf(t, "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	follower := p.Replicas[1]
	c.Pause(t, follower)
	cluster.Eventually(t, 30*time.Second, "fenced", func() error {
		brokers, err := c.Brokers(t)
		if err != nil {
			return err
		}
		for _, b := range brokers {
			if b.ID == follower && b.State != "FENCED" {
				return fmt.Errorf("%+v", b)
			}
		}
		return nil
	})
	c.AwaitLogLine(t, "session")
	c.Resume(t, follower)
	c.WholeISRs(t, 60*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
}

// All six processes die at once and are started again: every topic and every acknowledged record is there, and the
// three controllers hold the same image to the byte.
func TestAllDieAndComeBack(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.Must(t, "topic", "create", "orders", "--partitions", "6", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1})
	w.AwaitAcks(t, 300)
	for _, n := range c.Nodes {
		c.Kill(t, n.ID)
	}
	for _, n := range c.Nodes {
		c.Restart(t, n.ID)
	}
	c.WholeISRs(t, 90*time.Second)
	w.Stop(t)
	c.VerifyAcknowledged(t, w)
	c.SameDumps(t)
}

// standbyOf is a standby that feeds the leader of orders-0; if the active controller itself does, any standby.
func standbyOf(t *testing.T, c *cluster.Cluster, active int) int {
	t.Helper()
	if server := c.StreamServer(t, c.Leader(t, "orders", 0)); server != active {
		return server
	}
	for _, n := range c.Nodes {
		if slices.Contains(n.Roles, "controller") && n.ID != active {
			return n.ID
		}
	}
	t.Fatal("no standby")
	return -1
}
