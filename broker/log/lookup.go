package log

import "github.com/quorate/quorate/fsm/image"

// TimestampOffset is what a lookup by time found: a record and the leader epoch of its batch.
type TimestampOffset struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch image.LeaderEpoch
}

// OffsetForTimestamp is the first record whose timestamp is timestampMs or a larger one; ok is false when there is none.
// Earliest and latest are [Log.LogStartOffset] and [Log.LogEndOffset] or [Log.HighWatermark]. In a compressed batch
// that the manager cannot decompress the answer is the batch's first offset.
// (Kafka: UnifiedLog.fetchOffsetByTimestamp.)
func (l *Log) OffsetForTimestamp(timestampMs int64) (t TimestampOffset, ok bool, err error) {
	l.reads.RLock()
	defer l.reads.RUnlock()
	if err := l.usable(); err != nil {
		return TimestampOffset{}, false, err
	}
	start, _, end := l.Offsets()
	for _, s := range *l.segments.Load() {
		if newest, _ := s.newest(); newest < timestampMs {
			continue
		}
		t, ok, err = s.offsetForTimestamp(l.handles, l.decompress, timestampMs, start, end)
		if err != nil || ok {
			return t, ok, l.check(err)
		}
	}
	return TimestampOffset{}, false, nil
}

// MaxTimestampOffset is the record with the largest timestamp, the first one of several; ok is false when the log is
// empty or holds no timestamps. (KIP-734.)
func (l *Log) MaxTimestampOffset() (t TimestampOffset, ok bool, err error) {
	l.reads.RLock()
	defer l.reads.RUnlock()
	if err := l.usable(); err != nil {
		return TimestampOffset{}, false, err
	}
	start, _, _ := l.Offsets()
	var in *segment
	newest, at := NoTimestamp, int64(0)
	for _, s := range *l.segments.Load() {
		if ts, offset := s.newest(); ts > newest && offset >= start {
			in, newest, at = s, ts, offset
		}
	}
	if in == nil {
		return TimestampOffset{}, false, nil
	}
	f, ok, err := in.find(l.handles, at)
	if err != nil || !ok {
		return TimestampOffset{}, false, l.check(err)
	}
	b, err := in.batchAt(l.handles, f)
	if err != nil {
		return TimestampOffset{}, false, l.check(err)
	}
	r := newestOf(b, l.decompress)
	return TimestampOffset{r.offset, r.timestamp, image.LeaderEpoch(b.LeaderEpoch())}, true, nil
}

func (s *segment) offsetForTimestamp(h *handles, decompress Decompress, timestampMs, start, end int64) (t TimestampOffset, ok bool, err error) {
	from := s.base
	before, known, err := s.times.before(h, timestampMs)
	if err != nil {
		return t, false, err
	}
	if known {
		from += int64(before.relative) + 1
	}
	f, there, err := s.find(h, max(from, start))
	if err != nil || !there {
		return t, false, err
	}
	for {
		f, there, err = s.findTimestamp(h, f.position, timestampMs)
		if err != nil || !there || f.base >= end {
			return t, false, err
		}
		b, err := s.batchAt(h, f)
		if err != nil {
			return t, false, err
		}
		if r, ok := firstAt(b, decompress, start, timestampMs); ok {
			return TimestampOffset{r.offset, r.timestamp, image.LeaderEpoch(b.LeaderEpoch())}, true, nil
		}
		f.position += int64(f.bytes) // the records of that timestamp lie below the log start
	}
}

// findTimestamp is the first batch from a position on that holds a timestamp or a larger one.
func (s *segment) findTimestamp(h *handles, from, timestampMs int64) (f found, ok bool, err error) {
	err = s.scan(h, from, func(b Batch, position int64) (bool, error) {
		if b.MaxTimestamp() < timestampMs {
			return true, nil
		}
		f, ok = found{position, b.Size(), b.BaseOffset(), b.NextOffset()}, true
		return false, nil
	})
	return f, ok, err
}

// batchAt reads one batch.
func (s *segment) batchAt(h *handles, f found) (Batch, error) {
	file, err := h.acquire(&s.log, false)
	if err != nil {
		return nil, err
	}
	defer h.release(&s.log)
	p := make([]byte, f.bytes)
	if err := readFull(file, p, f.position); err != nil {
		return nil, storage("read", s.path(kindLog), err)
	}
	b, _, err := NextBatch(p)
	return b, err
}
