package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/client/clienttest"
	"github.com/quorate/quorate/quorum/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, addresses ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Network: env.OS("").Network, Controllers: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func active(id int32, c *clienttest.Controller, epoch uint64) *controllerpb.ActiveController {
	return &controllerpb.ActiveController{NodeId: id, Address: c.Address, ControllerEpoch: epoch}
}

// say makes controllers 1, 2, … of a quorum agree on who is active.
func say(epoch uint64, leader int, quorum ...*clienttest.Controller) {
	for i, c := range quorum {
		s := &controllerpb.NodeStatusResponse{ClusterId: "c", NodeId: int32(i + 1), State: "follower"}
		if leader > 0 {
			s.ActiveController = active(int32(leader), quorum[leader-1], epoch)
		}
		for j, m := range quorum {
			s.Members = append(s.Members, &controllerpb.QuorumMember{NodeId: int32(j + 1), GrpcAddress: m.Address, Voter: true})
		}
		c.Set(s)
	}
}

func refuse(a *controllerpb.ActiveController, unknown bool) error {
	return client.RefusalStatus(codes.FailedPrecondition, &controllerpb.RefusalDetail{
		Error:            &controllerpb.Error{Code: controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, Message: "standing by"},
		ActiveController: a, OutcomeUnknown: unknown,
	}).Err()
}

func quorum(t *testing.T) (a, b, c *clienttest.Controller) {
	a, b, c = clienttest.Start(t, clienttest.Handlers{}), clienttest.Start(t, clienttest.Handlers{}), clienttest.Start(t, clienttest.Handlers{})
	say(5, 2, a, b, c)
	return a, b, c
}

