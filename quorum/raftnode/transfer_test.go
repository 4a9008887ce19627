package raftnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestMembershipAndTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		fourth := c.newMember(4, "first disk of 4")
		c.members = append(c.members, fourth)
		c.start(fourth)

		conf, err := leader.node.GetConfiguration()
		if err != nil || len(conf.Servers) != 3 {
			t.Fatalf("configuration: %+v, %v", conf, err)
		}
		if err := leader.node.AddNonvoter(t.Context(), fourth.id, fourth.address(), conf.Index); err != nil {
			t.Fatal(err)
		}
		if err := leader.node.AddVoter(t.Context(), fourth.id, fourth.address(), conf.Index); err == nil {
			t.Fatal("a change decided on an old configuration was taken")
		}
		c.commit(leader, "for four")
		c.everybodyHas("for four", fourth)
		if err := leader.node.AddVoter(t.Context(), fourth.id, fourth.address(), 0); err != nil {
			t.Fatal(err)
		}
		if err := leader.node.TransferLeadershipTo(t.Context(), fourth.id, fourth.address()); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the fourth leads", func() bool { return fourth.node.Leadership().Leader })
		c.leader(fourth)
		c.commit(fourth, "before the removal") // the library tells a removed server once, if it is not behind
		c.everybodyHas("before the removal", leader)
		if err := fourth.node.RemoveServer(t.Context(), leader.id, 0); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the removed one hears of it", func() bool {
			conf, _ := leader.node.GetConfiguration()
			return len(conf.Servers) == 3
		})
		c.stop(c.members...)
		disk, err := OpenOffline(env.OS(""), fourth.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		if len(disk.Configuration.Servers) != 3 {
			t.Errorf("configuration on disk: %+v", disk.Configuration)
		}
	})
}

// Suite 6: a transfer to a server that cannot answer fails, proposals are refused meanwhile and accepted afterwards, in the
// same term. That is why entries are fenced where they are applied.
func TestTransferToAStuckTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		target := c.others(leader)[0]
		c.network.Isolate(target.host)
		c.commit(leader, "target is behind")
		term := leader.node.CurrentTerm()
		done := make(chan error)
		go func() { done <- leader.node.TransferLeadershipTo(t.Context(), target.id, target.address()) }()
		synctest.Wait()
		if out := leader.node.Apply([]byte("during")).Wait(); out.Fate != FateNotInLog {
			t.Errorf("during the transfer: %v, %v", out.Fate, out.Err)
		}
		if err := <-done; err == nil {
			t.Error("the transfer succeeded")
		}
		c.leader(leader)
		if got := leader.node.CurrentTerm(); got != term {
			t.Errorf("term went from %d to %d", term, got)
		}
	})
}

func TestTransferIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		leader := c.leader()
		hang := make(chan struct{})
		defer close(hang)
		leader.faults.Add(envtest.Rule{Kind: string(CallStoreLogs), Hang: hang})
		leader.node.Apply([]byte("main loop hangs"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leader.node.TransferLeadership(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("transfer: %v", err)
		}
	})
}

// F22: "leader" twice is two take-overs, also when "not leader" was never seen, and however slow the reader is.
func TestEachNoticeOfLeadershipIsATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeadership()
		metrics := new(Metrics)
		go l.run(metrics)
		for range 10 * notifyQueue { // nobody reads the signal; the library must not block
			l.notices <- true
		}
		synctest.Wait()
		if got := l.current(); got != (Leadership{Leader: true, Takeover: 10 * notifyQueue}) || metrics.Takeovers.Load() != got.Takeover {
			t.Errorf("leadership: %+v", got)
		}
		<-l.changed
		select {
		case <-l.changed:
			t.Error("a second signal without a change")
		default:
		}
		l.notices <- false
		<-l.changed
		if l.current().Leader {
			t.Error("still leader")
		}
		l.notices <- true
		synctest.Wait()
		l.close()
		if l.current().Leader {
			t.Error("leader after close")
		}
	})
}
