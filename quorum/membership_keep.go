package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

const (
	// membershipCheck is how often the active controller looks whether the configuration follows what is recorded, and
	// whether somebody in it waits for a vote.
	membershipCheck = time.Second
	// removalPauseMax bounds the checks that are left out after a refusal. They double with each.
	removalPauseMax = 16
)

// keepMembership sends removed servers away, and carries out what an active controller began that died or gave up before it
// was done: removals that were recorded, and newcomers that have no vote yet.
func (n *Node) keepMembership(ctx context.Context) {
	ticker := time.NewTicker(membershipCheck)
	defer ticker.Stop()
	var retry removalRetry
	var unowned unownedNewcomers
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n.raft.DropRemoved()
		if retry.due() && retry.settle(n.finishRemovals(ctx)) {
			n.cfg.Logger.Warn("a removal that is recorded waits", "why", retry.why)
		}
		n.finishAdditions(ctx, &unowned)
		n.waits.Store(n.whatWaits(&retry, &unowned))
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
		end, _ := n.tryChange(fmt.Sprintf("quorum remove %v, which is recorded", m.ID), true)
		if end == nil {
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
