package log

import (
	"io"

	"github.com/quorate/quorate/quorum/env"
)

// loadSegments opens the segments. Those below the recovery point, or all of them after a clean stop, are trusted if
// their indexes are sound; the first that is not, and every one after it, is read batch by batch. What is no valid
// batch ends the log: it is cut there, and what comes after goes.
func (ld *loader) loadSegments() error {
	l := ld.l
	ld.scannedFrom = -1
	for i, base := range ld.bases {
		s, err := l.openSegment(base)
		if err != nil {
			return err
		}
		if ld.scannedFrom >= 0 && base != ld.end {
			return ld.removeFrom(i) // a gap: the end of the segment before was lost
		}
		last := i+1 == len(ld.bases)
		trusted := ld.scannedFrom < 0 && (ld.clean || !last && ld.bases[i+1] <= ld.checkpoint.recovery)
		ld.segments = append(ld.segments, s)
		cut, err := ld.loadSegment(s, last, trusted)
		if err != nil {
			return err
		}
		if cut {
			return ld.removeFrom(i + 1)
		}
	}
	if len(ld.segments) == 0 {
		return ld.beginAt(max(0, ld.checkpoint.start))
	}
	return nil
}

// beginAt makes an empty log. At 0 it needs no file: that is where a log without one begins.
func (ld *loader) beginAt(base int64) error {
	l := ld.l
	s := newSegment(l.dir, base, l.env.Now())
	ld.segments, ld.end = []*segment{s}, base
	if base == 0 {
		return nil
	}
	if err := s.create(l.handles); err != nil {
		return err
	}
	return storage("sync", l.dir, l.env.FS.SyncDir(l.dir))
}

// notSound stands for the number of entries of an index that is missing or torn.
const notSound = -1

// openSegment finds out what is there of a segment.
func (l *Log) openSegment(base int64) (*segment, error) {
	s := newSegment(l.dir, base, l.env.Now())
	info, err := l.env.FS.Stat(s.path(kindLog))
	if err != nil {
		return nil, storage("stat", s.path(kindLog), err)
	}
	s.onDisk = true
	s.created = info.ModTime()
	s.size.Store(info.Size())
	for _, x := range s.indexes() {
		size, there, err := fileSize(l.env.FS, x.file.path())
		if err != nil {
			return nil, err
		}
		x.written = int(size) / x.entryBytes
		if int(size)%x.entryBytes != 0 || !there && info.Size() > 0 {
			x.written = notSound
		}
	}
	return s, nil
}

// loadSegment makes a segment ready and sets the end of the log so far.
func (ld *loader) loadSegment(s *segment, last, trusted bool) (cut bool, err error) {
	h := ld.l.handles
	if trusted {
		sound, err := s.sound(h, last)
		if err != nil {
			return false, err
		}
		if sound && !last {
			return false, s.loadNewest(h)
		}
		if sound {
			end, err := s.loadTail(h)
			if _, refusal := err.(*Error); err != nil && !refusal {
				return false, err
			}
			if err == nil {
				ld.end = end
				return false, nil
			}
		}
	}
	return ld.recoverSegment(s)
}

// sound tests the indexes against the size of the segment: whole entries, the last one inside the segment and above the
// first one, and a time index for all but the last segment. (Kafka: OffsetIndex.sanityCheck, TimeIndex.sanityCheck.)
func (s *segment) sound(h *handles, last bool) (bool, error) {
	if s.offsets.written == notSound || s.times.written == notSound {
		return false, nil
	}
	first, newest, n, err := s.offsets.ends(h)
	if err != nil {
		return false, err
	}
	if n > 0 && (newest.relative < 0 || newest.position < 0 || int64(newest.position) >= s.size.Load()) ||
		n > 1 && (newest.relative <= first.relative || newest.position <= first.position) {
		return false, nil
	}
	firstTime, newestTime, n, err := s.times.ends(h)
	if err != nil {
		return false, err
	}
	return (n > 0 || last || s.size.Load() == 0) &&
		(n == 0 || newestTime.relative >= 0 && newestTime.timestamp >= 0) &&
		(n < 2 || newestTime.relative > firstTime.relative && newestTime.timestamp > firstTime.timestamp), nil
}

// loadNewest takes the largest timestamp of a segment that is not the last from its time index.
func (s *segment) loadNewest(h *handles) error {
	_, t, n, err := s.times.ends(h)
	if n > 0 {
		s.lastTime = t
		s.maxTimestamp, s.maxOffset = t.timestamp, s.base+int64(t.relative)
	}
	s.close(h)
	return err
}

