package fsm

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// ErrDiverged tells of a log that this replica did not read like the others.
var ErrDiverged = errors.New("log divergence")

// Apply applies one command.
func (f *FSM) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies commands in order and publishes once, at the end.
func (f *FSM) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	at := f.Position()
	before := at
	var entries []*Entry
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			continue
		}
		f.marks.next(l.Index)
		if f.halted.Load() == nil {
			var e *Entry
			out[i], e = f.apply(&at, l)
			if e != nil {
				entries = append(entries, e)
			}
		}
		if err := f.halted.Load(); err != nil {
			out[i] = HaltResult{err}
		}
	}
	if at != before {
		f.publisher.publish(entries, func() { f.position.Store(&at) })
	}
	if f.halted.Load() == nil && len(logs) > 0 {
		f.applied.Store(logs[len(logs)-1].Index)
	}
	return out
}

// apply applies one command to at. It returns the response, and the entry if it was applied and has records.
func (f *FSM) apply(at *Position, l *raft.Log) (any, *Entry) {
	c, err := record.DecodeCommand(l.Data)
	if err != nil {
		f.halt(l, err)
		return nil, nil
	}
	if c.Claim != nil {
		at.State = at.State.AfterClaim(l.Index, l.Term, c.Claim.TimeMs)
		f.offers.clear()
		f.marks.note(at.State)
		f.counters.Claims.Add(1)
		return ClaimResult{Index: l.Index, Term: l.Term, TimeMs: at.State.TimeMs, Image: at.Image, State: at.State}, nil
	}
	verdict, reason := Judge(at.State, l.Term, c.Entry)
	switch verdict {
	case Halt:
		f.halt(l, fmt.Errorf("%w: %s", ErrDiverged, reason))
		return nil, nil
	case Fenced:
		f.cfg.Logger.Info("entry fenced", "raftIndex", l.Index, "raftTerm", l.Term, "records", c.Entry.Count, "reason", reason)
		at.State = at.State.AfterFenced(l.Index)
		f.marks.note(at.State)
		f.counters.Fenced.Add(1)
		return EntryResult{Verdict: Fenced, Reason: reason, Image: at.Image, State: at.State}, nil
	}
	next, err := f.next(*at, l, c.Entry)
	if err != nil {
		f.halt(l, err)
		return nil, nil
	}
	*at = next
	f.marks.note(at.State)
	f.counters.Entries.Add(1)
	f.counters.Records.Add(uint64(c.Entry.Count))
	res := EntryResult{Verdict: Apply, Image: at.Image, State: at.State}
	if c.Entry.Count == 0 {
		return res, nil
	}
	return res, entryOf(l, c.Entry, at.State)
}

// next returns the position after an entry that is to be applied. An image that the active controller offered is
// taken as it is, but for a sample that is compared with a replay.
func (f *FSM) next(at Position, l *raft.Log, e *record.RawEntry) (Position, error) {
	next := Position{State: at.State.AfterEntry(l.Index, e), Image: at.Image}
	offered := f.offers.take(e.ClaimIndex, e.Sequence)
	if e.Count == 0 {
		return next, nil
	}
	if offered != nil && (offered.Offset() != next.State.Offset || offered.Chain() != next.State.Chain) {
		return at, fmt.Errorf("%w: the image offered ends at offset %d, chain %v; the entry at %d, %v", ErrDiverged,
			offered.Offset(), offered.Chain(), next.State.Offset, next.State.Chain)
	}
	if offered != nil {
		next.Image = offered
		f.counters.Offered.Add(1)
		if f.sinceVerify++; f.cfg.VerifyEvery == 0 || f.sinceVerify < f.cfg.VerifyEvery {
			return next, nil
		}
		f.sinceVerify = 0
		f.counters.Verified.Add(1)
	}
	d := at.Image.Fork()
	if err := d.ReplayEntry(e); err != nil {
		return at, err
	}
	replayed := d.Seal(next.State.Offset, next.State.Chain)
	if offered != nil && offered.Fingerprint() != replayed.Fingerprint() {
		return at, fmt.Errorf("%w: the image offered for offset %d has fingerprint %016x, the replay gives %016x", ErrDiverged,
			next.State.Offset, offered.Fingerprint(), replayed.Fingerprint())
	}
	if offered == nil {
		next.Image = replayed
	}
	return next, nil
}

// halt stops the FSM for good.
func (f *FSM) halt(l *raft.Log, reason error) {
	err := &HaltError{Index: l.Index, Term: l.Term, Reason: reason}
	f.halted.Store(err)
	f.cfg.Logger.Error("the state machine stops: this node must leave the quorum; keep its files and ask for help",
		"raftIndex", l.Index, "raftTerm", l.Term, "error", reason.Error())
	f.publisher.wake()
	f.cfg.OnHalt(err)
}

// Offer is an image that the active controller has built for an entry it is about to propose.
type Offer struct {
	// ClaimIndex and Sequence are those of the entry.
	ClaimIndex, Sequence uint64
	// Image is the one after the entry, sealed with its last offset and the chain after it.
	Image *image.Image
}

// Offer hands over an image, to be published by pointer when the entry commits with the verdict [Apply]. Offers beyond
// Config.OffersMax push out the oldest; an entry without its offer is replayed.
func (f *FSM) Offer(o Offer) { f.offers.put(o) }
