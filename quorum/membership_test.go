package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
	"github.com/quorate/quorate/quorum/raftnode"
)

// within is a context for one call that takes its time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func operatorOf(c *quorumtest.Cluster) controllerpb.OperatorApiClient {
	return controllerpb.NewOperatorApiClient(c.Client)
}

// begin runs a joiner and waits until it says what it waits for.
func begin(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	c.Run(t, m)
	quorumtest.Eventually(t, "a joiner says what it waits for", func() error {
		if ok, why := m.Node.Ready(); ok || !strings.Contains(why, fmt.Sprintf("quorate quorum add %d", m.ID)) {
			return fmt.Errorf("ready %v: %s", ok, why)
		}
		return nil
	})
}

// add adds a controller by its number, as soon as it has registered.
func add(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	quorumtest.Eventually(t, fmt.Sprintf("%d is added", m.ID), func() error {
		_, err := operatorOf(c).AddController(within(t, 20*time.Second), &controllerpb.AddControllerRequest{ControllerId: int32(m.ID)})
		if quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED) {
			return err
		}
		if err != nil {
			t.Fatal(err)
		}
		return nil
	})
}

// awaitRegistered waits until a joiner has told the quorum of itself.
func awaitRegistered(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) {
	t.Helper()
	quorumtest.Eventually(t, fmt.Sprintf("%d is registered", m.ID), func() error {
		_, err := operatorOf(c).AddController(soon(t), &controllerpb.AddControllerRequest{ControllerId: int32(m.ID), ValidateOnly: true})
		return err
	})
}

func remove(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) *controllerpb.RemoveControllerResponse {
	t.Helper()
	r, err := operatorOf(c).RemoveController(within(t, 20*time.Second), &controllerpb.RemoveControllerRequest{ControllerId: int32(m.ID)})
	if err != nil {
		t.Fatalf("remove %d: %v", m.ID, err)
	}
	return r
}

// refusedWith wants a refusal with a code and words.
func refusedWith(t *testing.T, err error, code controllerpb.ErrorCode, words ...string) {
	t.Helper()
	if !quorumtest.Refused(err, code) {
		t.Errorf("%v, want %s", err, code.KafkaName())
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// A quorum of three takes in two more and gives up its active one, which hands over first. The one that was given up
// stays out, says why, and comes back with another directory only.
func TestQuorumGrowsAndGivesUpItsActiveController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) { cfg.SnapshotEntries, cfg.TrailingEntries = 20, 5 }})
		c.RegisterBroker(t, 1)
		fourth := c.NewJoiner(t, 3, 0)
		begin(t, c, fourth)
		add(t, c, fourth)
		again, err := operatorOf(c).AddController(soon(t), &controllerpb.AddControllerRequest{ControllerId: 1004})
		if err != nil || !again.GetWasVoter() {
			t.Errorf("added again: %v, %v", again, err)
		}
		fifth := c.NewJoiner(t, 4, 0)
		c.Run(t, fifth)
		add(t, c, fifth)
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004", "1005"})

		first := c.Active(t)
		left := slices.DeleteFunc([]string{"1001", "1002", "1003", "1004", "1005"}, func(v string) bool { return v == fmt.Sprint(first.ID) })
		if r := remove(t, c, first); r.GetWasRemoved() {
			t.Error("it was removed before")
		}
		if r := remove(t, c, first); !r.GetWasRemoved() {
			t.Error("removed a second time")
		}
		c.AwaitVoters(t, left, first)
		next := c.Active(t, first)
		saysRemoved(t, first)
		for i := range 30 { // the record lives on in snapshots
			c.CreateTopic(t, fmt.Sprintf("t-%d", i), 1, 1)
		}
		c.Kill(t, first)
		epoch := next.Node.Status().GetActiveController().GetControllerEpoch()
		c.Run(t, first)
		saysRemoved(t, first)
		<-time.After(5 * time.Second)
		if now := next.Node.Status().GetActiveController(); now.GetControllerEpoch() != epoch || now.GetNodeId() != int32(next.ID) {
			t.Errorf("it disturbed the quorum: active %v, was %d in %d", now, next.ID, epoch)
		}
		_, err = operatorOf(c).AddController(soon(t), &controllerpb.AddControllerRequest{
			ControllerId: int32(first.ID), DirectoryId: first.Config.DirectoryID.Bytes(), RaftAddress: first.Config.RaftAddress,
		})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY, "stays out", "--no-initial-controllers")

		c.Kill(t, first)
		anew := c.NewJoiner(t, first.ID-1001, 1)
		c.Run(t, anew)
		add(t, c, anew)
		c.AwaitVoters(t, append(left, fmt.Sprint(first.ID)))
		c.SameImages(t)
	})
}

