package log

import (
	"io"
	"sync"
)

const (
	// lookBytes is what a search for one batch reads at a time.
	lookBytes = 4096
	// scanBytes is what a scan of a segment reads at a time.
	scanBytes = 256 << 10
)

var (
	lookBuffers = sync.Pool{New: func() any { return new([lookBytes]byte) }}
	scanBuffers = sync.Pool{New: func() any { return new([scanBytes]byte) }}
)

// headers walks over the headers of the batches in file[from:to]. visit gets the header, valid until it returns, and
// the position; it returns false to stop. A header that is none, or a batch that ends after to, is [ErrCorruptBatch].
func headers(file io.ReaderAt, buf []byte, from, to int64, visit func(b Batch, position int64) (bool, error)) error {
	at := from
	for at < to {
		chunk := buf[:min(int64(len(buf)), to-at)]
		if err := readFull(file, chunk, at); err != nil {
			return err
		}
		if len(chunk) < HeaderBytes {
			return refuse(ErrCorruptBatch, "%d bytes are left at position %d where a record batch has a header of %d", len(chunk), at, HeaderBytes)
		}
		start := at
		for at < to && at-start+HeaderBytes <= int64(len(chunk)) {
			header := chunk[at-start:][:HeaderBytes]
			size, err := headerSize(header)
			if err != nil {
				return err
			}
			if at+int64(size) > to {
				return refuse(ErrCorruptBatch, "a record batch of %d bytes at position %d is cut off at %d", size, at, to)
			}
			more, err := visit(Batch(header), at)
			if err != nil || !more {
				return err
			}
			at += int64(size)
		}
	}
	return nil
}

// scan walks over the headers of a segment's batches from a position to its end.
func (s *segment) scan(h *handles, from int64, visit func(b Batch, position int64) (bool, error)) error {
	buf := scanBuffers.Get().(*[scanBytes]byte)
	defer scanBuffers.Put(buf)
	return s.walk(h, buf[:], from, visit)
}

// look walks over headers like scan, for a caller that needs few of them.
func (s *segment) look(h *handles, from int64, visit func(b Batch, position int64) (bool, error)) error {
	buf := lookBuffers.Get().(*[lookBytes]byte)
	defer lookBuffers.Put(buf)
	return s.walk(h, buf[:], from, visit)
}

func (s *segment) walk(h *handles, buf []byte, from int64, visit func(b Batch, position int64) (bool, error)) error {
	size := s.size.Load()
	if from >= size {
		return nil
	}
	file, err := h.acquire(&s.log, false)
	if err != nil {
		return err
	}
	defer h.release(&s.log)
	return s.blame(headers(file, buf, from, size, visit))
}

// found is a batch's place in a segment.
type found struct {
	position int64
	bytes    int
	base     int64
	next     int64
}

// find is the first batch that ends at or after an offset; ok is false when there is none.
func (s *segment) find(h *handles, offset int64) (f found, ok bool, err error) {
	if r, ok := s.recentAtOffset(offset); ok && int64(r.position) < s.size.Load() {
		return found{int64(r.position), int(r.bytes), r.base, r.next}, true, nil
	}
	if s.size.Load() == 0 {
		return found{}, false, nil
	}
	from, err := s.offsets.positionBefore(h, s.relative(offset))
	if err != nil {
		return found{}, false, err
	}
	err = s.look(h, int64(from), func(b Batch, position int64) (bool, error) {
		if b.LastOffset() < offset {
			return true, nil
		}
		f, ok = found{position, b.Size(), b.BaseOffset(), b.NextOffset()}, true
		return false, nil
	})
	return f, ok, err
}

// relative is an offset as the indexes hold it, cut to what they can hold.
func (s *segment) relative(offset int64) int32 {
	return int32(max(-1, min(offset-s.base, 1<<31-1)))
}

// blame tells a disk that does not give the bytes from bytes that are no batch.
func (s *segment) blame(err error) error {
	if _, refusal := err.(*Error); refusal || err == nil {
		return err
	}
	return storage("read", s.path(kindLog), err)
}

// refresh makes what the writer keeps in memory anew, from the indexes and the batches after the last entry.
func (s *segment) refresh(h *handles) error {
	s.mu.Lock()
	s.recent, s.recentAt = nil, 0
	s.maxTimestamp, s.maxOffset = NoTimestamp, s.base
	s.mu.Unlock()
	s.firstTimestamp, s.sinceIndex = NoTimestamp, 0
	s.lastTime = timeEntry{timestamp: NoTimestamp}
	_, newest, n, err := s.times.ends(h)
	if err != nil {
		return err
	}
	if n > 0 {
		s.lastTime = newest
		s.mu.Lock()
		s.maxTimestamp, s.maxOffset = newest.timestamp, s.base+int64(newest.relative)
		s.mu.Unlock()
	}
	_, indexed, _, err := s.offsets.ends(h)
	if err != nil {
		return err
	}
	position := indexed.position
	first := int64(NoTimestamp)
	if err := s.look(h, 0, func(b Batch, _ int64) (bool, error) {
		first = b.MaxTimestamp()
		return false, nil
	}); err != nil {
		return err
	}
	err = s.look(h, int64(position), func(b Batch, at int64) (bool, error) {
		s.noteTimestamp(b)
		s.sinceIndex += int64(b.Size())
		s.noteRecent(recentBatch{b.BaseOffset(), b.NextOffset(), int32(at), int32(b.Size())})
		return true, nil
	})
	s.firstTimestamp = first
	return err
}
