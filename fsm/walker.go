package fsm

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// ErrCompacted tells that the log no longer reaches back far enough: what is missing is in a snapshot only.
var ErrCompacted = errors.New("fsm: the log was compacted")

// Logs is the part of Raft's log store that a walk needs. A missing entry is [raft.ErrLogNotFound].
type Logs interface {
	GetLog(index uint64, log *raft.Log) error
}

// Walker reads the log again. The log also holds claims, entries without records and fenced entries, and a fenced one
// may bear the very offset and chain that a reader expects. So a walk starts where all inputs of the verdict are
// known, judges with [Judge], and passes on only what every replica has applied.
type Walker struct {
	logs  Logs
	state State
	after image.MetadataOffset
	end   uint64
}

// Walk returns a walk over the applied entries after a metadata offset, up to what is applied now; the log itself may
// hold more, which is not committed. The error is [ErrCompacted] if no start is known that far back.
func (f *FSM) Walk(logs Logs, after image.MetadataOffset) (*Walker, error) {
	end := f.AppliedIndex()
	start, ok := f.marks.before(after)
	if !ok {
		return nil, fmt.Errorf("%w: nothing is known of the log at offset %d", ErrCompacted, after)
	}
	return NewWalker(logs, start, after, end), nil
}

// NewWalker returns a walk from a state, as a snapshot's header gives it, up to the Raft index end.
func NewWalker(logs Logs, start State, after image.MetadataOffset, end uint64) *Walker {
	return &Walker{logs: logs, state: start, after: after, end: end}
}

// State returns the state after the last entry read.
func (w *Walker) State() State { return w.state }

// Next returns the next applied entry with records after the offset asked for; an offset within an entry counts as that
// entry's end. The error is
// [io.EOF] at the end, [ErrCompacted] if the log begins later, a [HaltError] if the log cannot be judged.
func (w *Walker) Next() (*Entry, error) {
	for {
		e, err := w.step()
		if err != nil {
			return nil, err
		}
		if e != nil && e.BaseOffset > w.after {
			return e, nil
		}
	}
}

func (w *Walker) read(index uint64) (*raft.Log, error) {
	l := new(raft.Log)
	if err := w.logs.GetLog(index, l); err != nil {
		if errors.Is(err, raft.ErrLogNotFound) {
			return nil, fmt.Errorf("%w: index %d is gone", ErrCompacted, index)
		}
		return nil, fmt.Errorf("fsm: read index %d of the log: %w", index, err)
	}
	return l, nil
}

// ReplayTo replays entries on top of im, which must stand where the walk began, until the image holds the record at
// offset at; an offset within an entry means that entry's end. The error is [io.EOF] if the walk ends before.
func (w *Walker) ReplayTo(im *image.Image, at image.MetadataOffset) (*image.Image, error) {
	for im.Offset() < at {
		e, err := w.Next()
		if err != nil {
			return nil, err
		}
		if im, err = replayEntry(im, e); err != nil {
			return nil, err
		}
	}
	return im, nil
}

func (w *Walker) judge(l *raft.Log) (*Entry, error) {
	if l.Type != raft.LogCommand {
		w.state.Index = l.Index
		return nil, nil
	}
	c, err := record.DecodeCommand(l.Data)
	if err != nil {
		return nil, err
	}
	if c.Claim != nil {
		w.state = w.state.AfterClaim(l.Index, l.Term, c.Claim.TimeMs)
		return nil, nil
	}
	switch verdict, reason := Judge(w.state, l.Term, c.Entry); verdict {
	case Halt:
		return nil, fmt.Errorf("%w: %s", ErrDiverged, reason)
	case Fenced:
		w.state = w.state.AfterFenced(l.Index)
		return nil, nil
	}
	w.state = w.state.AfterEntry(l.Index, c.Entry)
	if c.Entry.Count == 0 {
		return nil, nil
	}
	return entryOf(l, c.Entry, w.state), nil
}
