package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is a context for one call.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func topics(t *testing.T, c *quorumtest.Cluster, options *controllerpb.ReadOptions) (map[string]*controllerpb.TopicDescription, error) {
	t.Helper()
	found := map[string]*controllerpb.TopicDescription{}
	stream, err := controllerpb.NewReaderApiClient(c.Client).DescribeTopics(soon(t), &controllerpb.DescribeTopicsRequest{Options: options})
	if err != nil {
		return nil, err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			if strings.Contains(err.Error(), "EOF") {
				return found, nil
			}
			return nil, err
		}
		for _, d := range r.GetTopics() {
			found[d.GetName()] = d
		}
	}
}

func TestOneControllerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "orders", 3, 1)
		got, err := topics(t, c, nil)
		if err != nil || len(got["orders"].GetPartitions()) != 3 {
			t.Fatalf("described %v, %v", got, err)
		}
		one := int32(1)
		refused, err := controllerpb.NewOperatorApiClient(c.Client).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
			Topics: []*controllerpb.CreatableTopic{{Name: "orders", Partitions: &one, ReplicationFactor: &one}},
		})
		if err != nil || refused.GetTopics()[0].GetError().GetCode() != controllerpb.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS {
			t.Errorf("second create: %v, %v", refused, err)
		}
	})
}

// A change that one controller has acknowledged is there on the next, whatever happens to the first.
func TestFailoverKeepsWhatWasAcknowledged(t *testing.T) {
	for _, how := range []string{"killed", "isolated", "stopped"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := quorumtest.Start(t, quorumtest.Options{})
				c.RegisterBroker(t, 1)
				for i := range 5 {
					c.CreateTopic(t, fmt.Sprintf("before-%d", i), 2, 1)
				}
				first := c.Active(t)
				switch how {
				case "killed":
					c.Kill(t, first)
				case "isolated":
					c.Isolate(first)
				case "stopped":
					if err := first.Stop(); err != nil {
						t.Fatal(err)
					}
				}
				second := c.Active(t, first)
				c.CreateTopic(t, "after", 2, 1)
				got, err := topics(t, c, nil)
				if err != nil || len(got) != 6 {
					t.Fatalf("%d topics, want 6: %v", len(got), err)
				}
				if how == "isolated" {
					c.Join(first)
				} else {
					c.Run(t, first)
				}
				c.SameImages(t)
				if second.Fatal() != nil || first.Fatal() != nil {
					t.Errorf("fatal: %v, %v", first.Fatal(), second.Fatal())
				}
			})
		})
	}
}

// F02, F22: a controller that was deposed without knowing decides nothing: callers are sent away, and what it had
// decided ahead is fenced or never logged. The entry that comes late here is one of a claim that had written nothing, so that
// nothing but its claim and its term tells it from one of the next claim.
func TestF22DeposedControllerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		<-time.After(3 * time.Second) // the controllers' own registrations
		former := c.Active(t)
		first := c.Members[(former.ID-1001+1)%3]
		id := int32(first.ID)
		if _, err := operatorOf(c).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{ControllerId: &id}); err != nil {
			t.Fatal(err)
		}
		c.Active(t, former)
		late := first.Node.EntryOfThisClaim(t)
		c.Isolate(first)
		one := int32(1)
		outcome := make(chan error, 1)
		go func() {
			_, err := controllerpb.NewOperatorApiClient(c.Conn(t, first)).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
				Topics: []*controllerpb.CreatableTopic{{Name: "lost", Partitions: &one, ReplicationFactor: &one}},
			})
			outcome <- err
		}()
		if verdict := c.Active(t, first).Node.Submit(late.Encode(t, late.Term())); verdict != "fenced" {
			t.Errorf("an entry of the claim before: %s", verdict)
		}
		c.CreateTopic(t, "kept", 1, 1)
		c.Join(first)
		if err := <-outcome; err == nil {
			t.Error("an isolated controller acknowledged a change")
		}
		c.SameImages(t)
		got, err := topics(t, c, nil)
		if err != nil || got["lost"] != nil || got["kept"] == nil {
			t.Errorf("topics %v, %v", got, err)
		}
	})
}

// A standby refuses changes and names the active controller.
func TestStandbyNamesTheActiveController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		active := c.Active(t)
		for _, m := range c.Members {
			if m == active {
				continue
			}
			_, err := controllerpb.NewOperatorApiClient(c.Conn(t, m)).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{})
			if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER) {
				t.Fatalf("standby answered %v", err)
			}
			if named := m.Node.Status().GetActiveController(); named.GetNodeId() != int32(active.ID) || named.GetAddress() != active.Config.GRPCAddress {
				t.Errorf("standby names %v, active is %d at %s", named, active.ID, active.Config.GRPCAddress)
			}
		}
	})
}

