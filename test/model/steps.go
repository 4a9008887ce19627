package model

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// clock is the time of a step. A patient world stands still; in any other each step comes a lag limit after the last.
func (w *World) clock() time.Time {
	if w.m.cfg.Patient {
		return begin
	}
	return begin.Add(lagTimeMax + time.Millisecond)
}

// step makes a step of one partition of a broker that is being changed, and carries its effects out as package broker does.
func (w *World) step(b *broker, part int, e partition.Event) partition.Effects {
	r := &b.parts[part]
	r.Proposals = w.freeProposal(b, part)
	before := r.State
	next, fx := w.m.bug.step(before, w.facts(b), e)
	next.Followers = slices.Clip(next.Followers)
	if next.PartitionEpoch < before.PartitionEpoch && next.Role != partition.RoleNone || next.LeaderEpoch < before.LeaderEpoch && next.Role != partition.RoleNone {
		w.fail("EpochsMonotonic", "%v went from %v to %v", b.id, before, next)
	}
	if fx.StartEpoch != nil {
		r.log.assign(*fx.StartEpoch)
	}
	if fx.NewLeader {
		r.ledSince = next.LeaderEpoch
	}
	r.State = next
	r.settleTimes()
	if r.refusing {
		r.refusing = slices.ContainsFunc(r.Followers, func(f partition.Follower) bool { return isRefused(&f) })
	}
	if fx.HighWatermarkMoved {
		if r.HighWatermark > r.log.end() || r.HighWatermark < before.HighWatermark {
			w.fail("EpochsMonotonic", "the watermark of %v went from %d to %d, the log ends at %d", b.id, before.HighWatermark, r.HighWatermark, r.log.end())
		}
		r.log.high = max(r.log.high, r.HighWatermark)
		w.commit(b, part)
	}
	w.traceStep(b, part, fx)
	w.completeWaiting(b, part)
	if fx.Submit != nil {
		w.submit(b, part, fx.Submit)
	}
	return fx
}

// freeProposal is one less than the lowest number that no proposal has which something still speaks of. The next proposal gets
// that number, so that worlds which differ in nothing but how many there have been are one.
func (w *World) freeProposal(b *broker, part int) (free uint64) {
	taken := uint64(0)
	note := func(p *partition.Proposal) {
		if p != nil {
			taken |= 1 << p.Number
		}
	}
	ofMessage := func(m *message) {
		if m.from == b.id && m.life == b.life && m.part == part {
			note(m.proposal)
		}
	}
	note(b.parts[part].sent)
	note(b.parts[part].ISR.Pending)
	for _, m := range w.messages {
		ofMessage(m)
	}
	for d := w.newest; d != w.tip; d = d.parent {
		if d.answer != nil && d.answer.message != nil {
			ofMessage(d.answer.message)
		}
	}
	for taken>>(free+1)&1 == 1 {
		free++
	}
	return free
}

func (w *World) traceStep(b *broker, part int, fx partition.Effects) {
	if !w.m.tracing() {
		return
	}
	for line := range strings.Lines(fx.String()) {
		w.m.trace("- %s", strings.TrimSuffix(line, "\n"))
	}
	r := &b.parts[part]
	w.m.trace("%d: t-%d %v %s", b.id, part, r.State, r.log.appendTo(nil))
}

// commit notes what a leader shows below its high watermark. Leaders of before the last excused loss may show what they like.
func (w *World) commit(b *broker, part int) {
	r := &b.parts[part]
	p := &w.promises[part]
	if r.LeaderEpoch < p.since || r.HighWatermark > r.log.end() {
		return
	}
	shown := r.log.entries[:r.HighWatermark]
	if n := common(shown, p.committed); n < len(shown) && n < len(p.committed) {
		w.fail("NoCommittedRecordLost", "broker %d shows %s, committed were %s", b.id, appendEntries(nil, shown), appendEntries(nil, p.committed))
		return
	}
	if len(shown) > len(p.committed) {
		w.promises = slices.Clone(w.promises)
		w.promises[part].committed = slices.Clip(shown)
	}
}

