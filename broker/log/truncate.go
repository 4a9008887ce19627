package log

import (
	"slices"
)

// TruncateTo takes away the records from an offset on. A batch that contains the offset goes whole, so that the log may
// end before it. Leader epochs that start at or after the offset go too, also when no record does. The high
// watermark is lowered to the new log end if it lies above; below the log start, the log begins anew at the offset.
// It returns the log end, and when it returns the cut has reached the disk: else a crash could bring records of
// an old epoch back under entries of a new one.
func (l *Log) TruncateTo(offset int64) (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	start, _, end := l.Offsets()
	switch {
	case offset >= end:
		return end, l.check(l.epochs.truncateFromEnd(offset))
	case offset < start:
		return offset, l.check(l.restartAt(offset))
	}
	l.reads.Lock()
	end, err = l.cut(offset)
	l.reads.Unlock()
	if err == nil && end < start {
		err = l.restartAt(start) // the batch that contains the log start went
		end = start
	}
	return end, l.check(err)
}

// TruncateFullyAndStartAt takes everything away; the next record gets the offset. Log start, high watermark and log end
// are the offset then.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.check(l.restartAt(offset))
}

// cut takes away whole batches so that the log ends at or before an offset, which lies inside it.
func (l *Log) cut(offset int64) (int64, error) {
	l.env.At("log.truncate.begin")
	list := *l.segments.Load()
	at := max(0, segmentAt(list, offset))
	s := list[at]
	f, ok, err := s.find(l.handles, offset)
	if err != nil {
		return 0, err
	}
	end := min(offset, f.base)
	if !ok {
		end = offset // it is the segment's end
		f.position = s.size.Load()
	}
	if err := l.dropSegments(list[at+1:]); err != nil {
		return 0, err
	}
	l.setSegments(slices.Clone(list[:at+1]))
	l.env.At("log.truncate.segments-removed")
	if err := s.cut(l.handles, f.position, end); err != nil {
		return 0, err
	}
	l.env.At("log.truncate.file-cut")
	if err := l.epochs.truncateFromEnd(end); err != nil {
		return 0, err
	}
	if err := l.setEnd(end); err != nil {
		return 0, err
	}
	return end, l.reloadProducers(end)
}

// restartAt begins the log anew at an offset, empty.
func (l *Log) restartAt(offset int64) error {
	if err := l.identify(); err != nil { // a position is worth as much as a record
		return err
	}
	l.reads.Lock()
	defer l.reads.Unlock()
	l.env.At("log.truncate.begin")
	if err := l.dropSnapshots(-1); err != nil { // first: none may speak for the new segment
		return err
	}
	if err := l.dropSegments(*l.segments.Load()); err != nil {
		return err
	}
	l.env.At("log.truncate.segments-removed")
	s := newSegment(l.dir, offset, l.env.Now())
	if err := s.create(l.handles); err != nil {
		return err
	}
	if err := l.env.FS.SyncDir(l.dir); err != nil {
		return storage("sync", l.dir, err)
	}
	l.env.At("log.truncate.restarted")
	l.setSegments([]*segment{s})
	if err := l.epochs.clear(); err != nil {
		return err
	}
	l.offsets.Lock()
	l.offsets.start, l.offsets.high = offset, offset
	l.offsets.Unlock()
	if err := l.setEnd(offset); err != nil {
		return err
	}
	return l.reloadProducers(offset)
}

// setEnd takes the offsets back to a new log end, the recovery point on disk included.
func (l *Log) setEnd(end int64) error {
	l.cuts++
	l.offsets.Lock()
	l.offsets.end = end
	l.offsets.high = max(l.offsets.start, min(l.offsets.high, end))
	lowered := l.offsets.recovery > end
	if lowered {
		l.offsets.recovery = end
	}
	l.offsets.Unlock()
	if !lowered {
		return nil
	}
	return l.host.lowerRecovery(l.name, end)
}

// dropSegments removes the files of segments, the last one first, so that a crash leaves a log without a gap.
func (l *Log) dropSegments(list []*segment) error {
	for _, s := range slices.Backward(list) {
		s.close(l.handles)
		for _, f := range s.files() {
			if err := removeIfThere(l.env.FS, f.path()); err != nil {
				return err
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return storage("sync", l.dir, l.env.FS.SyncDir(l.dir))
}

// cut cuts the segment at a position, where the batch begins that has an offset.
func (s *segment) cut(h *handles, position, offset int64) error {
	if !s.onDisk {
		return nil
	}
	file, err := h.acquire(&s.log, false)
	if err != nil {
		return err
	}
	defer h.release(&s.log)
	if err := file.Truncate(position); err != nil {
		return storage("truncate", s.path(kindLog), err)
	}
	if err := file.Sync(); err != nil {
		return storage("sync", s.path(kindLog), err)
	}
	s.size.Store(position)
	if err := s.offsets.truncate(h, s.relative(offset)); err != nil {
		return err
	}
	if err := s.times.truncate(h, s.relative(offset)); err != nil {
		return err
	}
	return s.refresh(h)
}
