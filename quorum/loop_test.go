package quorum

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// refusingRaft says that this node leads and refuses every entry, as the library does after a transfer that was given up
// (hashicorp/raft GH-696).
type refusingRaft struct {
	*raftnode.Node
	changed chan struct{}
}

func (r *refusingRaft) Leadership() raftnode.Leadership {
	return raftnode.Leadership{Leader: true, Takeover: 1}
}
func (r *refusingRaft) LeadershipChanged() <-chan struct{} { return r.changed }

func (r *refusingRaft) Apply([]byte) *raftnode.Proposal { return new(raftnode.Proposal) }

// StartWaiter returns a waiter that takes nothing: every claim counts as refused.
func (r *refusingRaft) StartWaiter(max int) *raftnode.Waiter {
	w := r.Node.StartWaiter(max)
	w.Stop()
	return w
}

type emptyMachine struct{}

func (emptyMachine) Offer(fsm.Offer)     {}
func (emptyMachine) Image() *image.Image { return image.Empty() }

// F21: a Raft leader that nobody lets claim ends its process within a bound; its heartbeats would keep everyone else from
// being elected.
func TestF21RefusedClaimsEndTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raft := &refusingRaft{Node: raftnode.New(raftnode.Config{}), changed: make(chan struct{}, 1)}
		raft.changed <- struct{}{}
		var fatal atomic.Pointer[error]
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cfg := &Config{
			ElectionTimeout: 300 * time.Millisecond, HeartbeatInterval: 2 * time.Second,
			Env: env.OS(""), Logger: slog.New(slog.DiscardHandler),
			Fatal: func(err error) { fatal.Store(&err); cancel() },
		}
		l := newLoop(cfg, &Metrics{}, raft, emptyMachine{})
		done := make(chan struct{})
		go func() { defer close(done); l.run(ctx) }()
		<-done
		if fatal.Load() == nil {
			t.Fatal("the loop ended without a reason")
		}
		if took := time.Since(begun); took < 900*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("ended after %v, want a little more than three election time-outs", took)
		}
		if l.active.Load() != nil {
			t.Error("active without a claim")
		}
	})
}

// F22: a notice that this node leads is a new take-over also when it was not seen to lose leadership: what was decided ends with the
// claim, and another one is asked for.
func TestF22ANewTakeoverEndsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		raft := &refusingRaft{Node: raftnode.New(raftnode.Config{})}
		l.raft, l.waiter = raft, raft.StartWaiter(1)
		l.leadership = raftnode.Leadership{Leader: true, Takeover: 1}
		l.active.Store(&activity{ended: make(chan struct{})})
		var answers []error
		l.claim.open.parked = append(l.claim.open.parked, parked{answer: func(r result) { answers = append(answers, r.err) }})
		l.onLeadership(raftnode.Leadership{Leader: true, Takeover: 1})
		if l.claim == nil || l.claiming != nil {
			t.Fatal("the same notice again ended the claim")
		}
		l.onLeadership(raftnode.Leadership{Leader: true, Takeover: 2})
		if l.claim != nil || l.active.Load() != nil || l.claiming == nil {
			t.Errorf("after another take-over: claim %v, active %v, claiming %v", l.claim, l.active.Load(), l.claiming)
		}
		if len(answers) != 1 || answers[0] != ErrNotActive {
			t.Errorf("what was decided is answered %v", answers)
		}
	})
}

// Callers who ask again as soon as they are answered do not keep the loop from commits, leadership and sessions.
func TestTurnOfTheLoopEnds(t *testing.T) {
	cfg := &Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler)}
	l := newLoop(cfg, &Metrics{}, &refusingRaft{}, emptyMachine{})
	l.claim = &claim{committed: image.Empty(), pending: image.Empty()}
	answered := 0
	op := &operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "Nothing"}, decide: func(controller.View) plan { return plan{} }}
	op.answer = func(result) {
		if answered++; answered <= operationsPerTurnMax {
			l.queue <- op
		}
	}
	l.onOperation(op)
	if answered != operationsPerTurnMax || len(l.queue) != 1 {
		t.Errorf("a turn decided %d requests and left %d, want %d and the next one", answered, len(l.queue), operationsPerTurnMax)
	}
}

