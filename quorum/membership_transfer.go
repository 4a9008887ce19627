package quorum

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

const (
	// drainMax is how long what is with Raft may take before leadership is handed over.
	drainMax = 2 * time.Second
	// successorMax is how long the next controller may take to be active.
	successorMax = 5 * time.Second
)

// TransferLeadership implements OperatorApi.
func (s *operatorServer) TransferLeadership(ctx context.Context, r *controllerpb.TransferLeadershipRequest) (*controllerpb.TransferLeadershipResponse, error) {
	response, err := s.n.transferLeadership(ctx, r)
	return response, refusal(err, s.n.activeController())
}

func (n *Node) transferLeadership(ctx context.Context, r *controllerpb.TransferLeadershipRequest) (*controllerpb.TransferLeadershipResponse, error) {
	q, _, end, err := n.beginOnQuorum(ctx, "quorum transfer", r.GetValidateOnly())
	if err != nil {
		return nil, err
	}
	defer end()
	cause := operatorCause(ctx, "TransferLeadership", r.GetRequestId())
	to, _, err := submit(ctx, n.loop, cause, func(v controller.View) (controller.Decision[controller.QuorumMember], error) {
		return controller.TransferLeadership(v, q, r)
	})
	if err != nil {
		return nil, err
	}
	response := &controllerpb.TransferLeadershipResponse{ControllerId: int32(to.ID), FormerControllerId: int32(n.cfg.NodeID)}
	if to.ID == n.cfg.NodeID {
		if a := n.loop.active.Load(); a != nil {
			response.ControllerEpoch = uint64(a.controllerEpoch)
		}
		return response, nil
	}
	if r.GetValidateOnly() {
		return response, n.probeSuccessor(to)
	}
	if err := n.handOver(ctx, to); err != nil {
		return nil, err
	}
	claim := n.fsm.claim.Load()
	if claim.NodeID != to.ID {
		return nil, controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED,
			"controller %v gave the active role away, and %v took it instead of %v: try again if it matters", n.cfg.NodeID, claim.NodeID, to.ID)
	}
	response.ControllerEpoch = claim.Term
	return response, nil
}

func (n *Node) probeSuccessor(to controller.QuorumMember) error {
	if err := n.raft.Probe(serverID(to), to.Address, probeMax); err != nil {
		return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
			"controller %v does not answer at %s, so nothing was handed over: see whether it runs (%v)", to.ID, to.Address, err)
	}
	return nil
}

// handOver gives the active role to a voter that has caught up, and returns when another controller is active.
//
// The library's transfer refuses every proposal while it lasts, and is not safe to fail in the middle of a catch-up
// (hashicorp/raft GH-696). So the target is asked first whether it answers; then nothing is proposed until everything that was is
// committed, and there is nothing to catch up. If the target hangs all the same, this controller goes on within three
// election time-outs; if it should not be let claim again after that, its process ends (see retryClaim).
func (n *Node) handOver(ctx context.Context, to controller.QuorumMember) error {
	before := n.loop.active.Load()
	if before == nil {
		return ErrNotActive
	}
	if err := n.probeSuccessor(to); err != nil {
		return err
	}
	draining, cancel := context.WithTimeout(ctx, drainMax)
	resume, err := n.loop.pause(draining)
	cancel()
	if err != nil {
		return notHandedOver(to, err)
	}
	defer resume()
	n.cfg.Env.At("controller.transfer.paused")
	transfer, cancel := context.WithTimeout(context.WithoutCancel(ctx), transferWait)
	defer cancel()
	if err := n.raft.TransferLeadershipTo(transfer, serverID(to), to.Address); err != nil {
		return notHandedOver(to, err)
	}
	return n.awaitSuccessor(before.controllerEpoch)
}

func notHandedOver(to controller.QuorumMember, err error) error {
	if err == ErrNotActive || err == ErrStopped {
		return err
	}
	return controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
		"controller %v did not take over in time, this one stays active: see whether it runs and try again (%v)", to.ID, err)
}

// awaitSuccessor returns when a controller has claimed the active role after an epoch.
func (n *Node) awaitSuccessor(after image.ControllerEpoch) error {
	ctx, cancel := context.WithTimeout(context.Background(), successorMax)
	defer cancel()
	claimed := until(ctx, n.loop.stopped, &n.fsm.claimed, func() bool {
		claim := n.fsm.claim.Load()
		return claim != nil && image.ControllerEpoch(claim.Term) > after
	})
	if !claimed {
		return ErrOutcomeUnknown
	}
	return nil
}
