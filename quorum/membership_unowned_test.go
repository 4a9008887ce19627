package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// abandon begins `quorum add` of a fourth controller and takes the active one away as soon as that is a member without a vote,
// and with it the fourth if that is to be silent.
func abandon(t *testing.T, silent bool) (c *quorumtest.Cluster, former, joiner *quorumtest.Member) {
	t.Helper()
	admitted, goOn := make(chan struct{}), make(chan struct{})
	admit := sync.OnceFunc(func() { close(admitted) })
	c = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
		cfg.Env.Hook = func(point string) {
			if point == "controller.add.nonvoter" {
				admit()
				<-goOn
			}
		}
	}})
	joiner = c.NewJoiner(t, 3, 0)
	c.Run(t, joiner)
	awaitRegistered(t, c, joiner)
	former = c.Active(t, joiner)
	go func() {
		_, _ = c.Operator(t, former).AddController(within(t, time.Minute), &controllerpb.AddControllerRequest{ControllerId: int32(joiner.ID)})
	}()
	<-admitted
	c.Isolate(former)
	if silent {
		c.Isolate(joiner)
	}
	close(goOn)
	_ = former.Stop()
	return c, former, joiner
}

// changesNow are the changes of the quorum that are under way, as the active controller tells them.
func changesNow(c *quorumtest.Cluster, except ...*quorumtest.Member) (text string, known bool) {
	for _, m := range c.Members {
		if slices.Contains(except, m) || !m.IsActive() {
			continue
		}
		var out []string
		for _, c := range m.Node.Status().GetChanges() {
			out = append(out, fmt.Sprintf("%s (%v)", c.GetWhat(), time.Duration(c.GetForMs())*time.Millisecond))
		}
		return strings.Join(out, "; "), true
	}
	return "", false
}

// nothingUnderWay waits until the active controller says so.
func nothingUnderWay(t *testing.T, c *quorumtest.Cluster) {
	t.Helper()
	quorumtest.Eventually(t, "nothing is under way any more", func() error {
		if got, known := changesNow(c); !known || got != "" {
			return fmt.Errorf("known %v: %s", known, got)
		}
		return nil
	})
}

// A newcomer whose `quorum add` died with the active controller gets its vote from the next one, unasked.
func TestAbandonedNewcomerGetsItsVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, former, joiner := abandon(t, false)
		c.Active(t, former, joiner)
		since := time.Now()
		// Who asks again, as a client does, is not refused for it.
		if _, err := operatorOf(c).AddController(within(t, 20*time.Second), &controllerpb.AddControllerRequest{ControllerId: int32(joiner.ID)}); err != nil {
			t.Errorf("asked again: %v", err)
		}
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004"}, former)
		if took := time.Since(since); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		c.Join(former)
		c.Run(t, former)
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004"})
		nothingUnderWay(t, c)
		c.SameImages(t)
	})
}

// If it does not answer, it is taken out within the limit, is in nobody's way until then, and the status tells of it.
func TestAbandonedNewcomerThatIsSilentIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, former, joiner := abandon(t, true)
		c.Join(former)
		c.Run(t, former)
		quorumtest.Eventually(t, "the status tells of it", func() error {
			if got, _ := changesNow(c, joiner); !strings.Contains(got, "quorum add 1004, which was left unfinished") || !strings.Contains(got, "1m0s of silence") {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004?"}, joiner)
		<-time.After(30 * time.Second)
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004?"}, joiner)
		if _, err := operatorOf(c).TransferLeadership(within(t, 10*time.Second), &controllerpb.TransferLeadershipRequest{ValidateOnly: true}); err != nil {
			t.Errorf("it is in the way of others: %v", err)
		}
		<-time.After(40 * time.Second) // a minute since it was found, and some checks
		c.AwaitVoters(t, []string{"1001", "1002", "1003"}, joiner)
		nothingUnderWay(t, c)
		c.Join(joiner)
		add(t, c, joiner) // it never had a vote, so it may come again
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004"})
	})
}
