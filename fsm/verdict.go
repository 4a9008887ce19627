package fsm

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// State is all that the verdict on the next entry depends on, and where the log stands.
type State struct {
	// ClaimIndex and ClaimTerm are those of the newest claim, 0 before the first.
	ClaimIndex, ClaimTerm uint64
	// ExpectedSequence is the sequence that the next entry under the claim must bear.
	ExpectedSequence uint64
	// Offset is the metadata offset of the last record, [image.NoOffset] before the first.
	Offset image.MetadataOffset
	// Chain is the chain after the last entry with records.
	Chain image.Chain
	// TimeMs is the greatest time of a claim or an applied entry. It never falls.
	TimeMs int64
	// Index is the Raft index of the last command seen. No verdict depends on it.
	Index uint64
}

// InitialState is the state before the first command.
func InitialState() State { return State{Offset: image.NoOffset} }

// Verdict is what becomes of an entry.
type Verdict int

const (
	// Apply: the entry continues what this replica holds.
	Apply Verdict = iota + 1
	// Fenced: the entry comes from an incarnation that is over, or follows one that Raft refused. It changes nothing.
	Fenced
	// Halt: the entry cannot stand in a log that this replica has read whole. The histories differ.
	Halt
)

// String returns apply, fenced or halt.
func (v Verdict) String() string {
	switch v {
	case Apply:
		return "apply"
	case Fenced:
		return "fenced"
	case Halt:
		return "halt"
	}
	return fmt.Sprintf("verdict(%d)", int(v))
}

// Judge gives the verdict on an entry that stands in the log with the given Raft term, and the reason when it is not
// to be applied. It depends on nothing but its arguments, so every replica and every later reader of the log gives
// the same one. An entry is bound to the term, the claim, the sequence and the position it was decided on, because
// raft.Apply can be bound to none of them (hashicorp/raft issue 695 shows what an entry under a wrong term does).
func Judge(s State, term uint64, e *record.RawEntry) (Verdict, string) {
	switch {
	case e.Term != term:
		return Fenced, fmt.Sprintf("decided in term %d, stands in term %d", e.Term, term)
	case e.ClaimIndex < s.ClaimIndex:
		return Fenced, fmt.Sprintf("decided under claim %d, newest is %d", e.ClaimIndex, s.ClaimIndex)
	case e.ClaimIndex > s.ClaimIndex:
		return Halt, fmt.Sprintf("decided under claim %d, newest here is %d: a claim was missed", e.ClaimIndex, s.ClaimIndex)
	case e.ClaimIndex == 0:
		return Halt, "an entry before the first claim"
	case e.Sequence > s.ExpectedSequence:
		return Fenced, fmt.Sprintf("sequence %d, expected %d: one before it was refused", e.Sequence, s.ExpectedSequence)
	case e.Sequence < s.ExpectedSequence:
		return Halt, fmt.Sprintf("sequence %d comes again, expected %d", e.Sequence, s.ExpectedSequence)
	case e.BaseOffset != s.Offset+1:
		return Halt, fmt.Sprintf("base offset %d, expected %d", e.BaseOffset, s.Offset+1)
	case e.Chain != s.Chain:
		return Halt, fmt.Sprintf("chain %v before offset %d, here it is %v", e.Chain, e.BaseOffset, s.Chain)
	}
	return Apply, ""
}

// AfterClaim returns the state after a claim: it opens an incarnation, ends a decision that was to go on, and leaves
// offset and chain alone.
func (s State) AfterClaim(index, term uint64, timeMs int64) State {
	s.ClaimIndex, s.ClaimTerm, s.ExpectedSequence = index, term, 1
	s.TimeMs = max(s.TimeMs, timeMs)
	s.Index = index
	return s
}

// AfterEntry returns the state after an entry whose verdict is [Apply]. Without records it takes a sequence but no
// offset, and leaves the chain alone.
func (s State) AfterEntry(index uint64, e *record.RawEntry) State {
	s.ExpectedSequence++
	s.TimeMs = max(s.TimeMs, e.TimeMs)
	s.Offset = e.LastOffset()
	s.Chain = e.ChainAfter()
	s.Index = index
	return s
}

// AfterFenced returns the state after an entry that was fenced: only the index moves.
func (s State) AfterFenced(index uint64) State {
	s.Index = index
	return s
}
