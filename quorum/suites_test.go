package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// Suite 8: an entry of a former claim that comes late, through the former active controller that leads again and through
// its successor, is fenced on every replica, and changes neither offset nor chain.
func TestLateSubmitterIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		former := c.Active(t)
		late := former.Node.EntryOfThisClaim(t)
		successor := c.Members[(former.ID-1001+1)%3]
		id := int32(successor.ID)
		if _, err := operatorOf(c).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{ControllerId: &id}); err != nil {
			t.Fatal(err)
		}
		c.Active(t, former)
		for _, m := range []*quorumtest.Member{successor, former} {
			to := int32(m.ID)
			if _, err := operatorOf(c).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{ControllerId: &to}); err != nil {
				t.Fatal(err)
			}
			c.CreateTopic(t, fmt.Sprintf("under-%d", m.ID), 1, 1)
			c.SameImages(t)
			before := m.Node.Status()
			// As it is, and as if its claim had been made in the present term: an older one of the same term is fenced too.
			for _, term := range []uint64{late.Term(), before.GetActiveController().GetControllerEpoch()} {
				if verdict := m.Node.Submit(late.Encode(t, term)); verdict != "fenced" {
					t.Errorf("through %d, as of term %d: %s", m.ID, term, verdict)
				}
			}
			c.SameImages(t)
			if after := m.Node.Status(); after.GetMetadataOffset() != before.GetMetadataOffset() || after.GetChain() != before.GetChain() {
				t.Errorf("through %d: offset %d, was %d", m.ID, after.GetMetadataOffset(), before.GetMetadataOffset())
			}
			c.CreateTopic(t, fmt.Sprintf("after-%d", m.ID), 1, 1)
		}
	})
}

// Suite 9: each controller in turn is killed and started again, for a while without the others. It says that it is ready only
// when it has applied what was committed while it was down; until then it feeds no broker.
func TestRestartLoopGatesOnCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		for round := range 9 {
			m := c.Members[round%3]
			c.Kill(t, m)
			active := c.Active(t, m)
			c.CreateTopic(t, fmt.Sprintf("round-%d", round), 1, 1)
			committed := active.Node.Status().GetMetadataOffset()
			apart(t, c, m)
			c.Run(t, m)
			quorumtest.Eventually(t, "it serves, and nobody tells it what of its log is committed", func() error {
				if ok, why := m.Node.Ready(); ok {
					t.Fatalf("round %d: %d is ready and has heard nobody: %s", round, m.ID, why)
				}
				err := feeds(t, c, m)
				if err == nil {
					t.Fatalf("round %d: %d feeds a broker before it has caught up", round, m.ID)
				}
				if !strings.Contains(err.Error(), "not caught up") {
					return err // it does not listen yet
				}
				return nil
			})
			heal(t, c, m)
			quorumtest.Eventually(t, "it is ready", func() error {
				ok, why := m.Node.Ready()
				if !ok {
					return fmt.Errorf("%s", why)
				}
				if at := m.Node.Status().GetMetadataOffset(); at < committed {
					t.Fatalf("round %d: %d is ready at metadata offset %d, and %d was committed before it started", round, m.ID, at, committed)
				}
				return nil
			})
			if err := feeds(t, c, m); err != nil {
				t.Errorf("round %d: %d is ready and feeds nobody: %v", round, m.ID, err)
			}
		}
		c.SameImages(t)
	})
}

// feeds asks a member for its stream, and tells what came instead of its first frame.
func feeds(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) error {
	t.Helper()
	stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, m)).Follow(soon(t), &controllerpb.FollowRequest{
		ClusterId: quorumtest.ClusterID, BrokerId: 99, MetadataOffset: -1,
	})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}