func TestOneStandbyLeadsToActive(t *testing.T) {
	a, b, _ := quorum(t)
	got, err := newClient(t, a.Address).Active(t.Context())
	if err != nil || got.ID != 2 || got.Address != b.Address || got.ControllerEpoch != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestHighestControllerEpochWins(t *testing.T) {
	a, b, c := quorum(t)
	say(5, 2, a, b, c)
	// 3 has claimed under a later epoch and 1 knows it; 2 was paused and still believes in itself.
	for _, x := range []*clienttest.Controller{a, c} {
		id := int32(1)
		if x == c {
			id = 3
		}
		x.Set(&controllerpb.NodeStatusResponse{NodeId: id, ActiveController: active(3, c, 6)})
	}
	got, err := newClient(t, b.Address, a.Address, c.Address).Active(t.Context())
	if err != nil || got.ID != 3 || got.ControllerEpoch != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// After an offline recovery the lost controllers may have claimed under later epochs: the newer lineage goes before.
func TestNewerLineageGoesBeforeAHigherEpoch(t *testing.T) {
	a, b, _ := quorum(t)
	recovered := active(1, a, 6)
	recovered.Lineage = 1
	a.Set(&controllerpb.NodeStatusResponse{NodeId: 1, ActiveController: recovered})
	b.Set(&controllerpb.NodeStatusResponse{NodeId: 2, ActiveController: active(2, b, 50)})
	got, err := newClient(t, b.Address, a.Address).Active(t.Context())
	if err != nil || got.ID != 1 || got.Lineage != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// One that is of the newer lineage and knows of nobody active in it goes before one that is active in an older one; who has told of a
// newer lineage, by a status or in a refusal, is not forgotten.
func TestOlderLineageIsNotFollowedWhileTheNewerHasNobodyActive(t *testing.T) {
	a, b, _ := quorum(t)
	old := &controllerpb.NodeStatusResponse{NodeId: 2, State: "leader", ActiveController: active(2, b, 50)}
	b.Set(old)
	for name, said := range map[string]*controllerpb.NodeStatusResponse{
		"of the newer lineage": {NodeId: 1, State: "candidate", Lineage: 1},
		"knows of it":          {NodeId: 1, State: "superseded", StateReason: "superseded: format it anew", NewestLineage: 1},
	} {
		a.Set(said)
		cl := newClient(t, b.Address, a.Address)
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		got, err := cl.Active(ctx)
		cancel()
		if !errors.Is(err, client.ErrNoController) || said.StateReason != "" && !strings.Contains(err.Error(), said.StateReason) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// An answer of a controller that turns out to be of an older lineage while it is awaited is not taken: a read goes on to the newer one, a
// change is unknown.
func TestAnswerOfAnOlderLineageIsNotTaken(t *testing.T) {
	a, b, _ := quorum(t)
	recovered := active(1, a, 6)
	recovered.Lineage = 1
	var cl *client.Client
	switchOver := func() {
		a.Set(&controllerpb.NodeStatusResponse{NodeId: 1, ActiveController: recovered, Lineage: 1})
		cl.Observe(recovered)
	}
	b.SetHandlers(func(h *clienttest.Handlers) {
		h.DeleteTopics = func(context.Context, *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
			switchOver()
			return &controllerpb.DeleteTopicsResponse{}, nil
		}
		h.ListBrokers = func(context.Context, *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
			switchOver()
			return &controllerpb.ListBrokersResponse{MetadataOffset: 1}, nil
		}
	})
	a.SetHandlers(func(h *clienttest.Handlers) {
		h.ListBrokers = func(context.Context, *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
			return &controllerpb.ListBrokersResponse{MetadataOffset: 2}, nil
		}
	})
	for _, ask := range []func() error{
		func() error {
			_, err := controllerpb.NewOperatorApiClient(cl).DeleteTopics(t.Context(), &controllerpb.DeleteTopicsRequest{})
			if !errors.Is(err, client.ErrOutcomeUnknown) {
				return errors.New("a change of an older lineage is taken for done")
			}
			return nil
		},
		func() error {
			resp, err := controllerpb.NewReaderApiClient(cl).ListBrokers(t.Context(), &controllerpb.ListBrokersRequest{})
			if err == nil && resp.GetMetadataOffset() != 2 {
				err = errors.New("a read of an older lineage is taken")
			}
			return err
		},
	} {
		for _, s := range []*clienttest.Controller{a, b} {
			id := int32(1)
			if s == b {
				id = 2
			}
			s.Set(&controllerpb.NodeStatusResponse{NodeId: id, ActiveController: active(2, b, 50)})
		}
		cl = newClient(t, b.Address, a.Address)
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
}

// A paused controller, which accepts connections and says nothing, or one that is gone delays nobody.
func TestPausedOrUnreachableControllerDelaysAtMostASecond(t *testing.T) {
	a, b, _ := quorum(t)
	gone := clienttest.Silent(t)
	for name, third := range map[string]string{"paused": clienttest.Silent(t), "unreachable": strings.Replace(gone, "127.0.0.1", "127.0.0.2", 1)} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []*clienttest.Controller{a, b} {
				id := int32(1)
				if s == b {
					id = 2
				}
				s.Set(&controllerpb.NodeStatusResponse{NodeId: id, ActiveController: active(2, b, 5)})
			}
			begin := time.Now()
			got, err := newClient(t, third, a.Address, b.Address).Active(t.Context())
			if err != nil || got.ID != 2 {
				t.Fatalf("%+v, %v", got, err)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestRefusalSwitchesController(t *testing.T) {
	a, b, c := quorum(t)
	b.SetHandlers(func(h *clienttest.Handlers) {
		h.Heartbeat = func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
			say(6, 3, a, b, c)
			return nil, refuse(active(3, c, 6), false)
		}
	})
	c.SetHandlers(func(h *clienttest.Handlers) {
		h.Heartbeat = func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
			return &controllerpb.BrokerHeartbeatResponse{CommittedOffset: 9, ActiveController: active(3, c, 6)}, nil
		}
	})
	cl := newClient(t, a.Address)
	resp, err := controllerpb.NewBrokerApiClient(cl).BrokerHeartbeat(t.Context(), &controllerpb.BrokerHeartbeatRequest{})
	if err != nil || resp.GetCommittedOffset() != 9 {
		t.Fatalf("%v, %v", resp, err)
	}
	if got, ok := cl.Cached(); !ok || got.ID != 3 {
		t.Errorf("follows %+v", got)
	}
}

func TestOtherRefusalIsFinal(t *testing.T) {
	a, b, c := quorum(t)
	var calls atomic.Int32
	b.SetHandlers(func(h *clienttest.Handlers) {
		h.DeleteTopics = func(context.Context, *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
			calls.Add(1)
			return nil, client.RefusalStatus(codes.InvalidArgument, &controllerpb.RefusalDetail{Error: &controllerpb.Error{
				Code: controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION, Message: "too many"}}).Err()
		}
	})
	_, err := controllerpb.NewOperatorApiClient(newClient(t, a.Address, c.Address)).DeleteTopics(t.Context(), &controllerpb.DeleteTopicsRequest{})
	r, ok := client.AsRefusal(err)
	if !ok || r.Code != controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION || err.Error() != "POLICY_VIOLATION: too many" {
		t.Fatalf("%v", err)
	}
	if code, _ := controllerpb.CodeOf(err); code != r.Code {
		t.Errorf("CodeOf: %v", code)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

// What was sent and not answered is repeated once if that does no harm, and else its outcome is unknown.
func TestUnansweredChangeIsRepeatedAtMostOnce(t *testing.T) {
	withID := &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "t", TopicId: make([]byte, 16)}}}
	withoutID := &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "t"}}}
	for _, c := range []struct {
		name    string
		request *controllerpb.CreateTopicsRequest
		err     error
		calls   int32
	}{
		{"with topic ids, connection lost", withID, status.Error(codes.Unavailable, "lost"), 2},
		{"without topic ids, connection lost", withoutID, status.Error(codes.Unavailable, "lost"), 1},
		{"with topic ids, controller cannot tell", withID, refuse(nil, true), 2},
		{"without topic ids, controller cannot tell", withoutID, refuse(nil, true), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, y, z := quorum(t)
			var calls atomic.Int32
			y.SetHandlers(func(h *clienttest.Handlers) {
				h.CreateTopics = func(context.Context, *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
					calls.Add(1)
					return nil, c.err
				}
			})
			_, err := controllerpb.NewOperatorApiClient(newClient(t, x.Address, z.Address)).CreateTopics(t.Context(), c.request)
			if !errors.Is(err, client.ErrOutcomeUnknown) || calls.Load() != c.calls {
				t.Errorf("%d calls, want %d: %v", calls.Load(), c.calls, err)
			}
		})
	}
}

// A change that was sent and not answered stays unknown, also if no controller is found afterwards.
func TestUnansweredChangeStaysUnknownWithoutAController(t *testing.T) {
	x, y, z := quorum(t)
	y.SetHandlers(func(h *clienttest.Handlers) {
		h.CreateTopics = func(context.Context, *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
			say(6, 0, x, y, z)
			return nil, status.Error(codes.Unavailable, "lost")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := controllerpb.NewOperatorApiClient(newClient(t, x.Address, z.Address)).CreateTopics(ctx, &controllerpb.CreateTopicsRequest{
		Topics: []*controllerpb.CreatableTopic{{Name: "t", TopicId: make([]byte, 16)}},
	})
	if !errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, client.ErrNoController) {
		t.Error(err)
	}
}

// A request that waits at a controller which was paused leaves it once another is active.
func TestRequestLeavesSupersededController(t *testing.T) {
	a, b, c := quorum(t)
	b.SetHandlers(func(h *clienttest.Handlers) {
		h.AlterPartition = func(ctx context.Context, _ *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
			say(6, 3, a, b, c)
			b.SetHandlers(func(h *clienttest.Handlers) {
				h.NodeStatus = func(ctx context.Context) (*controllerpb.NodeStatusResponse, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			})
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	c.SetHandlers(func(h *clienttest.Handlers) {
		h.AlterPartition = func(context.Context, *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
			return &controllerpb.AlterPartitionResponse{MetadataOffset: 7}, nil
		}
	})
	begin := time.Now()
	resp, err := controllerpb.NewBrokerApiClient(newClient(t, a.Address)).AlterPartition(t.Context(), &controllerpb.AlterPartitionRequest{})
	if err != nil || resp.GetMetadataOffset() != 7 {
		t.Fatalf("%v, %v", resp, err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestNoControllerNamesWhatEachSaid(t *testing.T) {
	a, b, c := quorum(t)
	say(0, 0, a, b, c)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := controllerpb.NewOperatorApiClient(newClient(t, a.Address, b.Address, c.Address)).CreateTopics(ctx, &controllerpb.CreateTopicsRequest{})
	if !errors.Is(err, client.ErrNoController) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatalf("%v", err)
	}
}

func TestReadStreamsThroughDo(t *testing.T) {
	a, b, c := quorum(t)
	var calls atomic.Int32
	b.SetHandlers(func(h *clienttest.Handlers) {
		h.DumpImage = func(_ *controllerpb.DumpImageRequest, s grpc.ServerStreamingServer[controllerpb.DumpImageResponse]) error {
			if calls.Add(1) < 4 {
				return status.Error(codes.Unavailable, "lost")
			}
			return s.Send(&controllerpb.DumpImageResponse{Data: []byte("{}")})
		}
	})
	var got []byte
	err := newClient(t, a.Address, c.Address).Do(t.Context(), client.RepeatAlways, func(ctx context.Context, cc grpc.ClientConnInterface) error {
		s, err := controllerpb.NewReaderApiClient(cc).DumpImage(ctx, &controllerpb.DumpImageRequest{})
		if err != nil {
			return err
		}
		part, err := s.Recv()
		got = part.GetData()
		return err
	})
	if err != nil || string(got) != "{}" || calls.Load() != 4 {
		t.Fatalf("%q after %d calls, %v", got, calls.Load(), err)
	}
}

func TestAnswersFromAnotherClusterAreIgnored(t *testing.T) {
	a, _, _ := quorum(t)
	c, err := client.New(client.Config{Network: env.OS("").Network, Controllers: []string{a.Address}, ClusterID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got, err := c.Active(ctx); err == nil {
		t.Fatalf("follows %+v", got)
	}
}

func TestStatusesCoverTheSilent(t *testing.T) {
	a, _, c := quorum(t)
	silent := clienttest.Silent(t)
	answers := newClient(t, a.Address, silent, c.Address).Statuses(t.Context())
	var text []string
	for _, x := range answers {
		text = append(text, x.Address)
		if (x.Err != nil) != (x.Address == silent) {
			t.Errorf("%s: %v", x.Address, x.Err)
		}
	}
	if len(answers) != 4 || text[0] != a.Address || text[1] != silent {
		t.Errorf("answers of %v", text)
	}
}

func TestObserveDropsASupersededController(t *testing.T) {
	a, _, c := quorum(t)
	cl := newClient(t, a.Address)
	if _, err := cl.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl.Observe(active(3, c, 4))
	if _, ok := cl.Cached(); !ok {
		t.Error("an older epoch made the client forget")
	}
	cl.Observe(active(3, c, 6))
	if got, ok := cl.Cached(); ok {
		t.Errorf("still follows %+v", got)
	}
}

func TestConfigValidate(t *testing.T) {
	network := env.OS("").Network
	for _, c := range []struct {
		cfg  client.Config
		want string
	}{
		{client.Config{Controllers: []string{"a:1"}}, "Network"},
		{client.Config{Network: network}, "Controllers is empty"},
		{client.Config{Network: network, Controllers: []string{"a"}}, `"a" is not host:port`},
		{client.Config{Network: network, Controllers: []string{"a:99999"}}, `"a:99999": port "99999" is outside 1 to 65535`},
		{client.Config{Network: network, Controllers: []string{"a b:9"}}, `"a b:9" is not host:port`},
		{client.Config{Network: network, Controllers: make([]string, 33)}, "limit 32"},
		{client.Config{Network: network, Controllers: []string{"a:1"}}, ""},
	} {
		err := c.cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg.Controllers, err, c.want)
		}
	}
}
