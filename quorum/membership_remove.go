package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// membershipCheck is how often the active controller looks whether the configuration follows what is recorded.
const membershipCheck = time.Second

// removalPauseMax bounds the checks that are left out after a refusal. They double with each.
const removalPauseMax = 16

// RemoveController implements OperatorApi.
func (s *operatorServer) RemoveController(ctx context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	response, err := s.n.removeController(ctx, r)
	return response, refusal(err, s.n.activeController())
}

func (n *Node) removeController(ctx context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	if n.loop.active.Load() == nil {
		return nil, ErrNotActive
	}
	if !r.GetValidateOnly() {
		end, err := n.beginChange(fmt.Sprintf("quorum remove %d", r.GetControllerId()))
		if err != nil {
			return nil, err
		}
		defer end()
	}
	q, conf, err := n.quorumNow(ctx)
	if err != nil {
		return nil, err
	}
	cause := operatorCause("RemoveController", r.GetRequestId())
	cause.Principal = principalOf(ctx)
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

// keepMembership sends removed servers away, and carries out removals that were recorded by an active controller that died
// before it had done so.
func (n *Node) keepMembership(ctx context.Context) {
	ticker := time.NewTicker(membershipCheck)
	defer ticker.Stop()
	var retry removalRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n.raft.DropRemoved()
		if !retry.due() {
			continue
		}
		err := n.finishRemovals(ctx)
		if retry.settle(err) {
			n.cfg.Logger.Warn("a removal that is recorded waits", "why", err)
		}
	}
}

// removalRetry is when removals that are recorded are looked at again, counted in checks.
type removalRetry struct {
	pause, left int
	why         string
}

// due tells whether this check is one that looks.
func (r *removalRetry) due() bool {
	if r.left > 0 {
		r.left--
		return false
	}
	return true
}

// settle takes what came of it, and tells whether that is a refusal for another reason than before.
func (r *removalRetry) settle(err error) (isNew bool) {
	if err == nil {
		*r = removalRetry{}
		return false
	}
	r.pause = min(max(1, 2*r.pause), removalPauseMax)
	r.left = r.pause
	isNew = err.Error() != r.why
	r.why = err.Error()
	return isNew
}

// finishRemovals does so once. It judges first, and takes the place of the one change only to act: a removal that has to wait is in
// nobody's way. If the quorum changes in between, the change is refused, for it names the configuration that was judged.
func (n *Node) finishRemovals(ctx context.Context) error {
	if n.loop.active.Load() == nil || n.changing.Load() != nil {
		return nil
	}
	pending, err := n.pendingRemovals()
	if err != nil || len(pending) == 0 {
		return err
	}
	q, conf, err := n.quorumNow(ctx)
	if err != nil {
		return nil // not active any more
	}
	for _, c := range pending {
		m, ok := q.Find(c.ID)
		if !ok || m.DirectoryID != c.DirectoryID {
			continue
		}
		if err := q.CheckRemoval(m, false); err != nil {
			return err
		}
		end, err := n.beginChange("a removal that is recorded")
		if err != nil {
			return nil // the other one goes first
		}
		defer end()
		if m.ID == q.Active {
			return n.handOverBefore(ctx, q)
		}
		_, err = n.carryOutRemoval(ctx, m, conf)
		return err // the next one is decided on the quorum that this one leaves
	}
	return nil
}

// pendingRemovals are the members that were removed, as far as the record goes.
func (n *Node) pendingRemovals() ([]image.RemovedController, error) {
	var pending []image.RemovedController
	conf, err := n.raft.GetConfiguration()
	if err != nil {
		return nil, err
	}
	for c := range n.fsm.Image().RemovedControllers() {
		if conf.Has(serverID(controller.QuorumMember{ID: c.ID, DirectoryID: c.DirectoryID})) {
			pending = append(pending, c)
		}
	}
	return pending, nil
}

// handOverBefore hands over to whoever is to remove this controller.
func (n *Node) handOverBefore(ctx context.Context, q controller.Quorum) error {
	d, err := controller.TransferLeadership(controller.View{}, q, &controllerpb.TransferLeadershipRequest{})
	if err != nil {
		return err
	}
	return n.handOver(ctx, d.Response)
}
