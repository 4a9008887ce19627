package quorum

import (
	"context"
	"fmt"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// RemoveController implements OperatorApi.
func (s *operatorServer) RemoveController(ctx context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	response, err := s.n.removeController(ctx, r)
	return response, refusal(err, s.n.activeController())
}

func (n *Node) removeController(ctx context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	q, conf, end, err := n.beginOnQuorum(ctx, fmt.Sprintf("quorum remove %d", r.GetControllerId()), r.GetValidateOnly())
	if err != nil {
		return nil, err
	}
	defer end()
	cause := operatorCause(ctx, "RemoveController", r.GetRequestId())
	removal, im, err := submit(ctx, n.loop, cause, func(v controller.View) (controller.Decision[controller.Removal], error) {
		return controller.RemoveController(v, q, r)
	})
	if err != nil {
		return nil, err
	}
	response := &controllerpb.RemoveControllerResponse{
		DirectoryId: removal.Member.DirectoryID.Bytes(), WasRemoved: removal.WasRemoved, Records: removal.Records,
		ConfigurationIndex: conf.Index, MetadataOffset: int64(im.Offset()), UnfencedBrokers: unfenced(im),
	}
	if r.GetValidateOnly() {
		return response, nil
	}
	if removal.HandOver {
		n.cfg.Logger.Info("the active controller leaves the quorum and hands over first", "to", int(removal.Successor.ID))
		if err := n.handOver(ctx, removal.Successor); err != nil {
			return nil, err
		}
		return nil, ErrNotActive // the successor decides again
	}
	n.cfg.Env.At("controller.remove.recorded")
	response.ConfigurationIndex, err = n.carryOutRemoval(ctx, removal.Member, conf)
	return response, err
}

// carryOutRemoval takes a member out of the Raft configuration, if it is in there. conf is the one on which the removal was
// judged: if there is another one by now, nothing is done.
func (n *Node) carryOutRemoval(ctx context.Context, m controller.QuorumMember, conf raftnode.Configuration) (index uint64, err error) {
	if !conf.Has(serverID(m)) {
		return conf.Index, nil
	}
	conf, err = n.configure(ctx, conf, func(ctx context.Context, index uint64) error {
		return n.raft.RemoveServer(ctx, serverID(m), index)
	})
	if err == nil {
		n.cfg.Logger.Info("a controller was removed from the quorum", "controller", int(m.ID), "directoryId", m.DirectoryID.String())
	}
	return conf.Index, err
}
