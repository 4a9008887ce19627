package history

import (
	"github.com/quorate/quorate/fsm/image"
)

// span is a run with the segment that it is in; of an empty segment it is empty.
type span struct {
	segment *segment
	run     run
	// reason is why something is missing before it, if something is.
	reason Reason
}

// view is what the history holds at one moment.
type view struct {
	spans []span
	floor image.MetadataOffset
}

// view takes a copy.
func (s *store) view() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{floor: s.floor}
	for _, seg := range s.list {
		if len(seg.runs) == 0 {
			v.spans = append(v.spans, span{seg, run{before: seg.header.before, after: seg.header.before}, seg.header.reason})
		}
		for i, r := range seg.runs {
			reason := ReasonDamage
			if i == 0 && r.before == seg.header.before && seg.header.reason != ReasonNone {
				reason = seg.header.reason
			}
			v.spans = append(v.spans, span{seg, r, reason})
		}
	}
	return v
}

// each calls f for each gap and each span that is not empty, in the order of offsets.
func (v view) each(f func(*Gap, *span) error) error {
	previous := begin
	for i := range v.spans {
		sp := &v.spans[i]
		if sp.run.after.Offset <= previous.Offset {
			continue // it is there already, from a file that was filled in
		}
		if sp.run.before.Chain != previous.Chain || sp.run.before.Offset < previous.Offset {
			if from := max(previous.Offset+1, v.floor); from <= sp.run.before.Offset {
				if err := f(&Gap{from, sp.run.before.Offset, sp.reason}, nil); err != nil {
					return err
				}
			}
		}
		if sp.run.entries > 0 {
			if err := f(nil, sp); err != nil {
				return err
			}
		}
		previous = sp.run.after
	}
	return nil
}

// gaps lists what is missing, in order.
func (v view) gaps() []Gap {
	var out []Gap
	_ = v.each(func(g *Gap, _ *span) error { // the function returns no error
		if g != nil {
			out = append(out, *g)
		}
		return nil
	})
	return out
}

// edges are the marks on both sides of a gap: an entry that follows left is the first of it, one that leads to right the
// last. left is not known where retention has cut.
func (v view) edges(g Gap) (left Mark, leftKnown bool, right Mark) {
	previous := begin
	for _, sp := range v.spans {
		if sp.run.before.Offset == g.To && previous.Offset < g.To {
			return previous, previous.Offset+1 == g.From, sp.run.before
		}
		if sp.run.after.Offset > previous.Offset {
			previous = sp.run.after
		}
	}
	return begin, false, begin
}
