package quorum

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// claim is one incarnation of the active controller. Nothing in it survives the end of its leadership.
type claim struct {
	index    uint64
	term     uint64
	sequence uint64
	// base is the offset of the next entry's first record.
	base   image.MetadataOffset
	chain  image.Chain
	timeMs int64
	// committed is the newest image known to be committed; pending has everything decided on top.
	committed *image.Image
	pending   *image.Image
	liveness  controller.Liveness
	rounds    rounds

	open      batch
	ready     []*proposal
	sent      []*proposal
	sentBytes int
	// parked counts the answers that wait in open, ready and sent.
	parked int
}

// claimAttempt is a claim that has been proposed.
type claimAttempt struct {
	raft    *raftnode.Proposal
	since   uint64 // tick of the first attempt
	refused bool
}

// orphan is a proposal whose claim has ended before its outcome was known.
type orphan struct {
	proposal *proposal
	since    uint64 // tick
}

// onLeadership follows Raft. A higher take-over is a new one also when leadership was not seen to end: it may have been
// lost and regained in between, and what was decided under the old one is void.
func (l *loop) onLeadership(now raftnode.Leadership) {
	if now == l.leadership {
		return
	}
	l.leadership = now
	l.claiming = nil
	l.renounce("Raft leadership changed")
	if now.Leader {
		l.proposeClaim()
	}
}

// onOutOfQuorum ends the active role for good: the node is superseded. What is with Raft is not awaited.
func (l *loop) onOutOfQuorum() {
	l.outOfQuorum, l.isOut, l.claiming = nil, true, nil
	l.renounce("this controller is superseded")
	for _, o := range l.orphans {
		answerAll(o.proposal, result{err: ErrOutcomeUnknown})
	}
	l.orphans = nil
}

// proposeClaim asks the log for the active role. The answer tells the state to stand on.
func (l *loop) proposeClaim() {
	if l.isOut {
		return
	}
	data, err := record.EncodeClaim(&metadatapb.Claim{
		NodeId: int32(l.cfg.NodeID), DirectoryId: l.cfg.DirectoryID.Bytes(), IncarnationId: l.cfg.IncarnationID.Bytes(),
		Listeners: l.cfg.Listeners, TimeMs: l.env.Now().UnixMilli(),
	})
	if err != nil {
		l.fatal(fmt.Errorf("quorum: encode claim: %w", err))
		return
	}
	attempt := &claimAttempt{since: l.ticks}
	if l.claiming != nil {
		attempt.since = l.claiming.since
	}
	l.claiming = attempt
	l.metrics.Claims.Add(1)
	l.env.At("controller.claim.before-propose")
	attempt.raft = l.raft.Apply(data)
	attempt.refused = !l.waiter.Add(attempt.raft)
}

// onOutcome takes what became of a claim or of a proposal. Those of an older leadership are neither.
func (l *loop) onOutcome(out raftnode.Outcome) {
	switch c := l.claim; {
	case l.claiming != nil && l.claiming.raft == out.Proposal:
		l.onClaimed(out)
	case c != nil && len(c.sent) > 0 && c.sent[0].raft == out.Proposal:
		l.onProposed(c.sent[0], out)
	default:
		l.settleOrphan(out)
	}
}

// onClaimed begins to serve, or tries again while Raft still leads.
func (l *loop) onClaimed(out raftnode.Outcome) {
	claimed, ok := out.Response.(fsm.ClaimResult)
	if out.Fate != raftnode.FateApplied || !ok {
		l.logger.Warn("claim refused", "fate", out.Fate.String(), "error", out.Err, "response", fmt.Sprint(out.Response))
		l.metrics.ClaimsRefused.Add(1)
		l.claiming.refused = true
		return // tried again at the next tick, for as long as Raft leads
	}
	l.claiming = nil
	now := l.env.Now()
	l.claim = &claim{
		index: claimed.Index, term: claimed.Term, sequence: 1,
		base: claimed.Image.Offset() + 1, chain: claimed.Image.Chain(), timeMs: claimed.TimeMs,
		committed: claimed.Image, pending: claimed.Image,
		liveness: controller.NewLiveness(claimed.Image, now), rounds: l.firstRounds(),
	}
	l.env.At("controller.claim.applied")
	l.decideOwn(&operation{
		cause:  &metadatapb.Cause{Name: "Activate"},
		decide: func(v controller.View) plan { return planOf(controller.Activate(v)) },
		extent: controller.ActivateExtent,
	})
	if l.claim == nil {
		return
	}
	l.publishSoft()
	l.active.Store(&activity{controllerEpoch: image.ControllerEpoch(claimed.Term), since: now, ended: make(chan struct{})})
	l.logger.Info("active controller", "controllerEpoch", claimed.Term, "claimIndex", claimed.Index,
		"metadataOffset", int64(claimed.Image.Offset()), "chain", claimed.Image.Chain().String())
}

// onProposed settles the oldest proposal in flight.
func (l *loop) onProposed(p *proposal, out raftnode.Outcome) {
	if !applied(out) {
		l.logger.Warn("proposal not applied", "sequence", p.sequence, "fate", out.Fate.String(), "error", out.Err, "response", fmt.Sprint(out.Response))
		l.metrics.ProposalsFenced.Add(1)
		l.renounce("a proposal was refused")
		l.settleOrphan(out)
		if l.leadership.Leader {
			l.proposeClaim()
		}
		return
	}
	c := l.claim
	c.sent = c.sent[1:]
	c.sentBytes -= len(p.data)
	c.parked -= len(p.parked)
	c.committed = p.image
	l.metrics.EntriesCommitted.Add(1)
	answerAll(p, result{image: p.image})
}

