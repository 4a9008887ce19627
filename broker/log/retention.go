package log

import (
	"slices"
	"time"
)

// deletedSuffix marks a file whose segment is gone and that waits for its removal.
const deletedSuffix = ".deleted"

// AdvanceLogStart moves the log start forward: the leader for DeleteRecords, a follower after its leader. An offset at or
// below the log start changes nothing. Segments that lie wholly below it go with the next retention check; the
// checkpoint with the next [Manager.WriteLogStarts], which a leader calls before it answers DeleteRecords.
//
// Refusal: OFFSET_OUT_OF_RANGE above the high watermark.
func (l *Log) AdvanceLogStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if _, high, _ := l.Offsets(); offset > high {
		return refuse(ErrOffsetOutOfRange, "log start of %s cannot be %d; the high watermark is %d", l.name, offset, high)
	}
	return l.check(l.advance(offset))
}

func (l *Log) advance(offset int64) error {
	l.offsets.Lock()
	moved := offset > l.offsets.start
	l.offsets.start = max(l.offsets.start, offset)
	l.offsets.Unlock()
	if !moved {
		return nil
	}
	return l.epochs.truncateFromStart(offset)
}

// ApplyRetention removes segments: those wholly below the log start, then the oldest while there are more bytes than
// wanted, then those whose newest record is too old. Only what ends at or below the high watermark may go. If
// everything is to go, the log goes on in a new segment. It returns the number of segments removed; their files
// follow after FileDeleteDelay.
func (l *Log) ApplyRetention() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	now, config := l.env.Now(), l.config.Load()
	start, high, end := l.Offsets()
	list := *l.segments.Load()
	n := retire(list, config, now, start, high, end)
	if n == 0 {
		return 0, nil
	}
	if n == len(list) {
		if err := l.roll(now); err != nil {
			return 0, l.check(err)
		}
	}
	return n, l.check(l.retireFirst(n, now.Add(config.FileDeleteDelay)))
}

// retire is how many of the first segments may go.
func retire(list []*segment, config *LogConfig, now time.Time, start, high, end int64) int {
	var total int64
	for _, s := range list {
		total += s.size.Load()
	}
	n := 0
	for i, s := range list {
		next := end
		if i+1 < len(list) {
			next = list[i+1].base
		}
		size := s.size.Load()
		if next > high || size == 0 {
			break
		}
		below := next <= start && i+1 < len(list)
		surplus := config.RetentionBytesMax >= 0 && total-size >= config.RetentionBytesMax
		if !below && !surplus && !s.expired(config, now) {
			break
		}
		total -= size
		n++
	}
	return n
}

// expired tells whether the newest record is too old; without timestamps the time of the segment's file counts.
func (s *segment) expired(config *LogConfig, now time.Time) bool {
	if config.RetentionAgeMax < 0 {
		return false
	}
	newest := s.created
	if ts, _ := s.newest(); ts != NoTimestamp {
		newest = time.UnixMilli(ts)
	}
	return now.Sub(newest) > config.RetentionAgeMax
}

// retireFirst takes the first n segments out of the log and renames their files, the oldest first, so that a crash
// leaves a log without a gap.
func (l *Log) retireFirst(n int, due time.Time) error {
	l.env.At("log.retention.begin")
	list := *l.segments.Load()
	if err := l.advance(list[n].base); err != nil {
		return err
	}
	l.cuts++
	l.setSegments(slices.Clone(list[n:]))
	var paths []string
	for _, s := range list[:n] {
		renamed, err := l.renameDeleted(s)
		if err != nil {
			return err
		}
		paths = append(paths, renamed...)
	}
	l.env.At("log.retention.renamed")
	snapshots, err := l.listSnapshots()
	if err != nil {
		return err
	}
	for _, offset := range snapshots {
		if offset < list[n].base {
			if err := removeIfThere(l.env.FS, segmentPath(l.dir, offset, kindSnapshot)); err != nil {
				return err
			}
		}
	}
	l.host.removeLater(paths, due)
	return nil
}

// renameDeleted renames the files of a segment. Reads that are under way go on with the files they hold.
func (l *Log) renameDeleted(s *segment) ([]string, error) {
	l.reads.Lock() // a read that has found the segment opens its files under their old names
	defer l.reads.Unlock()
	s.close(l.handles)
	var paths []string
	for _, f := range s.files() {
		_, there, err := fileSize(l.env.FS, f.path())
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		to := f.path() + deletedSuffix
		if err := l.env.FS.Rename(f.path(), to); err != nil {
			return nil, storage("rename", f.path(), err)
		}
		paths = append(paths, to)
	}
	return paths, nil
}

// ExpireProducers forgets idempotent producers that have been idle for ProducerAgeMax, and returns how many.
func (l *Log) ExpireProducers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return 0
	}
	return l.producers.expire(l.env.Now(), l.config.Load().ProducerAgeMax)
}
