package history

import (
	"slices"
	"time"
)

// retain removes the oldest segments while they are too old or there is too much. The last segment stays; when it is too
// old itself it is closed first, so that a quiet cluster keeps no more than a busy one.
func (s *store) retain(now time.Time) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	oldest := now.Add(-s.cfg.RetentionTime).UnixMilli()
	if last := s.last(); last != nil && len(last.runs) > 0 && last.lastTimeMs() < oldest {
		if err := s.roll(header{before: last.after(), timeMs: now.UnixMilli()}); err != nil {
			return err
		}
	}
	var total int64
	for _, seg := range s.list {
		total += seg.size
	}
	for len(s.list) > 1 {
		first := s.list[0]
		if first.lastTimeMs() >= oldest && total <= s.cfg.RetentionBytes {
			break
		}
		floor := first.after().Offset + 1
		if err := s.writeFloor(floor); err != nil {
			return err
		}
		s.mu.Lock()
		s.list, s.floor = slices.Clone(s.list[1:]), floor
		s.mu.Unlock()
		if err := s.remove(first); err != nil {
			return err
		}
		total -= first.size
		s.metrics.SegmentsRemoved.Add(1)
		s.cfg.Logger.Info("history segment removed", "segment", first.name, "begins", int64(floor))
	}
	return nil
}

// bytes is what the segments take.
func (s *store) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, seg := range s.list {
		n += seg.size
	}
	return n
}