// Sessions: a silent broker is fenced; one that died together with the active controller is fenced all the same; a
// controller that was paused fences nobody when it wakes.
func TestSilentBrokerIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		b1, _ := c.RegisterBroker(t, 1), c.RegisterBroker(t, 2)
		c.CreateTopic(t, "orders", 4, 2)
		b1.Silence()
		awaitState(t, c, 1, true)
		awaitState(t, c, 2, false)
		got, err := topics(t, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got["orders"].GetPartitions() {
			if s := p.GetState(); len(s.GetIsr()) != 1 || s.GetIsr()[0] != 2 || s.GetLeader() != 2 {
				t.Errorf("partition %v", s)
			}
		}
	})
}

func TestBrokerThatDiedWithTheControllerIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		b1, _ := c.RegisterBroker(t, 1), c.RegisterBroker(t, 2)
		b1.Silence()
		first := c.Active(t)
		c.Kill(t, first)
		c.Active(t, first)
		awaitState(t, c, 1, true)
		awaitState(t, c, 2, false)
		c.Run(t, first)
	})
}

func TestPausedControllerThatWakesFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		b := c.RegisterBroker(t, 1)
		b.Silence()
		m := c.Members[0]
		<-time.After(m.Config.SessionTimeout - time.Second)
		m.Clock.Jump(time.Minute) // the process was stopped
		<-time.After(2 * time.Second)
		if fenced(t, c, 1) {
			t.Error("fenced right after the controller woke")
		}
		awaitState(t, c, 1, true) // but silence for a whole session counts
	})
}

// F27: a step of the time of day fences nobody.
func TestF27ClockStepFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "before", 1, 1)
		<-time.After(3 * time.Second) // the controllers' own registrations
		active := c.Active(t)
		before, offset := stateOf(t, c, "before"), offsetOf(active)
		for _, m := range c.Members {
			m.Clock.StepWall(time.Hour)
		}
		<-time.After(3 * time.Second)
		for _, m := range c.Members {
			m.Clock.StepWall(-2 * time.Hour)
		}
		<-time.After(3 * time.Second)
		if fenced(t, c, 1) || !active.IsActive() {
			t.Error("a clock step fenced the broker or cost the active role")
		}
		// A fence would be made up for by the next heartbeat, but not unwritten.
		if now := stateOf(t, c, "before"); now.GetLeaderEpoch() != before.GetLeaderEpoch() || offsetOf(active) != offset {
			t.Errorf("the offset went from %d to %d, leader epoch from %d to %d", offset, offsetOf(active), before.GetLeaderEpoch(), now.GetLeaderEpoch())
		}
		c.CreateTopic(t, "later", 1, 1)
		c.SameImages(t)
	})
}

func fenced(t *testing.T, c *quorumtest.Cluster, id int32) bool {
	t.Helper()
	r, err := controllerpb.NewReaderApiClient(c.Client).ListBrokers(soon(t), &controllerpb.ListBrokersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.GetBrokers() {
		if b.GetRegistration().GetBrokerId() == id {
			return b.GetRegistration().GetFenced()
		}
	}
	t.Fatalf("broker %d is not listed", id)
	return false
}

func awaitState(t *testing.T, c *quorumtest.Cluster, id int32, want bool) {
	t.Helper()
	quorumtest.Eventually(t, fmt.Sprintf("broker %d fenced=%v", id, want), func() error {
		if fenced(t, c, id) != want {
			return errors.New("not yet")
		}
		return nil
	})
}

// A decision that is cut into several entries goes on under the next controller when the first dies in the middle of it.
func TestFenceCutInTheMiddleIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *quorumtest.Cluster
		armed := make(chan struct{}, 1)
		c = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			entries := 0
			cfg.Env.Hook = func(point string) {
				if point != "controller.propose" || len(armed) == 0 {
					return
				}
				if entries++; entries == 2 { // the first entry of the fence is on its way, the second is not
					<-armed
					for _, m := range c.Members {
						if m.Config.NodeID == cfg.NodeID {
							c.Isolate(m)
						}
					}
				}
			}
		}})
		b1, _ := c.RegisterBroker(t, 1), c.RegisterBroker(t, 2)
		for i := range 8 {
			c.CreateTopic(t, fmt.Sprintf("wide-%d", i), 1000, 2)
		}
		first := c.Active(t)
		armed <- struct{}{}
		b1.Silence()
		c.Active(t, first)
		awaitState(t, c, 1, true)
		got, err := topics(t, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, topic := range got {
			for _, p := range topic.GetPartitions() {
				if s := p.GetState(); len(s.GetIsr()) != 1 || s.GetLeader() != 2 {
					t.Fatalf("%s: %v", name, s)
				}
			}
		}
		c.Join(first)
		c.SameImages(t)
		if len(armed) != 0 {
			t.Error("the fence was never cut")
		}
	})
}
