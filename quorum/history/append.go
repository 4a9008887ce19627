package history

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// place is where an entry belongs, seen from the end of the history.
type place int

const (
	placeNext  place = iota // right behind
	placeSeen               // it is there
	placeGap                // something lies between
	placeOther              // it is of another log
)

func placeOf(tail Mark, i item) place {
	switch {
	case i.LastOffset < tail.Offset, i.after() == tail:
		return placeSeen
	case i.BaseOffset <= tail.Offset:
		return placeOther
	case i.before.Chain == tail.Chain:
		return placeNext // by chain; the offsets that a recovery skipped come before, as a gap of their own (skipTo)
	case i.BaseOffset == tail.Offset+1:
		return placeOther
	}
	return placeGap
}

// batch is what goes into the last segment with one write.
type batch struct {
	buf   []byte
	items []item
	sizes []int
}

func (b *batch) add(i item) {
	before := len(b.buf)
	b.buf = appendFrame(b.buf, i.Index, i.Bytes)
	b.items = append(b.items, i)
	b.sizes = append(b.sizes, len(b.buf)-before)
}

func (b *batch) reset() { b.buf, b.items, b.sizes = b.buf[:0], b.items[:0], b.sizes[:0] }

// append adds entries that follow the end of the history, and skips those that are there. reason is why some may be missing
// before the first. On an error the entries that were not written are lost; what was written stands.
func (s *store) append(items []item, reason Reason) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	tail := s.tail()
	var b batch
	for _, i := range items {
		at := placeOf(tail, i)
		if at == placeSeen {
			continue
		}
		if at == placeOther {
			if err := s.startAnew(&b, i); err != nil {
				return err
			}
			if tail = s.tail(); placeOf(tail, i) == placeGap {
				at, reason = placeGap, ReasonOther
			}
		}
		if at == placeGap {
			if err := s.rollTo(&b, header{before: i.before, reason: reason}); err != nil {
				return err
			}
			reason = ReasonSnapshot
		} else if s.file == nil || s.last().size+int64(len(b.buf)) >= s.cfg.SegmentBytes {
			if err := s.rollTo(&b, header{before: tail}); err != nil {
				return err
			}
		}
		b.add(i)
		tail = i.after()
		if len(b.buf) >= writeBytes {
			if err := s.flush(&b); err != nil {
				return err
			}
		}
	}
	return s.flush(&b)
}

// startAnew puts the files aside: the entry shows that they are of another log.
func (s *store) startAnew(b *batch, i item) error {
	if err := s.flush(b); err != nil {
		return err
	}
	tail := s.tail()
	s.cfg.Logger.Error("the history on disk is of another log and is put aside", "dir", s.cfg.Dir,
		"metadataOffset", int64(tail.Offset), "chain", tail.Chain.String(), "entry", int64(i.BaseOffset), "chainBefore", i.before.Chain.String())
	s.metrics.Diverged.Add(1)
	return s.setAside()
}

// skipTo records that the history has nothing before a mark.
func (s *store) skipTo(m Mark, reason Reason) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if tail := s.tail(); m.Offset <= tail.Offset || m == tail {
		return nil
	}
	var b batch
	return s.rollTo(&b, header{before: m, reason: reason})
}

// rollTo writes what was gathered, closes the last segment and begins another.
func (s *store) rollTo(b *batch, h header) error {
	if err := s.flush(b); err != nil {
		return err
	}
	h.timeMs = s.cfg.Env.Now().UnixMilli()
	switch h.reason {
	case ReasonNone:
	case ReasonLineage: // nothing is missing
		s.cfg.Logger.Info("history goes on in a new lineage", "from", int64(s.tail().Offset)+1, "to", int64(h.before.Offset))
	default:
		s.noteGap()
		s.cfg.Logger.Warn("history has a gap", "from", int64(s.tail().Offset)+1, "to", int64(h.before.Offset), "reason", h.reason.String())
	}
	return s.roll(h)
}

// roll closes the last segment and begins another. An empty one is replaced.
func (s *store) roll(h header) error {
	last := s.last()
	if s.file != nil && len(last.runs) > 0 {
		if err := s.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", last.name, err)
		}
		s.closeFile()
		s.writeIndex(last)
		closed := *last
		closed.keys = nil
		s.replace(&closed)
	}
	s.closeFile()
	name := s.freeName(h.before.Offset + 1)
	file, err := createSegment(s.cfg.Env.FS, s.cfg.Dir, name, h)
	if err != nil {
		return err
	}
	s.file = file
	s.mu.Lock()
	list := slices.Clone(s.list)
	empty := last != nil && len(last.runs) == 0
	if empty {
		list = list[:len(list)-1]
	}
	s.list = append(list, &segment{name: name, header: h, size: headerBytes, keys: keySet{}})
	s.mu.Unlock()
	if empty {
		return s.remove(last)
	}
	return nil
}

// flush writes what was gathered. After an error the file ends where it did, or is closed.
func (s *store) flush(b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	defer b.reset()
	last := s.last()
	if _, err := s.file.WriteAt(b.buf, last.size); err != nil {
		path := filepath.Join(s.cfg.Dir, last.name)
		if cut := s.file.Truncate(last.size); cut != nil {
			err = errors.Join(err, cut)
			s.closeFile() // an index is not written: the next start scans it
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	next := *last
	next.runs = slices.Clone(last.runs)
	for n, i := range b.items {
		if len(next.runs) == 0 || next.after().Chain != i.before.Chain {
			next.runs = append(next.runs, run{start: next.size, end: next.size, before: i.before})
		}
		next.runs[len(next.runs)-1].add(i, b.sizes[n])
		next.size += int64(b.sizes[n])
	}
	keys := keySet{}
	for _, i := range b.items {
		keys.addEntry(i.Entry)
	}
	s.mu.Lock()
	maps.Copy(next.keys, keys)
	s.mu.Unlock()
	s.replace(&next)
	s.metrics.Entries.Add(int64(len(b.items)))
	s.metrics.BytesWritten.Add(int64(len(b.buf)))
	return nil
}
