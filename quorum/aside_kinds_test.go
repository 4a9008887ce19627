package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

const (
	// asideItems is how many partitions make a decision a large one.
	asideItems = 1000
	// asideTakes is how long a large decision takes in these tests, in the bubble's time.
	asideTakes = 400 * time.Millisecond
	// asideWaitMax is what a heartbeat may wait meanwhile.
	asideWaitMax = 50 * time.Millisecond
)

// slowAsides makes large decisions take their time, and counts them by cause.
type slowAsides struct {
	mu   sync.Mutex
	made map[string]int
	// during is called once, when the next one of that cause begins.
	during map[string]func()
}

func (s *slowAsides) hook(point string) {
	const prefix = "controller.aside."
	if len(point) <= len(prefix) || point[:len(prefix)] != prefix {
		return
	}
	cause := point[len(prefix):]
	s.mu.Lock()
	s.made[cause]++
	during := s.during[cause]
	delete(s.during, cause)
	s.mu.Unlock()
	if during != nil {
		during()
	}
	<-time.After(asideTakes)
}

func (s *slowAsides) count(cause string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[cause]
}

func (s *slowAsides) onNext(cause string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.during[cause] = do
}

// crowd is a quorum with four brokers, each with more than a thousand memberships and a thousand partitions of its own. Broker 4
// is the one that must not wait.
type crowd struct {
	*quorumtest.Cluster
	t       *testing.T
	asides  *slowAsides
	brokers map[int32]*quorumtest.Broker
}

func startCrowd(t *testing.T) *crowd {
	t.Helper()
	s := &slowAsides{made: map[string]int{}, during: map[string]func(){}}
	c := &crowd{t: t, asides: s, brokers: map[int32]*quorumtest.Broker{}}
	c.Cluster = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
		cfg.Env.Hook = s.hook
		cfg.Defaults.MinInsyncReplicas = 3
		cfg.LeaderRebalance = false
	}})
	for id := range int32(4) {
		c.brokers[id+1] = c.RegisterBroker(t, id+1)
	}
	c.doesNotHoldUp("CreateTopics", func() { c.CreateTopic(t, "t", 1600, 3) })
	c.CreateTopic(t, "alone", 4400, 1)
	return c
}

// doesNotHoldUp does something that takes a large decision, and meanwhile beats for broker 4.
func (c *crowd) doesNotHoldUp(cause string, do func()) {
	c.t.Helper()
	before, done := c.asides.count(cause), make(chan struct{})
	go func() { defer close(done); do() }()
	longest := time.Duration(0)
	for {
		sent := time.Now()
		if _, err := c.brokers[4].Heartbeat(false); err != nil {
			c.t.Fatalf("%s: %v", cause, err)
		}
		longest = max(longest, time.Since(sent))
		select {
		case <-done:
			if made := c.asides.count(cause) - before; made == 0 {
				c.t.Errorf("%s was not decided beside the loop", cause)
			}
			if longest > asideWaitMax {
				c.t.Errorf("%s: a heartbeat of another broker waited %v", cause, longest)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// image is the active controller's committed one.
func (c *crowd) image() *image.Image {
	c.t.Helper()
	m := c.Active(c.t)
	im, err := m.Node.ReadAt(c.t.Context(), offsetOf(m))
	if err != nil {
		c.t.Fatal(err)
	}
	return im
}

// awaitFenced waits until the session of a broker that has fallen silent is over.
func (c *crowd) awaitFenced(id int32) {
	quorumtest.Eventually(c.t, fmt.Sprintf("broker %d is fenced", id), func() error {
		if b, _ := c.image().Broker(image.BrokerID(id)); !b.Fenced {
			return errors.New("not yet")
		}
		return nil
	})
}

// Whatever is large is decided beside the loop, and nobody else's heartbeat waits for it.
func TestNothingLargeHoldsUpHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCrowd(t)
		operator := controllerpb.NewOperatorApiClient(c.Client)
		check := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		c.doesNotHoldUp("SessionExpired", func() { c.brokers[2].Silence(); c.awaitFenced(2) })
		c.doesNotHoldUp("RegisterBroker", func() {
			crashed := c.NewBroker(2, 1)
			crashed.Registration.StopKind = metadatapb.StopKind_STOP_KIND_MACHINE_CRASH
			crashed.Registration.JudgedOffset = 1 << 40
			crashed.Register(t)
		})
		for id, p := range c.image().PartitionsWithELR(2) {
			if image.Contains(p.ELR, 2) {
				t.Fatalf("the machine of broker 2 crashed, and it is in the ELR of %v: %v", id, p)
			}
		}
		c.brokers[3].Silence()
		c.doesNotHoldUp("UnregisterBroker", func() {
			_, err := operator.UnregisterBroker(soon(t), &controllerpb.UnregisterBrokerRequest{BrokerId: 3})
			check(err)
		})
		c.brokers[1].Silence()
		c.awaitFenced(1)
		c.doesNotHoldUp("ApplyConfigs", func() {
			value := "2"
			_, err := operator.AlterConfigs(soon(t), &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{{
				Type:    metadatapb.ResourceType_RESOURCE_TYPE_BROKER,
				Changes: []*controllerpb.ConfigChange{{Name: "min.insync.replicas", Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &value}},
			}}})
			check(err)
			if c.asides.count("ApplyConfigs") == 0 {
				t.Error("the change of configs was answered before what follows from it was decided")
			}
		})
		c.doesNotHoldUp("UpdateFeatures", func() {
			_, err := operator.UpdateFeatures(soon(t), &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{
				Name: image.FeatureEligibleLeaderReplicas, Type: controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE,
			}}})
			check(err)
		})
		if n := c.image().ELRMemberships(); n > 0 {
			t.Errorf("%d memberships in ELRs with eligible leader replicas off", n)
		}
		c.doesNotHoldUp("BrokerHeartbeat", func() {
			if r, err := c.brokers[1].Heartbeat(false); err != nil || r.GetIsFenced() {
				t.Errorf("broker 1 comes back: %v, %v", r, err)
			}
		})
		if im := c.image(); im.LeaderCount(1) < 1100 {
			t.Errorf("broker 1 is back and leads %d partitions", im.LeaderCount(1))
		}
		c.SameImages(t)
	})
}

