package log

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// Appended tells where records went.
type Appended struct {
	// FirstOffset and LastOffset are those of the records; LastOffset is FirstOffset - 1 if there were none.
	FirstOffset, LastOffset int64
	// LogAppendTimeMs is the timestamp that the broker gave the records, -1 if they keep the client's.
	LogAppendTimeMs int64
	// LogStartOffset is the log start at the time of the append.
	LogStartOffset int64
	// Duplicate tells that the producer's batch was in the log already, at these offsets; nothing was appended.
	Duplicate bool
}

// Append is the leader's: it assigns offsets, stamps the leader epoch, and writes the batch in one call. It does not
// sync: records are made durable by their copies on other brokers. A batch that its idempotent producer has sent
// before is recognised and not appended again.
//
// Refusals: MESSAGE_TOO_LARGE, FENCED_LEADER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH. The batch's
// bytes are patched in any case, and free again when Append returns.
func (l *Log) Append(p ProduceBatch, epoch image.LeaderEpoch) (Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	b, config, now := p.batch, l.config.Load(), l.env.Now()
	if len(b) > int(config.SegmentBytesMax) {
		return Appended{}, refuse(ErrMessageTooLarge, "record batch of %d bytes; segment.bytes is %d", len(b), config.SegmentBytesMax)
	}
	if newest, ok := l.epochs.latest(); ok && epoch < newest.Epoch {
		return Appended{}, refuse(ErrFencedLeaderEpoch, "append at leader epoch %d; the log has seen %d", epoch, newest.Epoch)
	}
	start, _, end := l.Offsets()
	old, duplicate, err := l.producers.check(b, end > 0)
	if err != nil {
		return Appended{}, err
	}
	if duplicate {
		return Appended{old.firstOffset(), old.lastOffset, NoTimestamp, start, true}, nil
	}
	appended := Appended{end, end + int64(b.LastOffsetDelta()), NoTimestamp, start, false}
	b.SetBaseOffset(end)
	b.SetLeaderEpoch(int32(epoch))
	if config.LogAppendTime {
		appended.LogAppendTimeMs = now.UnixMilli()
		b.SetLogAppendTime(appended.LogAppendTimeMs)
	}
	return appended, l.check(l.write(b, config, now))
}

// write appends whole batches that continue the log, into one segment or several, and lets readers see them.
func (l *Log) write(records []byte, config *LogConfig, now time.Time) error {
	if err := l.identify(); err != nil {
		return err
	}
	for b := range Batches(records) {
		if newest, ok := l.epochs.latest(); !ok || int32(newest.Epoch) < b.LeaderEpoch() {
			if err := l.epochs.assign(image.LeaderEpoch(b.LeaderEpoch()), b.BaseOffset()); err != nil {
				return err
			}
		}
	}
	for len(records) > 0 {
		first, _, err := NextBatch(records)
		if err != nil {
			return err
		}
		if l.mustRoll(first, config, now) {
			if err := l.roll(now); err != nil {
				return err
			}
		}
		active := l.active()
		n, end := takeFor(active, records, config)
		l.env.At("log.append.before-write")
		if err := active.append(l.handles, records[:n], config.IndexIntervalBytes); err != nil {
			return err
		}
		l.env.At("log.append.written")
		for b := range Batches(records[:n]) {
			l.producers.update(b, now.UnixMilli())
		}
		active.publish(n)
		l.offsets.Lock()
		l.offsets.end, l.offsets.grown = end, now
		l.offsets.Unlock()
		records = records[n:]
	}
	return nil
}

// takeFor is how many bytes of the batches go into a segment, one batch at least, and the offset after them.
func takeFor(s *segment, records []byte, config *LogConfig) (n int, end int64) {
	for b := range Batches(records) {
		total := n + len(b)
		if n > 0 && (s.size.Load()+int64(total) > int64(config.SegmentBytesMax) || !s.fits(total, b.LastOffset())) {
			break
		}
		n, end = total, b.NextOffset()
	}
	return n, end
}

// mustRoll tells whether a batch begins a new segment. (Kafka: LogSegment.shouldRoll.)
func (l *Log) mustRoll(b Batch, config *LogConfig, now time.Time) bool {
	s := l.active()
	size := s.size.Load()
	return size > 0 && (size+int64(len(b)) > int64(config.SegmentBytesMax) ||
		s.age(b.MaxTimestamp(), now) > config.SegmentAgeMax ||
		s.full(config.IndexBytesMax) ||
		!s.fits(len(b), b.LastOffset()))
}

// roll begins a new segment at the log end. The old one is flushed in the background.
func (l *Log) roll(now time.Time) error {
	l.env.At("log.roll.begin")
	if err := l.active().finish(l.handles); err != nil {
		return err
	}
	l.env.At("log.roll.indexes-written")
	if err := l.producers.save(l.env.FS, l.dir); err != nil {
		return err
	}
	l.env.At("log.roll.snapshot-taken")
	next := newSegment(l.dir, l.LogEndOffset(), now)
	if err := next.create(l.handles); err != nil {
		return err
	}
	l.env.At("log.roll.segment-created")
	l.setSegments(append(slices.Clone(*l.segments.Load()), next))
	l.host.flushSoon(l)
	return nil
}

// identify brings partition.metadata and the directory's name to the disk before the first record: records without a
// topic id are nobody's.
func (l *Log) identify() error {
	if l.identified {
		return nil
	}
	if err := syncFile(l.env.FS, filepath.Join(l.dir, partitionMetadataFile)); err != nil {
		return err
	}
	for _, dir := range []string{l.dir, filepath.Dir(l.dir)} {
		if err := l.env.FS.SyncDir(dir); err != nil {
			return storage("sync", dir, err)
		}
	}
	l.identified = true
	l.env.At("log.append.identified")
	return nil
}