// completeWaiting answers producers, as package broker does (IsReplicated). Who is told that a record is safe must find it
// among what was committed.
func (w *World) completeWaiting(b *broker, part int) {
	r := &b.parts[part]
	if len(r.waiting) == 0 {
		return
	}
	var kept []wait
	for _, p := range r.waiting {
		if r.leads() && p.epoch < r.ledSince {
			continue // told that the leader changed
		}
		code, decided := r.AcksAllVerdict(p.required)
		switch {
		case !decided:
			kept = append(kept, p)
		case code == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED:
			w.m.trace("acknowledged %s", appendEntries(nil, []entry{p.entry}))
			held := w.promises[part].committed
			if r.LeaderEpoch >= w.promises[part].since && (p.required > int64(len(held)) || held[p.required-1] != p.entry) {
				w.fail("AcknowledgedIsCommitted", "%s was acknowledged, committed are %s", appendEntries(nil, []entry{p.entry}), appendEntries(nil, held))
			}
		}
	}
	r.waiting = kept
}

// submit is the AlterPartition manager's part: one item a partition until its own answer.
func (w *World) submit(b *broker, part int, p *partition.Proposal) {
	r := &b.parts[part]
	if r.sent != nil {
		w.step(b, part, partition.AlterPartitionAnswered{
			Proposal: p, Code: controllerpb.ErrorCode_ERROR_CODE_OPERATION_NOT_ATTEMPTED, Now: w.clock(),
		})
		return
	}
	r.sent, r.attempt = p, 0
	w.send(message{from: b.id, life: b.life, senderEpoch: b.epoch, part: part, proposal: p})
}

// produce appends one record with acks=all.
func (w *World) produce(id image.BrokerID, part int) *World {
	if r := &w.broker(id).parts[part]; w.values == w.m.cfg.Values || r.AdmitAppend(true) != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return nil
	}
	next := w.fork()
	b := next.edit(id)
	r := &b.parts[part]
	e := entry{r.LeaderEpoch, w.values}
	if e.epoch < r.log.latest() {
		next.fail("EpochsMonotonic", "broker %d appends in epoch %d, its log has seen %d", id, e.epoch, r.log.latest())
	}
	next.values++
	r.log.append(e)
	r.waiting = append(slices.Clip(r.waiting), wait{e, r.log.end()})
	next.step(b, part, partition.LocalAppend{LogEndOffset: r.log.end(), Now: w.clock()})
	return next
}

// checkLag looks for followers that have fallen behind.
func (w *World) checkLag(id image.BrokerID, part int) *World {
	if !w.broker(id).parts[part].leads() {
		return nil
	}
	next := w.fork()
	if !next.spend(Lag) {
		return nil
	}
	b := next.edit(id)
	fx := next.step(b, part, partition.CheckLag{Now: begin.Add(lagTimeMax + time.Millisecond)})
	if fx.Submit == nil {
		return nil
	}
	return next
}

// forget is a look at a time when nobody has fallen behind: the marks of refusals go.
func (w *World) forget(id image.BrokerID, part int) *World {
	if r := &w.broker(id).parts[part]; !r.leads() || !r.refusing {
		return nil
	}
	next := w.fork()
	b := next.edit(id)
	b.parts[part].refusing = false
	if fx := next.step(b, part, partition.CheckLag{Now: begin}); fx.Submit != nil {
		return nil
	}
	return next
}

// fetchOf is the fetch that a follower would send now; nil if its fetcher stands still.
func (w *World) fetchOf(id image.BrokerID, part int) *lateFetch {
	b := w.broker(id)
	r := &b.parts[part]
	if r.source == image.NoBroker || !b.begun {
		return nil
	}
	return &lateFetch{
		from: id, to: r.source, life: b.life, part: part, epoch: r.sourceEpoch, broker: b.epoch,
		offset: r.log.end(), lastEpoch: r.log.latest(),
	}
}

// fetched is what a leader answers to a fetch.
type fetched struct {
	code       controllerpb.ErrorCode
	diverging  *partition.EpochEnd
	outOfRange bool
	records    []entry
	high, end  int64
}