// Callers who always have large requests waiting do not keep sessions from ending, for time has its turn between two of them, nor
// brokers from coming back: what a heartbeat wishes is void before the last of them is decided.
func TestLargeRequestsDoNotKeepSessionsFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCrowd(t)
		operator := controllerpb.NewOperatorApiClient(c.Client)
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		defer callers.Wait()
		defer cancel()
		for i := range 6 {
			callers.Go(func() {
				partitions, factor := int32(asideItems), int32(1)
				for ctx.Err() == nil {
					_, err := operator.CreateTopics(ctx, &controllerpb.CreateTopicsRequest{ValidateOnly: true, Topics: []*controllerpb.CreatableTopic{
						{Name: fmt.Sprintf("large-%d", i), Partitions: &partitions, ReplicationFactor: &factor},
					}})
					if err != nil && ctx.Err() == nil {
						t.Errorf("create: %v", err)
					}
				}
			})
		}
		for c.asides.count("CreateTopics") < 10 {
			<-time.After(asideTakes)
		}
		c.brokers[2].Silence()
		before := c.asides.count("CreateTopics")
		c.awaitFenced(2)
		if c.asides.count("CreateTopics") == before {
			t.Error("no large request was decided meanwhile")
		}
		c.brokers[2].Beat(t) // it comes back, and does not wait behind all of them
	})
}

// A claim that begins with a large decision serves heartbeats at once.
func TestLargeActivationHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCrowd(t)
		c.brokers[1].Silence()
		c.awaitFenced(1)
		began, answered := make(chan struct{}), make(chan struct{})
		c.asides.onNext("Activate", func() { close(began); <-answered })
		c.Kill(t, c.Active(t))
		<-began
		quorumtest.Eventually(t, "a heartbeat is answered before the claim has decided", func() error {
			_, err := c.brokers[4].Heartbeat(false)
			return err
		})
		close(answered)
		c.brokers[1].Beat(t)
		if im := c.image(); im.LeaderlessCount() > 0 {
			t.Errorf("%d partitions have no leader", im.LeaderlessCount())
		}
	})
}

// A broker that registers anew while it is being unregistered is decided on after that, on the image that holds it; one controller
// after the other decides about a broker that falls silent while the active controller fails.
func TestLargeDecisionsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCrowd(t)
		c.brokers[3].Silence()
		again := c.NewBroker(3, 1)
		registered := make(chan struct{})
		c.asides.onNext("UnregisterBroker", func() { go func() { defer close(registered); again.Register(t) }() })
		before := c.image().Offset()
		_, err := controllerpb.NewOperatorApiClient(c.Client).UnregisterBroker(soon(t), &controllerpb.UnregisterBrokerRequest{BrokerId: 3})
		if err != nil {
			t.Fatal(err)
		}
		<-registered
		im := c.image()
		if b, ok := im.Broker(3); !ok || int64(b.Epoch) != again.Epoch || b.Epoch <= image.BrokerEpoch(before)+1000 || im.ISRCount(3) > 0 {
			t.Errorf("broker 3 is %+v in %d ISRs; it registered with epoch %d, and %d was the offset before it left", b, im.ISRCount(3), again.Epoch, before)
		}
		active := c.Active(t)
		c.asides.onNext("SessionExpired", func() { go c.Kill(t, active) })
		c.brokers[2].Silence()
		quorumtest.Eventually(t, "another controller is active", func() error {
			if active.Running() {
				return errors.New("the first one lives")
			}
			return nil
		})
		c.Active(t, active)
		c.awaitFenced(2)
		if im := c.image(); im.ISRCount(2) > 0 || im.LeaderCount(2) > 0 {
			t.Errorf("broker 2 is fenced, is in %d ISRs and leads %d partitions", im.ISRCount(2), im.LeaderCount(2))
		}
		c.SameImages(t, active)
	})
}