// loadTail reads the batches after the last index entry and returns where the segment ends.
func (s *segment) loadTail(h *handles) (int64, error) {
	if err := s.refresh(h); err != nil {
		return 0, err
	}
	end := s.base
	for _, r := range s.recent {
		end = max(end, r.next)
	}
	return end, nil
}

// recoverSegment reads a segment batch by batch: magic, size, checksum, offsets without a gap, leader epochs that do not
// fall. It cuts the segment at the first that does not pass, and makes the indexes anew. Kafka only wants offsets to
// rise, as its cleaner makes gaps; we have none, and offset and leader epoch are outside the checksum.
func (ld *loader) recoverSegment(s *segment) (cut bool, err error) {
	l := ld.l
	l.env.At("log.recovery.begin")
	if ld.scannedFrom < 0 {
		ld.scannedFrom = s.base
	}
	for _, x := range s.indexes() {
		if err := l.clearIndex(x); err != nil {
			return false, err
		}
	}
	size := s.size.Load()
	ld.end = s.base
	interval := l.config.Load().IndexIntervalBytes
	file, err := l.handles.acquire(&s.log, false)
	if err != nil {
		return false, err
	}
	defer l.handles.release(&s.log)
	valid, err := wholeBatches(file, size, func(b Batch, position int64) (bool, error) {
		n := len(ld.scanned)
		if b.BaseOffset() != ld.end || !s.fits(0, b.LastOffset()) || n > 0 && int32(ld.scanned[n-1].Epoch) > b.LeaderEpoch() {
			return false, nil
		}
		ld.noteEpoch(b)
		ld.end = b.NextOffset()
		return true, s.note(l.handles, b, position, interval)
	})
	if err != nil {
		return false, s.blame(err)
	}
	ld.result.ScannedBytes += valid
	if err := s.finish(l.handles); err != nil {
		return false, err
	}
	if valid == size {
		return false, nil
	}
	ld.result.CutBytes += size - valid
	l.env.At("log.recovery.before-cut")
	s.size.Store(valid)
	if err := cutFile(file, valid); err != nil {
		return false, storage("truncate", s.path(kindLog), err)
	}
	l.env.At("log.recovery.cut")
	return true, nil
}

func cutFile(file env.File, size int64) error {
	if err := file.Truncate(size); err != nil {
		return err
	}
	return file.Sync()
}

func (l *Log) clearIndex(x *sparseIndex) error {
	file, err := l.handles.acquire(&x.file, true)
	if err != nil {
		return err
	}
	defer l.handles.release(&x.file)
	x.written, x.tail = 0, nil
	return storage("truncate", x.file.path(), file.Truncate(0))
}

// removeFrom removes the segments from the i-th on, the last one first.
func (ld *loader) removeFrom(i int) error {
	l := ld.l
	var list []*segment
	for _, base := range ld.bases[i:] {
		s, err := l.openSegment(base)
		if err != nil {
			return err
		}
		ld.result.CutBytes += s.size.Load()
		ld.result.SegmentsRemoved++
		list = append(list, s)
	}
	l.env.At("log.recovery.segments-removed")
	return l.dropSegments(list)
}

// wholeBatches walks over the batches at the front of a file of a size, each read whole and tested. It returns the
// position after the last that passes, where visit stopped or where bytes begin that are no batch.
func wholeBatches(file io.ReaderAt, size int64, visit func(b Batch, position int64) (bool, error)) (valid int64, err error) {
	pooled := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(pooled)
	buf := pooled[:]
	for valid < size {
		chunk := buf[:min(int64(len(buf)), size-valid)]
		if err := readFull(file, chunk, valid); err != nil {
			return valid, err
		}
		used := 0
		for {
			b, _, err := NextBatch(chunk[used:])
			if err != nil {
				break
			}
			if b.Check() != nil {
				return valid, nil
			}
			if more, err := visit(b, valid); err != nil || !more {
				return valid, err
			}
			used += len(b)
			valid += int64(len(b))
		}
		if used > 0 {
			continue
		}
		need := needed(chunk)
		if need <= len(chunk) || int64(need) > size-valid {
			return valid, nil
		}
		buf = make([]byte, need)
	}
	return valid, nil
}

// needed is the size of the batch whose header lies at the front of p; 0 if none does.
func needed(p []byte) int {
	if len(p) < HeaderBytes {
		return 0
	}
	size, err := headerSize(p)
	if err != nil {
		return 0
	}
	return size
}
