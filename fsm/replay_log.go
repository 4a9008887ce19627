package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// EntriesInFlightMax is the number of entries that an active controller keeps on their way, at most: an entry proves that the one so
// far before it under the same claim was committed. Beyond it the disk gives no more throughput, only more latency.
const EntriesInFlightMax = 64

// Certain is how far a log proves by itself that its entries were committed. Raft does not keep the commit index.
type Certain struct {
	// Index is a Raft index up to which everything was committed, Offset the last metadata offset there.
	Index  uint64
	Offset image.MetadataOffset
}

// ReplayLog replays a log that no node serves any more from a position to the Raft index end, as if all of it were committed, with
// the verdict that every replica gives. inFlightMax is the number of entries that an active controller keeps on their way.
//
// What it proves committed: an entry is decided under a claim only after that claim was applied, and it is proposed only when
// the entry inFlightMax before it was. The errors are those of [Walker.Next], but for [io.EOF].
func ReplayLog(logs Logs, from Position, end uint64, inFlightMax int) (Position, Certain, error) {
	w := NewWalker(logs, from.State, image.NoOffset, end)
	at := from
	certain := Certain{from.State.Index, from.State.Offset}
	window := make([]Certain, 0, inFlightMax+1) // positions after the newest entries under the present claim, the claim first
	for {
		before := w.State()
		e, err := w.step()
		if err != nil && !errors.Is(err, io.EOF) {
			return from, Certain{}, err
		}
		if e != nil {
			if at.Image, err = replayEntry(at.Image, e); err != nil {
				return from, Certain{}, &HaltError{Index: e.Index, Term: e.Term, Reason: err}
			}
		}
		now := w.State()
		at.State = now
		here := Certain{now.Index, now.Offset}
		switch {
		case now.ClaimIndex != before.ClaimIndex:
			window = append(window[:0], here)
		case now.ExpectedSequence != before.ExpectedSequence && len(window) > 0:
			if window = append(window, here); len(window) > inFlightMax+1 {
				window = append(window[:0], window[1:]...)
			}
			certain = window[0]
		}
		if err != nil {
			return at, certain, nil
		}
	}
}

func replayEntry(im *image.Image, e *Entry) (*image.Image, error) {
	raw, err := record.ScanEntry(e.Bytes)
	if err != nil {
		return nil, err
	}
	d := im.Fork()
	if err := d.ReplayEntry(raw); err != nil {
		return nil, err
	}
	return d.Seal(e.LastOffset, e.Chain), nil
}

// step reads one log entry; the result is nil if it changes no image. The errors are those of Next.
func (w *Walker) step() (*Entry, error) {
	if w.state.Index >= w.end {
		return nil, io.EOF
	}
	l, err := w.read(w.state.Index + 1)
	if err != nil {
		return nil, err
	}
	e, err := w.judge(l)
	if err != nil {
		return nil, &HaltError{Index: l.Index, Term: l.Term, Reason: err}
	}
	return e, nil
}

// String is the position in one line.
func (c Certain) String() string {
	return fmt.Sprintf("raftIndex=%d metadataOffset=%d", c.Index, c.Offset)
}