// Every method of every service has a role, and the table names no others.
func TestEveryMethodHasARole(t *testing.T) {
	known := map[string]bool{}
	for _, service := range []grpc.ServiceDesc{
		controllerpb.BrokerApi_ServiceDesc, controllerpb.OperatorApi_ServiceDesc, controllerpb.ControllerApi_ServiceDesc,
		controllerpb.ReaderApi_ServiceDesc, controllerpb.MetadataStream_ServiceDesc, brokerpb.ReplicaApi_ServiceDesc,
		brokerpb.ReplicaStatusApi_ServiceDesc,
	} {
		for _, m := range service.Methods {
			known["/"+service.ServiceName+"/"+m.MethodName] = true
		}
		for _, s := range service.Streams {
			known["/"+service.ServiceName+"/"+s.StreamName] = true
		}
	}
	for method := range known {
		if MethodRoles[method] == "" {
			t.Errorf("%s has no role", method)
		}
		if err := authorize(method); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	for method := range MethodRoles {
		if !known[method] {
			t.Errorf("the table names %s, which no service has", method)
		}
	}
	if authorize("/quorate.controller.v1.Unknown/Call") == nil {
		t.Error("a method without a role is let pass")
	}
}

// A configuration that is wrong names its field.
func TestConfigValidateNamesTheField(t *testing.T) {
	good := Config{
		ClusterID: "c", DirectoryID: image.UUID{1}, DataDir: "d", Env: env.OS(""), Logger: slog.New(slog.DiscardHandler),
		Fatal: func(error) {},
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"ClusterID":      func(c *Config) { c.ClusterID = "" },
		"DirectoryID":    func(c *Config) { c.DirectoryID = image.UUID{} },
		"DataDir":        func(c *Config) { c.DataDir = "" },
		"Fatal":          func(c *Config) { c.Fatal = nil },
		"SessionTimeout": func(c *Config) { c.SessionTimeout = time.Second },
		"BytesMax":       func(c *Config) { c.Limits.BytesMax = entryBytesMax + 1 },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Metrics may be scraped at any time, also while the node opens its stores.
func TestMetricsBeforeTheStart(t *testing.T) {
	n, err := New(Config{
		ClusterID: "c", NodeID: 1, DirectoryID: image.UUID{1}, DataDir: t.TempDir(), Env: env.OS(""),
		Logger: slog.New(slog.DiscardHandler), Fatal: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := n.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	terms := 0
	for _, f := range families {
		if f.GetName() == "quorate_raft_term" && f.GetMetric()[0].GetGauge().GetValue() == 0 {
			terms++
		}
	}
	if terms != 1 {
		t.Errorf("the term is told %d times", terms)
	}
}

// A superseded controller answers at once what it had taken: what was with Raft is unknown, the rest was certainly not done. It never
// claims again, although Raft's last notice may say that it leads.
func TestSupersededControllerRenouncesForGood(t *testing.T) {
	cfg := &Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), ElectionTimeout: 300 * time.Millisecond}
	l := newLoop(cfg, &Metrics{}, &refusingRaft{}, emptyMachine{})
	got := map[string]error{}
	answer := func(name string) parked { return parked{answer: func(r result) { got[name] = r.err }} }
	l.claim = &claim{committed: image.Empty(), pending: image.Empty(), sent: []*proposal{{parked: []parked{answer("with Raft")}}}}
	l.claim.open.parked = []parked{answer("not with Raft yet")}
	l.orphans = []*orphan{{proposal: &proposal{parked: []parked{answer("of an earlier claim")}}}}
	l.active.Store(&activity{ended: make(chan struct{})})
	l.leadership = raftnode.Leadership{Leader: true, Takeover: 1}
	l.onOutOfQuorum()
	for name, want := range map[string]error{"with Raft": ErrOutcomeUnknown, "not with Raft yet": ErrNotActive, "of an earlier claim": ErrOutcomeUnknown} {
		if err, answered := got[name]; !answered || err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	l.onLeadership(raftnode.Leadership{Leader: true, Takeover: 2})
	for range 100 {
		l.onTick()
	}
	if l.active.Load() != nil || l.metrics.Claims.Load() != 0 || l.claiming != nil {
		t.Error("it claims again")
	}
}
