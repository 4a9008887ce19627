package quorum

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// silentMax is how long a newcomer that nobody adds may be silent before it is taken out. One that answers has catchUpMax.
const silentMax = time.Minute

// unownedNewcomers are the members without a vote whose `quorum add` ended in the middle: with the active controller that
// served it, or because its outcome was unknown.
type unownedNewcomers struct {
	// epoch is the claim under which they were found. Another active controller begins anew.
	epoch image.ControllerEpoch
	since map[raftnode.ServerID]time.Time
}

// keep forgets who is none any more, and tells since when each of the others is one.
func (u *unownedNewcomers) keep(epoch image.ControllerEpoch, now time.Time, waiting []raftnode.Server) {
	former := u.since
	if u.epoch != epoch {
		former = nil
	}
	u.epoch, u.since = epoch, make(map[raftnode.ServerID]time.Time, len(waiting))
	for _, s := range waiting {
		since, ok := former[s.ID]
		if !ok {
			since = now
		}
		u.since[s.ID] = since
	}
}

// finishAdditions gives a vote to each newcomer that follows closely and that nobody adds, and takes out who does not within
// silentMax or catchUpMax. It takes the place of the one change only to act, so nobody waits for a newcomer; if the quorum
// changes in between, the change is refused, for it names the configuration that was judged.
func (n *Node) finishAdditions(ctx context.Context, u *unownedNewcomers) {
	active := n.loop.active.Load()
	if active == nil {
		*u = unownedNewcomers{}
		return
	}
	conf, err := n.raft.GetConfiguration()
	if err != nil || n.changing.Load() != nil {
		return // somebody may be adding just these
	}
	var waiting []raftnode.Server
	for _, s := range conf.Servers {
		if !s.Voter && !n.isRemoved(s.ID) { // who is removed is taken out for that
			waiting = append(waiting, s)
		}
	}
	u.keep(active.controllerEpoch, n.cfg.Env.Now(), waiting)
	for _, s := range waiting {
		done, err := n.finishAddition(ctx, active, conf, s, u.since[s.ID])
		if err != nil {
			n.cfg.Logger.Warn("a controller without a vote waits", "controller", s.ID.NodeID, "why", err)
		}
		if done || err != nil {
			return // the next one is decided on the quorum that this one leaves
		}
	}
}

// finishAddition does so for one, and tells whether it made a change.
func (n *Node) finishAddition(ctx context.Context, active *activity, conf raftnode.Configuration, s raftnode.Server, since time.Time) (done bool, err error) {
	m, err := memberOf(s)
	if err != nil {
		return false, err
	}
	why := controller.CheckLevelsKnown(n.fsm.Image(), m)
	vote := why == nil && n.followsClosely(ctx, active, s.ID)
	if !vote && !n.isOverdue(s.ID, since) {
		return false, nil
	}
	end, _ := n.tryChange(fmt.Sprintf("quorum add %d, which was left unfinished", s.ID.NodeID), true)
	if end == nil {
		return false, nil // the other one goes first
	}
	defer end()
	if n.isRemoved(s.ID) {
		return false, nil // meanwhile; who is removed is taken out for that
	}
	if vote {
		_, err = n.promote(ctx, m, conf)
		return true, err
	}
	_, err = n.configure(ctx, conf, func(ctx context.Context, index uint64) error {
		return n.raft.RemoveServer(ctx, s.ID, index)
	})
	if err == nil {
		n.cfg.Logger.Warn("a controller without a vote was taken out: nobody adds it, and it did not catch up", "controller", s.ID.NodeID,
			"directoryId", s.ID.DirectoryID, "after", n.cfg.Env.Now().Sub(since).Round(time.Second), "levels", why)
	}
	return true, err
}

// followsClosely tells whether a member gets within an election time-out what is committed now: one round of awaitCatchUp.
func (n *Node) followsClosely(ctx context.Context, active *activity, id raftnode.ServerID) bool {
	asked := catchUpTarget{index: n.raft.CommitIndex(), since: n.cfg.Env.Now()}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ElectionTimeout)
	defer cancel()
	return until(ctx, active.ended, n.raft.Heard(), func() bool {
		caughtUp, _ := n.hasCaughtUp(id, asked)
		return caughtUp
	})
}

// isOverdue tells whether a newcomer has had its time.
func (n *Node) isOverdue(id raftnode.ServerID, since time.Time) bool {
	waited := n.cfg.Env.Now().Sub(since)
	silent := waited
	if p, ok := n.raft.Progress(id); ok {
		silent = min(waited, p.Contact)
	}
	return silent >= silentMax || waited >= catchUpMax
}

// whatWaits is what the keeper of the membership looks after and has not done yet, for the status.
func (n *Node) whatWaits(retry *removalRetry, u *unownedNewcomers) *[]membershipChange {
	if n.loop.active.Load() == nil {
		return nil
	}
	var waits []membershipChange
	pending, err := n.pendingRemovals()
	if err != nil {
		return nil // asked again at the next check
	}
	for _, c := range pending {
		what := fmt.Sprintf("quorum remove %v, which is recorded", c.ID)
		if retry.why != "" {
			what += " and waits: " + retry.why
		}
		waits = append(waits, membershipChange{what: what, since: time.UnixMilli(c.RemovedAtMs)})
	}
	for id, since := range u.since {
		waits = append(waits, membershipChange{since: since, what: fmt.Sprintf("quorum add %d, which was left unfinished: "+
			"it gets a vote when it has caught up, and is taken out after %v, or %v of silence", id.NodeID, catchUpMax, silentMax)})
	}
	slices.SortFunc(waits, func(x, y membershipChange) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.what, y.what)) })
	return &waits
}

// changesNow lists the changes of the quorum that are under way, as far as this node knows: those of the active controller.
func (n *Node) changesNow() []*controllerpb.QuorumChange {
	var all []membershipChange
	if c := n.changing.Load(); c != nil {
		all = append(all, *c)
	}
	if waits := n.waits.Load(); waits != nil && n.loop.active.Load() != nil {
		all = append(all, *waits...)
	}
	var out []*controllerpb.QuorumChange
	for _, c := range all {
		out = append(out, &controllerpb.QuorumChange{What: c.what, ForMs: max(0, n.cfg.Env.Now().Sub(c.since).Milliseconds())})
	}
	return out
}
