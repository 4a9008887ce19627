package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// catchUpMax is how long a newcomer may take to catch up, whatever time the caller has.
	catchUpMax = 10 * time.Minute
	// catchUpMargin is kept of the caller's time, to take a newcomer out again and say so.
	catchUpMargin = 2 * time.Second
	// takeOutMax bounds taking a newcomer out again.
	takeOutMax = 5 * time.Second
)

// AddController implements OperatorApi.
func (s *operatorServer) AddController(ctx context.Context, r *controllerpb.AddControllerRequest) (*controllerpb.AddControllerResponse, error) {
	response, err := s.n.addController(ctx, r)
	return response, refusal(err, s.n.activeController())
}

func (n *Node) addController(ctx context.Context, r *controllerpb.AddControllerRequest) (*controllerpb.AddControllerResponse, error) {
	q, conf, end, err := n.beginOnQuorum(ctx, fmt.Sprintf("quorum add %d", r.GetControllerId()), r.GetValidateOnly())
	if err != nil {
		return nil, err
	}
	defer end()
	cause := operatorCause(ctx, "AddController", r.GetRequestId())
	m, im, err := submit(ctx, n.loop, cause, func(v controller.View) (controller.Decision[controller.QuorumMember], error) {
		return controller.AddController(v, q, r)
	})
	if err != nil {
		return nil, err
	}
	response := &controllerpb.AddControllerResponse{
		DirectoryId: m.DirectoryID.Bytes(), RaftAddress: m.Address, WasVoter: !q.IsNewcomer(m),
		ConfigurationIndex: conf.Index, MetadataOffset: int64(im.Offset()),
	}
	if response.WasVoter {
		return response, nil
	}
	if err := n.probe(ctx, m); err != nil || r.GetValidateOnly() {
		return response, err
	}
	conf, err = n.admit(ctx, m, conf)
	response.ConfigurationIndex = conf.Index
	return response, err
}

// probe asks who listens at a member's address. A quorum that counted on somebody who is not there would be a smaller one.
// The answer is awaited for probeNewcomerMax, or as long as the caller waits if that is less.
func (n *Node) probe(ctx context.Context, m controller.QuorumMember) error {
	bound := probeNewcomerMax
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, max(probeMax, deadline.Sub(n.cfg.Env.Now())-catchUpMargin))
	}
	err := n.raft.Probe(serverID(m), m.Address, bound)
	var refused *raftnode.HandshakeRefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Reason == raftnode.ReasonWrongCluster:
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID, "at %s listens %s, of another cluster: nothing was changed; %s",
			m.Address, refused.Listener, controllerpb.Sentence(refused.Action))
	case errors.As(err, &refused) && refused.Reason == raftnode.ReasonSuperseded:
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY, "controller %s at %s cannot be added: nothing was changed; %s",
			refused.To, m.Address, controllerpb.Sentence(refused.Action))
	case errors.As(err, &refused):
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY, "at %s listens %s, not %s: nothing was changed; correct the address, the node id or the directory id",
			m.Address, refused.Listener, refused.To)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
			"no controller answered at the RAFT address %s within %v, the limit: nothing was changed; see whether controller %v hangs or is paused and its host is reached, or correct the address", m.Address, bound.Round(100*time.Millisecond), m.ID)
	}
	return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "no controller answers at the RAFT address %s: nothing was changed; start it, or correct the address (%v)", m.Address, err)
}

// admit makes a newcomer a voter: it catches up without a vote first, so that no majority ever waits for it.
func (n *Node) admit(ctx context.Context, m controller.QuorumMember, conf raftnode.Configuration) (raftnode.Configuration, error) {
	id := serverID(m)
	conf, err := n.configure(ctx, conf, func(ctx context.Context, index uint64) error {
		return n.raft.AddNonvoter(ctx, id, m.Address, index)
	})
	if err != nil {
		return conf, err
	}
	n.cfg.Logger.Info("a controller catches up before it gets a vote", "controller", int(m.ID), "directoryId", id.DirectoryID, "address", m.Address)
	n.cfg.Env.At("controller.add.nonvoter")
	if err := n.awaitCatchUp(ctx, id); err != nil {
		return conf, n.takeOut(m, err)
	}
	return n.promote(ctx, m, conf)
}

// promote gives a newcomer that has caught up its vote.
func (n *Node) promote(ctx context.Context, m controller.QuorumMember, conf raftnode.Configuration) (raftnode.Configuration, error) {
	conf, err := n.configure(ctx, conf, func(ctx context.Context, index uint64) error {
		return n.raft.AddVoter(ctx, serverID(m), m.Address, index)
	})
	if err == nil {
		n.cfg.Logger.Info("a controller is a voter", "controller", int(m.ID), "directoryId", m.DirectoryID.String())
	}
	return conf, err
}

// lateError says that a newcomer did not catch up in time.
type lateError struct {
	match, target uint64
	after         time.Duration
}

func (e *lateError) Error() string {
	return fmt.Sprintf("its log reaches Raft index %d of %d after %v", e.match, e.target, e.after.Round(100*time.Millisecond))
}

// awaitCatchUp returns when a member follows closely. In rounds, as Raft's author has it (thesis, §4.2.1): each round ends
// with what was committed when it began, and the first one that takes less than an election time-out is enough.
func (n *Node) awaitCatchUp(ctx context.Context, id raftnode.ServerID) error {
	bound := catchUpMax
	now := n.cfg.Env.Now
	begun := now()
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, max(0, deadline.Sub(begun)-catchUpMargin))
	}
	active := n.loop.active.Load()
	if active == nil {
		return ErrOutcomeUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var p raftnode.Progress
	round, target := begun, n.raft.CommitIndex()
	follows := until(ctx, active.ended, n.raft.Heard(), func() bool {
		if p, _ = n.raft.Progress(id); p.Match == 0 || p.Match < target {
			return false
		}
		if now().Sub(round) <= n.cfg.ElectionTimeout {
			return true
		}
		round, target = now(), n.raft.CommitIndex()
		return false
	})
	switch {
	case follows:
		return nil
	case ctx.Err() == nil:
		return ErrOutcomeUnknown // not active any more
	}
	return &lateError{match: p.Match, target: target, after: now().Sub(begun)}
}

// takeOut removes a newcomer that did not catch up. It may be added again: it never had a vote. Who was a voter before, under
// another address, stays one.
func (n *Node) takeOut(m controller.QuorumMember, why error) error {
	var late *lateError
	if !errors.As(why, &late) {
		return why // the next active controller is asked again
	}
	ctx, cancel := context.WithTimeout(context.Background(), takeOutMax)
	defer cancel()
	conf, err := n.raft.GetConfiguration()
	known, ok := conf.Find(serverID(m))
	if err == nil && ok && !known.Voter {
		err = n.raft.RemoveServer(ctx, serverID(m), conf.Index)
	}
	what := becameOf(m, ok && known.Voter, err)
	n.cfg.Logger.Warn("a controller did not catch up", "controller", int(m.ID), "why", why, "then", what)
	return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "controller %v did not catch up: %v; %s; see whether it runs, or give it more --timeout", m.ID, why, controllerpb.Sentence(what))
}

// becameOf says what became of a member that did not catch up. err is why it could not be taken out.
func becameOf(m controller.QuorumMember, isVoter bool, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("and it could not be taken out again (%v): `quorate quorum remove %v` does", err, m.ID)
	case isVoter:
		return fmt.Sprintf("it is a voter as before, now under the address %s", m.Address)
	}
	return "it was taken out again"
}
