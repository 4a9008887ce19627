package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// awaitSuperseded waits until a member says of itself that it is superseded.
func awaitSuperseded(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	quorumtest.Eventually(t, fmt.Sprintf("controller %d is superseded", m.ID), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s, err := controllerpb.NewReaderApiClient(c.Conn(t, m)).NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
		if err == nil && s.GetState() != "superseded" {
			err = fmt.Errorf("it is %q", s.GetState())
		}
		return err
	})
}

// answersNothing asks a superseded controller for everything: it refuses and says why, and names what to do.
// told is the newest lineage that it tells.
func answersNothing(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, told int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cc := c.Conn(t, m)
	reader, operator, broker := controllerpb.NewReaderApiClient(cc), controllerpb.NewOperatorApiClient(cc), controllerpb.NewBrokerApiClient(cc)
	streamed := func(options *controllerpb.ReadOptions) error {
		stream, err := reader.DescribeTopics(ctx, &controllerpb.DescribeTopicsRequest{Options: options})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for name, ask := range map[string]func() error{
		"a strong read": func() error { return streamed(nil) },
		"a local read":  func() error { return streamed(&controllerpb.ReadOptions{Local: true}) },
		"a change": func() error {
			_, err := operator.DeleteTopics(ctx, &controllerpb.DeleteTopicsRequest{})
			return err
		},
		"a heartbeat": func() error {
			_, err := broker.BrokerHeartbeat(ctx, &controllerpb.BrokerHeartbeatRequest{BrokerId: 1})
			return err
		},
		"a registration": func() error {
			_, err := controllerpb.NewControllerApiClient(cc).RegisterController(ctx, &controllerpb.RegisterControllerRequest{})
			return err
		},
		"a stream": func() error { _, err := follow(t, c, m, 0); return err },
	} {
		refusal, ok := client.AsRefusal(ask())
		if !ok || refusal.Code != controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER || refusal.NewestLineage != told ||
			!strings.Contains(refusal.Message, "lineage 1") || !strings.Contains(refusal.Message, "quorum add") {
			t.Errorf("%s at %d: %+v", name, m.ID, refusal)
		}
	}
	if ok, why := m.Node.Ready(); ok || !strings.Contains(why, "lineage 1") {
		t.Errorf("%d is ready: %v, %s", m.ID, ok, why)
	}
	status, err := reader.NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
	if err != nil || status.GetActiveController() != nil || !strings.Contains(status.GetStateReason(), "lineage 1") {
		t.Errorf("status of %d: %v, %v", m.ID, status, err)
	}
}

func topicNames(t *testing.T, cl *client.Client) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := controllerpb.NewReaderApiClient(cl).DescribeTopics(ctx, &controllerpb.DescribeTopicsRequest{})
	for err == nil {
		var r *controllerpb.DescribeTopicsResponse
		if r, err = stream.Recv(); err == nil {
			for _, topic := range r.GetTopics() {
				names = append(names, topic.GetName())
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return names
}

// After an offline recovery on one controller the two others start together from their old directories, a majority of what was. They
// acknowledge nothing and answer nothing, and still so when the recovered one is down; who asks all three gets the recovered truth.
func TestOldMajorityAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "before", 1, 1)
		c.SameImages(t)
		for _, m := range c.Members {
			c.Kill(t, m)
		}
		x, old := c.Members[0], c.Members[1:]
		recoverFrom(t, x)
		c.Run(t, x)
		for _, m := range old {
			c.Run(t, m)
		}
		for _, m := range old {
			awaitSuperseded(t, c, m)
			answersNothing(t, c, m, 1)
		}
		c.Active(t, old...)
		for range 5 {
			if names := topicNames(t, c.Client); len(names) != 1 || names[0] != "before" {
				t.Errorf("topics %v", names)
			}
		}
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, m := range old { // started again, with nobody to tell them
			if err := m.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Run(t, m)
		}
		time.Sleep(10 * time.Second)
		for _, m := range old {
			awaitSuperseded(t, c, m)
			answersNothing(t, c, m, 1)
			if m.IsActive() || m.Node.Metrics().Claims.Load() > 0 {
				t.Errorf("controller %d claimed", m.ID)
			}
		}
	})
}

// The old ones ran on while they were cut off. When the cut ends, a stream that an old one feeds ends with the reason, and what it has
// accepted and not acknowledged is unknown to its caller.
func TestOldMajorityStepsDownWhenItCanBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		active := c.Active(t)
		x := c.Members[0]
		if x == active {
			x = c.Members[1]
		}
		c.RegisterBroker(t, 1)
		c.SameImages(t)
		c.Isolate(x)
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		recoverFrom(t, x)
		c.Run(t, x)
		active = c.Active(t, x)
		stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, active)).Follow(t.Context(), &controllerpb.FollowRequest{
			ClusterId: quorumtest.ClusterID, BrokerId: 1, MetadataOffset: int64(image.NoOffset),
		})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Join(x)
		for err == nil {
			_, err = stream.Recv()
		}
		if refusal, ok := client.AsRefusal(err); !ok || !strings.Contains(refusal.Message, "lineage 1") {
			t.Errorf("the stream ended with %v", err)
		}
		for _, m := range c.Members {
			if m != x {
				awaitSuperseded(t, c, m)
				answersNothing(t, c, m, 1)
			}
		}
		if x.Node.Status().GetState() == "superseded" || x.Fatal() != nil {
			t.Error("the recovered one is superseded")
		}
	})
}

// A registered broker that has followed a newer lineage is believed, as long as the process lives.
func TestBrokerTellsOfANewerLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		m := c.Active(t)
		c.RegisterBroker(t, 1)
		beat := func(id int32) error {
			_, err := controllerpb.NewBrokerApiClient(c.Conn(t, m)).BrokerHeartbeat(t.Context(), &controllerpb.BrokerHeartbeatRequest{BrokerId: id, Lineage: 1})
			return err
		}
		if beat(2) == nil || m.Node.Status().GetState() == "superseded" {
			t.Error("a broker that nobody knows is believed")
		}
		if err := beat(1); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER) {
			t.Errorf("answered with %v", err)
		}
		awaitSuperseded(t, c, m)
		answersNothing(t, c, m, 0)
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Run(t, m)
		c.Active(t)
	})
}

// Who has seen a newer lineage is refused by a controller of an older one, even one that has not heard of it.
func TestCallerThatHasSeenMoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		m := c.Active(t)
		c.Client.Observe(&controllerpb.ActiveController{NodeId: 9, Address: "nowhere:1", Lineage: 3})
		cc, err := c.Client.Conn(m.Config.GRPCAddress)
		if err != nil {
			t.Fatal(err)
		}
		_, err = controllerpb.NewReaderApiClient(cc).ListBrokers(t.Context(), &controllerpb.ListBrokersRequest{Options: &controllerpb.ReadOptions{Local: true}})
		if refusal, ok := client.AsRefusal(err); !ok || !strings.Contains(refusal.Message, "lineage 3") {
			t.Errorf("answered with %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if a, err := c.Client.Active(ctx); err == nil && a.ID == int32(m.ID) {
			t.Errorf("follows %+v", a)
		}
	})
}