func saysRemoved(t *testing.T, m *quorumtest.Member) {
	t.Helper()
	quorumtest.Eventually(t, fmt.Sprintf("%d says that it was removed", m.ID), func() error {
		s := m.Node.Status()
		if ok, why := m.Node.Ready(); ok || s.GetState() != "removed" || !strings.Contains(why, "quorate quorum add") {
			return fmt.Errorf("state %s, ready %v: %s", s.GetState(), ok, why)
		}
		return nil
	})
}

// A bad address, a wrong directory and another node are refused before anything has changed.
func TestNobodyJoinsWhoDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		joiner := c.NewJoiner(t, 3, 0)
		begin(t, c, joiner)
		active := c.Active(t, joiner)
		directory := joiner.Config.DirectoryID.Bytes()
		other := image.UUID{9, 9}
		ask := func(request *controllerpb.AddControllerRequest) error {
			_, err := operatorOf(c).AddController(within(t, 10*time.Second), request)
			return err
		}
		awaitRegistered(t, c, joiner)
		refusedWith(t, ask(&controllerpb.AddControllerRequest{ControllerId: 1004, DirectoryId: directory, RaftAddress: "c9:9292"}),
			controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "c9:9292", "nothing was changed")
		for _, id := range []int32{1004, 1009} { // nobody knows which feature levels they support
			refusedWith(t, ask(&controllerpb.AddControllerRequest{ControllerId: id, DirectoryId: other[:], RaftAddress: "c4:9292"}),
				controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "feature levels", "nothing was changed", "controller.quorum.bootstrap.servers")
		}
		fifth := c.NewJoiner(t, 4, 0)
		c.Run(t, fifth)
		awaitRegistered(t, c, fifth)
		refusedWith(t, ask(&controllerpb.AddControllerRequest{ControllerId: 1005, DirectoryId: fifth.Config.DirectoryID.Bytes(), RaftAddress: "c4:9292"}),
			controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY, joiner.ServerID().String(), "nothing was changed")
		refusedWith(t, ask(&controllerpb.AddControllerRequest{ControllerId: 1004, DirectoryId: directory, RaftAddress: active.Config.RaftAddress}),
			controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_VOTER, "belongs to controller")
		refusedWith(t, ask(&controllerpb.AddControllerRequest{ControllerId: int32(active.ID), DirectoryId: other[:], RaftAddress: "c4:9292"}),
			controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_VOTER, "remove it first")
		c.AwaitVoters(t, []string{"1001", "1002", "1003"}, joiner, fifth)

		// A dry run asks the address too, and changes nothing.
		dry, err := operatorOf(c).AddController(soon(t), &controllerpb.AddControllerRequest{
			ControllerId: 1004, DirectoryId: directory, RaftAddress: "c4:9292", ValidateOnly: true,
		})
		if err != nil || dry.GetWasVoter() {
			t.Errorf("dry run: %v, %v", dry, err)
		}
		c.AwaitVoters(t, []string{"1001", "1002", "1003"}, joiner, fifth)

		for _, m := range c.Members[:3] {
			if m != active {
				_, err := c.Operator(t, m).AddController(soon(t), &controllerpb.AddControllerRequest{ControllerId: 1004})
				refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER)
				_, err = c.Operator(t, m).RemoveController(soon(t), &controllerpb.RemoveControllerRequest{ControllerId: 1001})
				refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER)
				_, err = c.Operator(t, m).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{})
				refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER)
			}
		}
	})
}

