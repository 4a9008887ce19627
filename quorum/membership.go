package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// quorumCheckMax is how long voters may take to show that they have caught up with what is committed now. The library
	// sends them something every few milliseconds, so only those that do not answer take so long.
	quorumCheckMax = time.Second
	// probeMax bounds the question whether a voter answers that has just done so.
	probeMax = time.Second
	// probeNewcomerMax bounds the question who listens at a newcomer's RAFT address, which may be starting or paused.
	probeNewcomerMax = 5 * time.Second
	// configurationChangeMax bounds one change of the Raft configuration.
	configurationChangeMax = 10 * time.Second
)

// membershipChange is a change of the quorum that is under way.
type membershipChange struct {
	what  string
	since time.Time
	// own: nobody asked for it, the keeper of the membership finishes what was left. It is over within configurationChangeMax,
	// and requests wait for it.
	own bool
	// over is closed when it has ended.
	over chan struct{}
}

// beginChange takes the place of the one change that may be under way: each is decided on the quorum that the one before
// has left.
func (n *Node) beginChange(ctx context.Context, what string) (end func(), err error) {
	for {
		end, other := n.tryChange(what, false)
		switch {
		case end != nil:
			return end, nil
		case other == nil:
			continue // it has just ended
		case !other.own:
			return nil, controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
				"`%s`, since %v, is under way, and one change of the quorum is made at a time: try again when it has ended",
				other.what, n.cfg.Env.Now().Sub(other.since).Round(time.Second))
		}
		select {
		case <-other.over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryChange does so if the place is free, and tells else who has it.
func (n *Node) tryChange(what string, own bool) (end func(), other *membershipChange) {
	c := &membershipChange{what: what, since: n.cfg.Env.Now(), own: own, over: make(chan struct{})}
	if !n.changing.CompareAndSwap(nil, c) {
		return nil, n.changing.Load()
	}
	return func() {
		n.changing.Store(nil)
		close(c.over)
	}, nil
}

// beginOnQuorum takes the place of the one change, unless nothing shall be changed, and tells the quorum that it is decided on.
// Without an error the caller calls end when it is done.
func (n *Node) beginOnQuorum(ctx context.Context, what string, validateOnly bool) (q controller.Quorum, conf raftnode.Configuration, end func(), err error) {
	if n.loop.active.Load() == nil {
		return q, conf, nil, ErrNotActive
	}
	end = func() {}
	if !validateOnly {
		if end, err = n.beginChange(ctx, what); err != nil {
			return q, conf, nil, err
		}
	}
	if q, conf, err = n.quorumNow(ctx); err != nil {
		end()
		return q, conf, nil, err
	}
	return q, conf, end, nil
}

// quorumNow is the Raft configuration with what this node, which leads it, knows of its members. Voters that answer are
// given a moment to catch up with what is committed now.
func (n *Node) quorumNow(ctx context.Context) (controller.Quorum, raftnode.Configuration, error) {
	q := controller.Quorum{Active: n.cfg.NodeID}
	active := n.loop.active.Load()
	if active == nil {
		return q, raftnode.Configuration{}, ErrNotActive
	}
	conf, err := n.raft.GetConfiguration()
	if err != nil {
		return q, conf, err
	}
	asked := catchUpTarget{index: n.raft.CommitIndex(), since: n.cfg.Env.Now()}
	n.awaitVoters(ctx, active, conf, asked)
	for _, s := range conf.Servers {
		m, err := memberOf(s)
		if err != nil {
			return q, conf, err
		}
		m.CaughtUp, m.Match = n.hasCaughtUp(s.ID, asked)
		q.Members = append(q.Members, m)
	}
	return q, conf, nil
}

// catchUpTarget is what a voter must have to count as caught up: the log up to an index, and a sign of life since a moment.
type catchUpTarget struct {
	index uint64
	since time.Time
}

// awaitVoters returns when all voters have caught up, or a moment is over, or the active role.
func (n *Node) awaitVoters(ctx context.Context, active *activity, conf raftnode.Configuration, want catchUpTarget) {
	ctx, cancel := context.WithTimeout(ctx, quorumCheckMax)
	defer cancel()
	until(ctx, active.ended, n.raft.Heard(), func() bool {
		return !slices.ContainsFunc(conf.Servers, func(s raftnode.Server) bool {
			caughtUp, _ := n.hasCaughtUp(s.ID, want)
			return s.Voter && !caughtUp
		})
	})
}

// until looks at a condition whenever there is news, and tells whether it came to hold before the context ended, or what
// ended stands for.
func until(ctx context.Context, ended <-chan struct{}, news *raftnode.Signal, holds func() bool) bool {
	for {
		next := news.Watch()
		if holds() {
			return true
		}
		select {
		case <-next:
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// hasCaughtUp tells whether a member has caught up, and how far its log reaches.
func (n *Node) hasCaughtUp(id raftnode.ServerID, want catchUpTarget) (bool, uint64) {
	if id == n.raft.ID() {
		return true, n.raft.LastIndex()
	}
	p, ok := n.raft.Progress(id)
	return ok && p.Match >= want.index && p.Contact < n.cfg.Env.Now().Sub(want.since), p.Match
}

// memberOf is a server as decisions know it.
func memberOf(s raftnode.Server) (controller.QuorumMember, error) {
	directory, err := image.ParseUUID(s.ID.DirectoryID)
	return controller.QuorumMember{ID: image.BrokerID(s.ID.NodeID), DirectoryID: directory, Address: s.Address, Voter: s.Voter}, err
}

func serverID(m controller.QuorumMember) raftnode.ServerID {
	return raftnode.ServerID{NodeID: int32(m.ID), DirectoryID: m.DirectoryID.String()}
}

// configure makes one change of the Raft configuration, decided on the one of conf, and tells the index of the next.
func (n *Node) configure(ctx context.Context, conf raftnode.Configuration, change func(ctx context.Context, index uint64) error) (raftnode.Configuration, error) {
	ctx, cancel := context.WithTimeout(ctx, configurationChangeMax)
	defer cancel()
	if err := change(ctx, conf.Index); err != nil {
		return conf, configurationError(err)
	}
	next, err := n.raft.GetConfiguration()
	if err != nil {
		return conf, ErrOutcomeUnknown // it was made; who asks again is told so
	}
	return next, nil
}

// configurationError says what is known when Raft does not take a change.
func configurationError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrNotActive
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raftnode.ErrStopped):
		return ErrOutcomeUnknown
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
			"the change before is not committed yet: a majority of the voters must answer first; `quorate quorum status` shows who does")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return pendingChange("the change of the Raft configuration is not committed yet, and may be later: a majority of the voters must answer; " +
			"`quorate quorum status` shows who does")
	}
	return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "the quorum changed meanwhile, nothing was done: try again (%v)", err)
}

// pendingChange is the refusal of a change that may still be made.
func pendingChange(message string) error {
	return client.RefusalStatus(codes.DeadlineExceeded, &controllerpb.RefusalDetail{
		Error:          controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "%s", controllerpb.Sentence(message)),
		OutcomeUnknown: true,
	}).Err()
}