// applied tells whether the entry is committed and was accepted by the FSM.
func applied(out raftnode.Outcome) bool {
	entry, ok := out.Response.(fsm.EntryResult)
	return out.Fate == raftnode.FateApplied && ok && entry.Verdict == fsm.Apply
}

// renounce ends the active role: the flag is cleared first, what was only decided is dropped, and what is
// already with Raft waits for its outcome, but not for long.
func (l *loop) renounce(why string) {
	c := l.claim
	if c == nil {
		return
	}
	if was := l.active.Swap(nil); was != nil {
		close(was.ended)
	}
	l.soft.Store(nil)
	l.claim, l.overdue, l.timeWent = nil, false, false
	l.logger.Info("renounced", "controllerEpoch", c.term, "why", why, "inFlight", len(c.sent))
	l.dropAside()
	l.refuseWaiting()
	for _, p := range c.open.parked {
		p.answer(result{err: ErrNotActive})
	}
	for _, p := range c.ready {
		answerAll(p, result{err: ErrNotActive})
	}
	for _, p := range c.sent {
		l.orphans = append(l.orphans, &orphan{proposal: p, since: l.ticks})
	}
}

// settleOrphan answers the callers of a proposal whose claim has ended.
func (l *loop) settleOrphan(out raftnode.Outcome) {
	i := slices.IndexFunc(l.orphans, func(o *orphan) bool { return o.proposal.raft == out.Proposal })
	if i < 0 {
		return
	}
	p := l.orphans[i].proposal
	l.orphans = slices.Delete(l.orphans, i, i+1)
	switch {
	case applied(out):
		answerAll(p, result{image: p.image})
	case out.Fate == raftnode.FateApplied, out.Fate == raftnode.FateNotInLog:
		answerAll(p, result{err: ErrNotActive}) // fenced, or never logged
	default:
		answerAll(p, result{err: ErrOutcomeUnknown})
	}
}

// onTick lets time bring its events, and counts the bounds that end a process in ticks, not in time:
// a process that was stopped has not been refused anything meanwhile.
func (l *loop) onTick() {
	l.ticks++
	l.endLongPause()
	for len(l.orphans) > 0 && l.ticks-l.orphans[0].since > orphanTicksMax {
		answerAll(l.orphans[0].proposal, result{err: ErrOutcomeUnknown})
		l.orphans = l.orphans[1:]
	}
	if l.claim != nil {
		l.hear()
		l.onTime()
		l.publishSoft()
		return
	}
	l.retryClaim()
}

// onTime decides what is due by now. During a pause no heartbeat is taken, so that silence says nothing about a broker.
func (l *loop) onTime() {
	l.overdue = true
	if l.paused != nil || !l.writes() {
		return
	}
	l.overdue, l.timeWent = false, false
	l.expireSessions()
	if l.writes() {
		l.electInBackground()
	}
	l.timeWent = l.aside != nil
}

// letTimeGo decides what a tick found no room for, before the next request is: whoever always has a large one waiting would keep time
// from its turn otherwise. The two take turns, so that time does not keep requests from theirs either.
func (l *loop) letTimeGo() {
	if l.claim == nil || !l.writes() {
		return
	}
	went := l.timeWent
	l.timeWent = false
	if l.overdue && !went {
		l.hear()
		l.onTime()
	}
}

// retryClaim proposes again after a refusal. A leader that nobody lets claim is worse than none: its heartbeats keep
// others from being elected (KAFKA-13104, hashicorp/raft issue 696).
func (l *loop) retryClaim() {
	a := l.claiming
	if a == nil || !l.leadership.Leader || !a.refused {
		return // a claim that waits is not refused: a voter may have to install a snapshot first
	}
	bound := uint64(claimRefusedElectionsMax*l.cfg.ElectionTimeout/tickInterval) + 1
	if l.ticks-a.since > bound {
		l.fatal(fmt.Errorf("quorum: claims refused for more than %d election time-outs while Raft says this node leads", claimRefusedElectionsMax))
		return
	}
	l.proposeClaim()
}

// beginTurn notes that the controller runs. A gap in its own turns means that it could not hear the brokers, not that
// they did not speak: everyone gets a full new session then.
func (l *loop) beginTurn() {
	if l.claim == nil {
		return
	}
	next, renewed := l.claim.liveness.Tick(l.env.Now(), l.cfg.HeartbeatInterval)
	if renewed {
		l.logger.Warn("the controller did not run for longer than a heartbeat interval; all sessions begin anew")
	}
	l.claim.liveness = next
}

// expireSessions fences the brokers that were silent for a session, as many as one decision may be about. The others follow at
// the next ticks, when there is room: what waits, and the log, have their turns in between.
func (l *loop) expireSessions() {
	if !controller.HasStale(l.view()) {
		return
	}
	l.decideOwn(&operation{
		cause:  &metadatapb.Cause{Name: "SessionExpired"},
		decide: func(v controller.View) plan { return planOf(controller.FenceStaleBrokers(v)) },
		extent: controller.FenceStaleBrokersExtent,
	})
}

// publishSoft lets readers see the liveness as it is now.
func (l *loop) publishSoft() {
	if l.claim != nil {
		liveness := l.claim.liveness
		l.soft.Store(&liveness)
	}
}

func answerAll(p *proposal, r result) {
	for _, w := range p.parked {
		out := r
		if out.err == nil {
			out.response = w.response
		}
		w.answer(out)
	}
	p.parked = nil
}