// A joiner that answers and never catches up is taken out again, and meanwhile no other change is taken. Its vote was
// never counted.
func TestJoinerThatNeverCatchesUpIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		active := c.Active(t)
		joiner := c.NewJoiner(t, 3, 0)
		stuck := make(chan struct{})
		joiner.Config.StoreFault = func(call raftnode.StoreCall) error {
			if call == raftnode.CallStoreLogs {
				<-stuck
			}
			return nil
		}
		begin(t, c, joiner)
		awaitRegistered(t, c, joiner)
		answer := make(chan error, 1)
		go func() {
			_, err := operatorOf(c).AddController(within(t, 6*time.Second), &controllerpb.AddControllerRequest{
				ControllerId: 1004, DirectoryId: joiner.Config.DirectoryID.Bytes(), RaftAddress: joiner.Config.RaftAddress,
			})
			answer <- err
		}()
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004?"}, joiner)
		if got, _ := changesNow(c, joiner); !strings.HasPrefix(got, "quorum add 1004 (") {
			t.Errorf("the status tells %q", got)
		}
		_, err := c.Operator(t, active).RemoveController(soon(t), &controllerpb.RemoveControllerRequest{ControllerId: 1003})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "quorum add 1004", "one change")
		_, err = c.Operator(t, active).UpdateFeatures(soon(t), &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{
			{Name: image.FeatureEligibleLeaderReplicas, Level: 1, Type: upgrade},
		}})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "quorum add 1004", "one change")
		refusedWith(t, <-answer, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "did not catch up", "taken out again", "--timeout")
		c.AwaitVoters(t, []string{"1001", "1002", "1003"}, joiner)
		close(stuck)
	})
}

// What is left must be able to work: the removal of one that is needed is refused, that of one that is gone is not.
func TestRemovalKeepsAWorkingMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		active := c.Active(t)
		var near, far *quorumtest.Member
		for _, m := range c.Members {
			if m != active {
				near, far = far, m
			}
		}
		c.Isolate(far)
		_, err := operatorOf(c).RemoveController(within(t, 10*time.Second), &controllerpb.RemoveControllerRequest{ControllerId: int32(near.ID)})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION, "2 must have caught up, and 1 have", "--force")
		dry, err := operatorOf(c).RemoveController(within(t, 10*time.Second), &controllerpb.RemoveControllerRequest{ControllerId: int32(far.ID), ValidateOnly: true})
		if err != nil || len(dry.GetRecords()) != 1 {
			t.Errorf("dry run: %v, %v", dry, err)
		}
		remove(t, c, far)
		c.AwaitVoters(t, sortedIDs(active, near), far)
		c.CreateTopic(t, "goes-on", 1, 1)
		c.Join(far)
		saysRemoved(t, far)
		if active.Fatal() != nil || !active.IsActive() {
			t.Errorf("the active controller was disturbed: %v", active.Fatal())
		}
	})
}

func sortedIDs(members ...*quorumtest.Member) []string {
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprint(m.ID))
	}
	slices.Sort(out)
	return out
}

// A removal that is recorded is carried out by the next active controller if the first dies before it has done so.
func TestRecordedRemovalIsCarriedOutByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := make(chan struct{}, 8)
		var goOn chan struct{}
		c := quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			cfg.Env.Hook = func(point string) {
				if point == "controller.remove.recorded" {
					recorded <- struct{}{}
					<-goOn
				}
			}
		}})
		goOn = make(chan struct{})
		first := c.Active(t)
		var victim *quorumtest.Member
		for _, m := range c.Members {
			if m != first {
				victim = m
			}
		}
		go func() {
			_, _ = c.Operator(t, first).RemoveController(within(t, 5*time.Second), &controllerpb.RemoveControllerRequest{ControllerId: int32(victim.ID)})
		}()
		<-recorded
		c.Isolate(first)
		close(goOn)
		next := c.Active(t, first)
		// Two of three answer, and both are needed: the removal waits until the third is back.
		<-time.After(5 * time.Second)
		if got := next.Voters(); len(got) != 3 {
			t.Errorf("removed below a working majority: %v", got)
		}
		for range 3 { // it is in nobody's way meanwhile
			other := image.UUID{9, 9}
			_, err := c.Operator(t, next).AddController(within(t, 10*time.Second), &controllerpb.AddControllerRequest{
				ControllerId: 1009, DirectoryId: other[:], RaftAddress: "c9:9292",
			})
			refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "nothing was changed")
		}
		c.Join(first)
		third := c.Members[0]
		for _, m := range c.Members {
			if m != first && m != victim {
				third = m
			}
		}
		c.AwaitVoters(t, sortedIDs(first, third), victim)
		saysRemoved(t, victim)
		c.Active(t, victim)
	})
}

