package quorum

import (
	"fmt"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// parked is an answer that waits for a commit.
type parked struct {
	response any
	answer   func(result)
}

// batch is what was decided but is not yet in an entry.
type batch struct {
	decisions [][]byte
	bytes     int
	records   int
	parked    []parked
	// due asks for an entry even if it holds no record: a read waits for it.
	due bool
}

func (b *batch) empty() bool { return len(b.decisions) == 0 && !b.due }

// proposal is one entry on its way through Raft.
type proposal struct {
	claimIndex uint64
	sequence   uint64
	data       []byte
	records    int
	// image is the state after the entry, published by pointer when it commits.
	image  *image.Image
	parked []parked
	raft   *raftnode.Proposal
}

// decide runs one decision against the pending image and puts its records into it.
func (l *loop) decide(op *operation) {
	if l.aside != nil {
		l.meanwhile(op)
		return
	}
	c := l.claim
	decide, late := op.decide, op.isLate(l.env.Now())
	if late {
		if op.late == nil {
			l.metrics.OperationsRefused.Add(1)
			op.answer(result{err: ErrGivenUp})
			return
		}
		decide = op.late
	}
	if decide == nil {
		c.open.due = true
		c.open.parked = append(c.open.parked, parked{answer: op.answer})
		c.parked++
		return
	}
	if op.extent != nil && !late {
		if x := op.extent(l.view()); x.Items >= asideItemsMin {
			l.decideAside(op, x.Brokers)
			return
		}
	}
	l.metrics.OperationsDecided.Add(1)
	p := decide(l.view())
	if p.err != nil {
		op.answer(result{err: p.err})
		return
	}
	l.tell(op.cause, explain(p, c.pending))
	if err := l.append(c, op.cause, p); err != nil {
		op.answer(result{err: err})
		return
	}
	l.settle(op, p)
}

// settle lets the answer to a decision, whose records are in the pending image, wait for what it rests on.
func (l *loop) settle(op *operation, p plan) {
	c := l.claim
	if p.liveness != nil {
		c.liveness = *p.liveness
	}
	if len(p.records) == 0 && op.heartbeat != nil && c.restsOnCommitted(op.heartbeat) {
		op.answer(result{response: p.response, image: c.committed})
		return
	}
	if len(p.records) == 0 {
		l.park(parked{response: p.response, answer: op.answer})
		return
	}
	l.env.At("controller.decided." + op.cause.GetName())
	if p.then != nil {
		l.decideOwn(p.then)
	}
	l.parkBehind(parked{response: p.response, answer: op.answer})
}

// park lets an answer wait for everything it may rest on: what was decided before it, committed or not.
func (l *loop) park(p parked) {
	c := l.claim
	c.parked++
	switch {
	case !c.open.empty():
		c.open.parked = append(c.open.parked, p)
	case len(c.ready) > 0:
		last := c.ready[len(c.ready)-1]
		last.parked = append(last.parked, p)
	case len(c.sent) > 0:
		last := c.sent[len(c.sent)-1]
		last.parked = append(last.parked, p)
	default:
		c.parked--
		p.answer(result{response: p.response, image: c.committed})
	}
}

// append encodes a decision's records and replays them, as decoded, into the pending image.
// A decision that is not atomic is cut where an entry is full.
func (l *loop) append(c *claim, cause *metadatapb.Cause, p plan) error {
	if err := controller.CheckLevels(c.pending, p.records); err != nil {
		return err
	}
	size := 0
	for _, r := range p.records {
		size += record.Size(r)
	}
	if p.atomic {
		if err := l.cfg.Limits.CheckAtomic(len(p.records), size); err != nil {
			return err
		}
	}
	if c.open.bytes+size > entryBytesMax {
		l.close(c)
	}
	rest := p.records
	for len(rest) > 0 {
		part := rest
		if !p.atomic {
			part = prefixBelow(rest, entryBytesTarget)
		}
		rest = rest[len(part):]
		data, err := record.EncodeDecision(&metadatapb.Decision{Cause: cause, More: len(rest) > 0, Records: part})
		if err != nil {
			return fmt.Errorf("quorum: encode decision %s: %w", cause.GetName(), err)
		}
		if err := l.replay(c, cause, data); err != nil {
			return err
		}
		c.open.decisions = append(c.open.decisions, data)
		c.open.bytes += len(data)
		c.open.records += len(part)
		if len(rest) > 0 {
			l.close(c)
		}
	}
	return nil
}

// prefixBelow takes as many records as fit, at least one.
func prefixBelow(records []*metadatapb.Record, bytesMax int) []*metadatapb.Record {
	size := 0
	for i, r := range records {
		size += record.Size(r)
		if size > bytesMax && i > 0 {
			return records[:i]
		}
	}
	return records
}

// replay puts a decision into the pending image, from its bytes and by the function that every other replica uses.
// A record that does not replay is a fault of the decision: the process must not go on from it.
func (l *loop) replay(c *claim, cause *metadatapb.Cause, data []byte) error {
	delta := c.pending.Fork()
	offset := c.pending.Offset()
	err := record.EachRecord(data, func(raw []byte) error {
		offset++
		return delta.ReplayEncoded(offset, raw)
	})
	if err != nil {
		l.fatal(fmt.Errorf("quorum: replay own decision %s at offset %d: %w", cause.GetName(), offset, err))
		return err
	}
	c.pending = delta.Seal(offset, c.pending.Chain())
	return nil
}

// close makes an entry of what is open and puts it behind those that are ready.
func (l *loop) close(c *claim) {
	if c.open.empty() {
		return
	}
	c.timeMs = max(c.timeMs, l.env.Now().UnixMilli())
	header := record.EntryHeader{
		ClaimIndex: c.index, Term: c.term, Sequence: c.sequence,
		BaseOffset: c.base, Chain: c.chain, TimeMs: c.timeMs,
	}
	data, chain := record.EncodeEntry(header, c.open.decisions)
	p := &proposal{claimIndex: c.index, sequence: c.sequence, data: data, records: c.open.records, parked: c.open.parked}
	if p.records > 0 {
		c.chain = chain
		c.base += image.MetadataOffset(p.records)
		c.pending = c.pending.Fork().Seal(c.pending.Offset(), chain)
	}
	p.image = c.pending
	c.sequence++
	c.open = batch{}
	c.ready = append(c.ready, p)
}

// flush proposes what the window has room for.
func (l *loop) flush() {
	c := l.claim
	if c == nil || l.paused != nil {
		return
	}
	if len(c.ready) == 0 && c.wantsEntry() {
		l.close(c)
	}
	for len(c.ready) > 0 && len(c.sent) < entriesInFlightMax && c.sentBytes < bytesInFlightMax {
		p := c.ready[0]
		c.ready = c.ready[1:]
		l.fsm.Offer(fsm.Offer{ClaimIndex: p.claimIndex, Sequence: p.sequence, Image: p.image})
		l.env.At("controller.propose")
		p.raft = l.raft.Apply(p.data)
		c.sent = append(c.sent, p)
		c.sentBytes += len(p.data)
		if !l.waiter.Add(p.raft) { // nobody would tell its outcome, and the claim would stand still
			l.renounce("too many proposals are awaited")
			if l.leadership.Leader {
				l.proposeClaim()
			}
			return
		}
	}
}

// wantsEntry tells whether what is open should become an entry now. A lone decision never waits. While some entries are on
// their way, the log's disk is busy and another small one would only wait there: what comes meanwhile shares the next one,
// so that the more callers there are, the less of Raft's work each of them costs.
func (c *claim) wantsEntry() bool {
	if len(c.sent) >= entriesInFlightMax || c.sentBytes >= bytesInFlightMax {
		return false
	}
	return len(c.sent) < smallEntriesInFlightMax || c.open.bytes >= entryBytesTarget
}

// hasRoom tells whether another request may be decided.
func (c *claim) hasRoom() bool {
	return len(c.ready) < entriesReadyMax && c.open.bytes < entryBytesTarget && c.parked < answersParkedMax
}