// serveFetch is the leader's part: the checks, one record at most, and what the leader makes of the position.
func (w *World) serveFetch(f *lateFetch) fetched {
	b := w.broker(f.to)
	if !b.begun {
		return fetched{code: controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER}
	}
	r := &b.parts[f.part]
	out := fetched{high: r.log.high, end: r.log.end()}
	facts := w.facts(b)
	if out.code = r.CheckFollower(&facts, f.from, f.epoch, f.broker); out.code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return out
	}
	judged, end := partition.JudgePosition(&r.log, f.lastEpoch, f.offset, 0)
	counts := judged == partition.Agreed && f.offset <= r.log.end()
	switch {
	case judged == partition.Diverging:
		out.diverging = &end
		counts = w.m.bug == DivergingFetchNoted
	case !counts:
		out.code, out.outOfRange = controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, true
	case f.offset < r.log.end():
		out.records = r.log.entries[f.offset : f.offset+1]
	}
	if counts {
		fx := w.step(w.edit(f.to), f.part, partition.FollowerFetched{
			Follower: f.from, LeaderEpoch: f.epoch, BrokerEpoch: f.broker, FetchOffset: f.offset,
			LeaderLogEndOffset: out.end, At: w.clock(),
		})
		if fx.Refused != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
			out.code, out.records = fx.Refused, nil
		}
	}
	return out
}

// useFetch is the follower's part.
func (w *World) useFetch(f *lateFetch, a fetched) {
	b := w.edit(f.from)
	r := &b.parts[f.part]
	switch {
	case a.outOfRange:
		if to := partition.RecoverOutOfRange(0, r.log.end(), 0, a.end); to.Restart {
			r.log = plog{}
		} else {
			r.log.cut(to.Offset)
		}
		w.excuseCut(f.from, f.part)
	case a.code == controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH:
		r.source, r.sourceEpoch = image.NoBroker, partition.NoLeaderEpoch // until metadata names another leader
	case a.code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED:
	case a.diverging != nil:
		r.log.cut(partition.TruncationOffset(&r.log, *a.diverging, f.offset, r.log.end()))
		w.excuseCut(f.from, f.part)
	default:
		for _, e := range a.records {
			if e.epoch >= r.log.latest() && e.epoch <= f.epoch {
				r.log.append(e)
			}
		}
		r.log.high = partition.FollowerHighWatermark(a.high, 0, r.log.end())
	}
	w.m.trace("%d: t-%d %s", b.id, f.part, r.log.appendTo(nil))
}

// fetch is a fetch and its answer.
func (w *World) fetch(id image.BrokerID, part int) *World {
	f := w.fetchOf(id, part)
	if f == nil {
		return nil
	}
	next := w.fork()
	if l := w.late; l != nil && l.answer != nil && l.from == id && l.part == part {
		next.late = nil // it has told its position anew: what is said of the one before is dropped
	}
	next.useFetch(f, next.serveFetch(f))
	return next
}

// fetchLost is a fetch whose answer does not arrive. An answer without news for the log is as good as one that came.
func (w *World) fetchLost(id image.BrokerID, part int) *World {
	f := w.fetchOf(id, part)
	next := w.fork()
	if f == nil || !next.spend(Lost) {
		return nil
	}
	if a := next.serveFetch(f); len(a.records) == 0 && a.diverging == nil {
		return nil
	}
	return next
}

// fetchLate sends a fetch that arrives later.
func (w *World) fetchLate(id image.BrokerID, part int) *World {
	f := w.fetchOf(id, part)
	next := w.fork()
	if f == nil || w.late != nil || !next.spend(Delayed) {
		return nil
	}
	next.late = f
	return next
}

// answerLate is a fetch whose answer arrives later.
func (w *World) answerLate(id image.BrokerID, part int) *World {
	f := w.fetchOf(id, part)
	next := w.fork()
	if f == nil || w.late != nil || !next.spend(Delayed) {
		return nil
	}
	a := next.serveFetch(f)
	f.answer = &a
	next.late = f
	return next
}

// arrive delivers the late fetch, whose sender does not wait for the answer any more, or the late answer. That is dropped if
// its position is not the follower's present one.
func (w *World) arrive() *World {
	f := w.late
	if f == nil {
		return nil
	}
	next := w.fork()
	next.late = nil
	if f.answer == nil {
		next.serveFetch(f)
		return next
	}
	if now := next.fetchOf(f.from, f.part); now != nil {
		now.answer = f.answer
		if *now == *f {
			next.useFetch(f, *f.answer)
		}
	}
	return next
}