// Leadership goes where it is asked to go, and the former active controller lives on.
func TestTransferOfTheActiveRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		former := c.Active(t)
		for _, to := range c.Members {
			id := int32(to.ID)
			r, err := operatorOf(c).TransferLeadership(within(t, 10*time.Second), &controllerpb.TransferLeadershipRequest{ControllerId: &id})
			if err != nil || r.GetControllerId() != id || r.GetControllerEpoch() == 0 {
				t.Fatalf("to %d: %v, %v", id, r, err)
			}
			if got := c.Active(t); got != to {
				t.Fatalf("%d is active, not %d", got.ID, to.ID)
			}
			c.CreateTopic(t, fmt.Sprintf("under-%d", id), 1, 1)
		}
		last := c.Active(t)
		dry, err := operatorOf(c).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{ValidateOnly: true})
		if err != nil || dry.GetControllerId() == int32(last.ID) || c.Active(t) != last {
			t.Errorf("dry run: %v, %v", dry, err)
		}
		nobody := int32(1009)
		_, err = operatorOf(c).TransferLeadership(soon(t), &controllerpb.TransferLeadershipRequest{ControllerId: &nobody})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_VOTER_NOT_FOUND)
		c.SameImages(t)
		if former.Fatal() != nil {
			t.Error(former.Fatal())
		}
	})
}

// Suite 6 of the active controller: the target hangs once nothing is proposed any more. The transfer fails, requests that
// waited are accepted by the same controller, and its process lives.
func TestTransferToATargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *quorumtest.Cluster
		var target *quorumtest.Member
		c = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			cfg.Env.Hook = func(point string) {
				if point == "controller.transfer.paused" && target != nil {
					c.Isolate(target)
				}
			}
		}})
		c.RegisterBroker(t, 1)
		active := c.Active(t)
		for _, m := range c.Members {
			if m != active {
				target = m
			}
		}
		id := int32(target.ID)
		epoch := active.Node.Status().GetActiveController().GetControllerEpoch()
		_, err := operatorOf(c).TransferLeadership(within(t, 10*time.Second), &controllerpb.TransferLeadershipRequest{ControllerId: &id})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE, "stays active")
		c.CreateTopic(t, "accepted-again", 1, 1)
		if now := active.Node.Status().GetActiveController(); now.GetNodeId() != int32(active.ID) || now.GetControllerEpoch() != epoch {
			t.Errorf("active %v, was %d in epoch %d", now, active.ID, epoch)
		}
		_, err = operatorOf(c).TransferLeadership(within(t, 10*time.Second), &controllerpb.TransferLeadershipRequest{ControllerId: &id})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE, "has not caught up")
		target = nil
		c.Join(c.Members[id-1001])
		c.SameImages(t)
		if active.Fatal() != nil {
			t.Error(active.Fatal())
		}
	})
}

// A removal rests on the configuration that it was judged on: if there is another one by then, nothing is done.
func TestRemovalRestsOnWhatWasJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var between func()
		c := quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			cfg.Env.Hook = func(point string) {
				if point == "controller.remove.recorded" && between != nil {
					between()
				}
			}
		}})
		active := c.Active(t)
		victim := c.Members[0]
		if victim == active {
			victim = c.Members[1]
		}
		between = func() {
			if err := active.Node.Admit(within(t, 5*time.Second), raftnode.ServerID{NodeID: 1009, DirectoryID: image.UUID{9, 9}.String()}, "c9:9292"); err != nil {
				t.Error(err)
			}
		}
		_, err := c.Operator(t, active).RemoveController(within(t, 10*time.Second), &controllerpb.RemoveControllerRequest{ControllerId: int32(victim.ID)})
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "the quorum changed meanwhile")
	})
}
