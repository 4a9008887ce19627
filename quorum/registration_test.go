package quorum_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// F14: who may register, against a running quorum.
func TestF14WhoMayRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		api := controllerpb.NewBrokerApiClient(c.Client)
		b := c.RegisterBroker(t, 3)
		register := func(change func(*controllerpb.RegisterBrokerRequest)) (*controllerpb.RegisterBrokerResponse, error) {
			r := c.NewBroker(3, 0).Registration
			change(r)
			return api.RegisterBroker(soon(t), r)
		}
		again, err := register(func(*controllerpb.RegisterBrokerRequest) {})
		if err != nil || again.GetBrokerEpoch() != b.Epoch || fenced(t, c, 3) {
			t.Errorf("the same incarnation again: epoch %d, %v, want %d and still unfenced", again.GetBrokerEpoch(), err, b.Epoch)
		}
		next := c.NewBroker(3, 1).Registration
		_, err = register(func(r *controllerpb.RegisterBrokerRequest) { r.IncarnationId = next.IncarnationId })
		if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION) {
			t.Errorf("another incarnation within the session: %v", err)
		}
		_, err = register(func(r *controllerpb.RegisterBrokerRequest) { r.ClusterId = "another" })
		if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID) {
			t.Errorf("of another cluster: %v", err)
		}
		b.Silence()
		awaitState(t, c, 3, true)
		life := c.NewBroker(3, 1)
		life.Register(t)
		if life.Epoch <= b.Epoch || !fenced(t, c, 3) {
			t.Errorf("a new incarnation got epoch %d after %d, fenced %v", life.Epoch, b.Epoch, fenced(t, c, 3))
		}
		if _, err := b.Heartbeat(false); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH) {
			t.Errorf("a heartbeat of the former life: %v", err)
		}
		life.Beat(t)
		c.CreateTopic(t, "led", 1, 1)
		life.Silence()
		if r, err := life.Heartbeat(true); err != nil || r.GetIsFenced() || r.GetShouldShutDown() {
			t.Fatalf("the shutdown begins with %v, %v", r, err)
		}
		third, begun := c.NewBroker(3, 2), time.Now()
		third.Register(t)
		if third.Epoch <= life.Epoch || !fenced(t, c, 3) || time.Since(begun) > c.Members[0].Config.SessionTimeout/2 {
			t.Errorf("beside one that is shutting down: epoch %d after %d, fenced %v, after %v", third.Epoch, life.Epoch, fenced(t, c, 3), time.Since(begun))
		}
	})
}

// F24: a controller serves only when its claim is applied. Until then it sends everyone away, however long that takes.
func TestF24NotActiveBeforeTheClaimIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *quorumtest.Cluster
		var cut atomic.Bool
		held := make(chan *quorumtest.Member, 1)
		c = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			cfg.Env.Hook = func(point string) {
				// The next one to claim is cut off right before: its claim is in its log, but cannot be committed.
				if point == "controller.claim.before-propose" && cut.CompareAndSwap(true, false) {
					for _, m := range c.Members {
						if m.Config.NodeID == cfg.NodeID {
							c.Isolate(m)
							held <- m
						}
					}
				}
			}
		}})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "before", 1, 1)
		first := c.Active(t)
		cut.Store(true)
		c.Isolate(first)
		claiming := <-held
		for range 20 {
			if claiming.IsActive() {
				t.Fatal("active although its claim cannot have been committed")
			}
			<-time.After(10 * time.Millisecond)
		}
		c.Join(first)
		c.Join(claiming)
		c.CreateTopic(t, "after", 1, 1)
		c.SameImages(t)
	})
}
