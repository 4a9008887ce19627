package log

import (
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// recentBatches is how many of the newest batches of a segment are found without a look at the index.
const recentBatches = 8

// segment is one run of a log: a file of record batches and two indexes, named by the offset it begins at.
//
// One goroutine at a time may change it, under the log's writer lock. Any number may read it up to size.
type segment struct {
	dir  string
	base int64

	log     cachedFile
	offsets offsetIndex
	times   timeIndex

	// size is the number of bytes of whole batches; the file may hold torn bytes after them.
	size atomic.Int64

	// For the writer only.
	created        time.Time
	firstTimestamp int64 // NoTimestamp: unknown or none
	sinceIndex     int64 // bytes since the newest index entry
	lastTime       timeEntry
	onDisk         bool // the .log file exists

	mu sync.Mutex // guards what follows
	// maxTimestamp is the largest timestamp, in the batch that ends at maxOffset.
	maxTimestamp int64
	maxOffset    int64
	recent       []recentBatch // a ring
	recentAt     int
}

type recentBatch struct {
	base, next int64
	position   int32
	bytes      int32
}

func newSegment(dir string, base int64, created time.Time) *segment {
	s := &segment{
		dir:            dir,
		base:           base,
		created:        created,
		firstTimestamp: NoTimestamp,
		lastTime:       timeEntry{timestamp: NoTimestamp},
		maxTimestamp:   NoTimestamp,
		maxOffset:      base,
	}
	s.log = cachedFile{seg: s, kind: kindLog}
	s.offsets.file = cachedFile{seg: s, kind: kindOffsetIndex}
	s.offsets.entryBytes = offsetEntryBytes
	s.times.file = cachedFile{seg: s, kind: kindTimeIndex}
	s.times.entryBytes = timeEntryBytes
	return s
}

func (s *segment) path(kind fileKind) string { return segmentPath(s.dir, s.base, kind) }

// segmentPath names a file as Kafka does: the offset in 20 digits, and what the file is.
func segmentPath(dir string, offset int64, kind fileKind) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", offset, kindSuffix[kind]))
}

// create makes the file of batches, so that the log's position survives although there is no record.
func (s *segment) create(h *handles) error {
	if _, err := h.acquire(&s.log, true); err != nil {
		return err
	}
	h.release(&s.log)
	s.onDisk = true
	return nil
}

// fits tells whether bytes that end at an offset can be addressed by the indexes.
func (s *segment) fits(bytes int, lastOffset int64) bool {
	return s.size.Load()+int64(bytes) <= math.MaxInt32 && lastOffset-s.base <= math.MaxInt32
}

// append writes whole batches in one call and indexes them. They are not seen before publish.
func (s *segment) append(h *handles, p []byte, interval int32) error {
	file, err := h.acquire(&s.log, !s.onDisk)
	if err != nil {
		return err
	}
	defer h.release(&s.log)
	s.onDisk = true
	at := s.size.Load()
	if _, err := file.WriteAt(p, at); err != nil {
		return storage("append to", s.path(kindLog), err)
	}
	for b := range Batches(p) {
		if err := s.note(h, b, at, interval); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// publish lets readers see n more bytes.
func (s *segment) publish(n int) { s.size.Add(int64(n)) }

// note enters one batch, of which only the header is looked at, at its position.
func (s *segment) note(h *handles, b Batch, position int64, interval int32) error {
	s.noteTimestamp(b)
	last := int32(b.LastOffset() - s.base)
	if s.sinceIndex > int64(interval) {
		if err := s.offsets.add(h, last, int32(position)); err != nil {
			return err
		}
		if err := s.noteTime(h); err != nil {
			return err
		}
		s.sinceIndex = 0
	}
	s.sinceIndex += int64(b.Size())
	s.noteRecent(recentBatch{b.BaseOffset(), b.NextOffset(), int32(position), int32(b.Size())})
	return nil
}

func (s *segment) noteTimestamp(b Batch) {
	ts := b.MaxTimestamp()
	if s.firstTimestamp == NoTimestamp {
		s.firstTimestamp = ts
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ts > s.maxTimestamp {
		s.maxTimestamp, s.maxOffset = ts, b.LastOffset()
	}
}

// noteTime adds the largest timestamp so far to the time index, if it is larger than the newest entry's.
func (s *segment) noteTime(h *handles) error {
	ts, offset := s.newest()
	if ts <= s.lastTime.timestamp {
		return nil
	}
	s.lastTime = timeEntry{ts, int32(offset - s.base)}
	return s.times.add(h, s.lastTime)
}

func (s *segment) noteRecent(r recentBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recent) < recentBatches {
		s.recent = append(s.recent, r)
		return
	}
	s.recent[s.recentAt] = r
	s.recentAt = (s.recentAt + 1) % recentBatches
}

// recentAtOffset finds the batch that contains an offset among the newest.
func (s *segment) recentAtOffset(offset int64) (recentBatch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.recent {
		if r.base <= offset && offset < r.next {
			return r, true
		}
	}
	return recentBatch{}, false
}

// newest is the largest timestamp of the segment and the last offset of the first batch that holds it.
func (s *segment) newest() (timestamp, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxTimestamp, s.maxOffset
}

// finish brings what is in memory into the files: at roll and close.
func (s *segment) finish(h *handles) error {
	if !s.onDisk {
		return nil
	}
	if err := s.noteTime(h); err != nil {
		return err
	}
	for _, x := range s.indexes() {
		if err := x.write(h); err != nil {
			return err
		}
		if _, err := h.acquire(&x.file, true); err != nil { // an empty index is a file too
			return err
		}
		h.release(&x.file)
	}
	return nil
}

func (s *segment) indexes() [2]*sparseIndex {
	return [2]*sparseIndex{&s.offsets.sparseIndex, &s.times.sparseIndex}
}

// full tells whether an index has no room for another entry.
func (s *segment) full(indexBytesMax int32) bool {
	return (s.offsets.entries()+1)*offsetEntryBytes > int(indexBytesMax) ||
		(s.times.entries()+1)*timeEntryBytes > int(indexBytesMax)
}

// age is how long the segment has been filled: by the timestamps of its first batch and of the next one, or by the
// clock when batches hold none.
func (s *segment) age(nextTimestamp int64, now time.Time) time.Duration {
	if s.firstTimestamp != NoTimestamp && nextTimestamp != NoTimestamp {
		return time.Duration(nextTimestamp-s.firstTimestamp) * time.Millisecond
	}
	return now.Sub(s.created)
}

// sync brings the segment to the disk. An index is synced only when it will not change any more: that of the active
// segment is made anew after a crash.
func (s *segment) sync(h *handles, withIndexes bool) error {
	files := []*cachedFile{&s.log}
	if withIndexes {
		files = append(files, &s.offsets.file, &s.times.file)
	}
	for _, f := range files {
		file, err := h.acquire(f, f.kind != kindLog)
		if err != nil {
			return err
		}
		err = file.Sync()
		h.release(f)
		if err != nil {
			return storage("sync", f.path(), err)
		}
	}
	return nil
}

// close gives up the open files.
func (s *segment) close(h *handles) {
	for _, f := range s.files() {
		h.drop(f)
	}
}

func (s *segment) files() [3]*cachedFile {
	return [3]*cachedFile{&s.log, &s.offsets.file, &s.times.file}
}
