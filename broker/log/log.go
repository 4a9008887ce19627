package log

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// Log is one replica of one partition, on disk. All methods may be called from any goroutine: one at a time
// changes the log, reads go on beside appends, and a truncation waits for the reads that are under way.
//
// After a failure of the disk every method returns that [StorageError]; after close, deletion or setting aside,
// [ErrClosed].
type Log struct {
	env     *env.Env
	handles *handles
	host    host
	// decompress may be nil.
	decompress Decompress
	name       Name
	topicID    image.TopicID
	dir        string
	config     atomic.Pointer[LogConfig]

	// mu is the writer lock: it guards producers and what is said to be for the writer only.
	mu sync.Mutex
	// reads is held shared by reads of the files, and exclusively by whatever takes bytes away.
	reads     sync.RWMutex
	segments  atomic.Pointer[[]*segment] // ascending, never empty; a new slice for each change
	epochs    epochCache
	producers *producers
	// identified tells that partition.metadata has reached the disk; for the writer only.
	identified bool
	// cuts counts what took files away, so that a flush knows that its list is an old one; for the writer only.
	cuts int

	offsets struct {
		sync.Mutex
		start, high, end int64
		recovery         int64
		grown            time.Time
	}

	closed atomic.Bool
	failed atomic.Pointer[StorageError]
}

// host is what a log asks of its manager.
type host interface {
	// flushSoon has the log flushed up to its active segment in the background.
	flushSoon(l *Log)
	// lowerRecovery brings a lower recovery point to the disk: the log was cut below the one that is there, and what
	// is appended from now on is not flushed.
	lowerRecovery(name Name, to int64) error
	// removeLater has files removed after a delay, in the background.
	removeLater(paths []string, due time.Time)
	// failed is told once that the log went offline.
	failed(name Name, err error)
}

// Name is what the partition is called.
func (l *Log) Name() Name { return l.name }

// TopicID is the id of the topic that the log belongs to.
func (l *Log) TopicID() image.TopicID { return l.topicID }

// Config is what the log follows now.
func (l *Log) Config() LogConfig { return *l.config.Load() }

// SetConfig changes what the log follows from the next append or check on.
func (l *Log) SetConfig(c LogConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	l.config.Store(&c)
	return nil
}

// LogStartOffset is the first offset that is still considered present.
func (l *Log) LogStartOffset() int64 { start, _, _ := l.Offsets(); return start }

// HighWatermark is the first offset that is not known to be committed.
func (l *Log) HighWatermark() int64 { _, high, _ := l.Offsets(); return high }

// LogEndOffset is the offset of the next record.
func (l *Log) LogEndOffset() int64 { _, _, end := l.Offsets(); return end }

// Offsets are the log start offset, the high watermark and the log end offset of one moment: start ≤ high ≤ end.
func (l *Log) Offsets() (start, high, end int64) {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	return l.offsets.start, l.offsets.high, l.offsets.end
}

// LastGrown is when records were appended last, or when the log was opened if there were none since.
func (l *Log) LastGrown() time.Time {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	return l.offsets.grown
}

// RecoveryPoint is the offset up to which the log is known to be on the disk.
func (l *Log) RecoveryPoint() int64 {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	return l.offsets.recovery
}

// RaiseHighWatermark is the leader's step: forward only, and not beyond the log end. It returns the high watermark
// after it, and whether it moved.
func (l *Log) RaiseHighWatermark(to int64) (high int64, raised bool) {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	to = min(to, l.offsets.end)
	if to <= l.offsets.high {
		return l.offsets.high, false
	}
	l.offsets.high = to
	return to, true
}

// FollowHighWatermark is the follower's step: the leader's high watermark, not beyond the own log end nor below the
// own log start. It may go back. It returns the high watermark after it.
func (l *Log) FollowHighWatermark(leader int64) int64 {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	l.offsets.high = max(l.offsets.start, min(leader, l.offsets.end))
	return l.offsets.high
}

// AssignEpoch enters that a leader epoch starts at an offset: the new leader's log end offset. When it returns the
// entry is on disk. It has no effect if the newest entry is of the same epoch and starts no later; entries of this
// or a later epoch, or that start there or later, are removed.
func (l *Log) AssignEpoch(epoch image.LeaderEpoch, start int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.check(l.epochs.assign(epoch, start))
}

// LatestEpoch is the newest leader epoch that the log knows and where it starts; ok is false when it knows none.
func (l *Log) LatestEpoch() (e EpochEntry, ok bool) { return l.epochs.latest() }

// LastRecordEpoch is the leader epoch of the newest record that the log has or had; ok is false when there never was
// one. An epoch whose leader has appended nothing yet does not count.
func (l *Log) LastRecordEpoch() (epoch image.LeaderEpoch, ok bool) {
	return lastRecordEpoch(l.epochs.all(), l.LogEndOffset())
}

// Epochs is all leader epochs that the log knows, in ascending order.
func (l *Log) Epochs() []EpochEntry { return l.epochs.all() }

// EndOffsetForEpoch answers where a leader epoch ends in this log. ok is false when that is undefined: nothing is
// known, or the epoch is negative or newer than all that are known. For the newest epoch the end is the log end. An
// epoch below the first entry is answered with itself and the start of that entry; any other with the largest known
// epoch that is not larger, and the start of the next. (Kafka: LeaderEpochFileCache.endOffsetFor.)
func (l *Log) EndOffsetForEpoch(epoch image.LeaderEpoch) (end EpochEnd, ok bool) {
	return l.epochs.end(epoch, l.LogEndOffset())
}

// Size is the number of bytes of record batches.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range *l.segments.Load() {
		n += s.size.Load()
	}
	return n
}

// SegmentCount is the number of segments.
func (l *Log) SegmentCount() int { return len(*l.segments.Load()) }

// Failure is why the log is offline; nil while it is not.
func (l *Log) Failure() error {
	if f := l.failed.Load(); f != nil {
		return f
	}
	return nil
}

func (l *Log) usable() error {
	if f := l.failed.Load(); f != nil {
		return f
	}
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// check takes the log offline if err is a failure of the disk, and returns err.
func (l *Log) check(err error) error {
	var s *StorageError
	if errors.As(err, &s) && l.failed.CompareAndSwap(nil, s) {
		l.host.failed(l.name, s)
	}
	return err
}

func (l *Log) active() *segment {
	all := *l.segments.Load()
	return all[len(all)-1]
}

// setSegments lets readers see another list.
func (l *Log) setSegments(list []*segment) { l.segments.Store(&list) }

// segmentAt is the index of the segment that an offset belongs to: the last one that begins at or before it, -1 if
// it lies before the first.
func segmentAt(list []*segment, offset int64) int {
	i, exact := slices.BinarySearchFunc(list, offset, func(s *segment, offset int64) int {
		switch {
		case s.base < offset:
			return -1
		case s.base > offset:
			return 1
		}
		return 0
	})
	if exact {
		return i
	}
	return i - 1
}
