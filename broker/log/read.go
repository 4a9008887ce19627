package log

// ReadRequest asks for records.
type ReadRequest struct {
	// Offset is the first offset wanted. The batch that contains it is returned whole.
	Offset int64
	// UpperBound is the first offset not wanted: the log end for followers, the high watermark for consumers.
	UpperBound int64
	// BytesMax bounds the answer.
	BytesMax int
	// AtLeastOne has one batch returned even if it is larger than BytesMax.
	AtLeastOne bool
}

// Read returns whole batches from one segment, in bytes that are the caller's; none if there are none below the
// upper bound or within the size. The bytes are copied once, from the file.
//
// Refusals: OFFSET_OUT_OF_RANGE when the offset is below the log start or above the log end; CORRUPT_MESSAGE when what
// is stored there is no batch.
func (l *Log) Read(r ReadRequest) ([]byte, error) {
	l.reads.RLock()
	defer l.reads.RUnlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	start, _, end := l.Offsets()
	if r.Offset < start || r.Offset > end {
		return nil, refuse(ErrOffsetOutOfRange, "offset %d is outside %d to %d of %s", r.Offset, start, end, l.name)
	}
	r.UpperBound = min(r.UpperBound, end)
	if r.Offset >= r.UpperBound || (r.BytesMax <= 0 && !r.AtLeastOne) {
		return nil, nil
	}
	p, err := l.readLocked(r)
	return p, l.check(err)
}

func (l *Log) readLocked(r ReadRequest) ([]byte, error) {
	list := *l.segments.Load()
	for _, s := range list[max(0, segmentAt(list, r.Offset)):] {
		f, ok, err := s.find(l.handles, r.Offset)
		if err != nil {
			return nil, err
		}
		if ok {
			return s.read(l.handles, f, r)
		}
	}
	return nil, nil
}

// read returns the batches from a place in the segment.
func (s *segment) read(h *handles, f found, r ReadRequest) ([]byte, error) {
	if f.next > r.UpperBound || (f.bytes > r.BytesMax && !r.AtLeastOne) {
		return nil, nil
	}
	limit := s.size.Load()
	if r, ok := s.recentAtOffset(r.UpperBound); ok {
		limit = int64(r.position) // what comes after it would be read in vain
	}
	n := min(int64(max(r.BytesMax, f.bytes)), limit-f.position)
	file, err := h.acquire(&s.log, false)
	if err != nil {
		return nil, err
	}
	defer h.release(&s.log)
	p := make([]byte, n)
	if err := readFull(file, p, f.position); err != nil {
		return nil, storage("read", s.path(kindLog), err)
	}
	return cutBatches(p, r.UpperBound)
}

// cutBatches is the whole batches at the front of p that end at or before an offset.
func cutBatches(p []byte, upperBound int64) ([]byte, error) {
	n := 0
	for len(p)-n >= HeaderBytes {
		size, err := headerSize(p[n:])
		if err != nil {
			if n == 0 {
				return nil, err
			}
			break
		}
		if n+size > len(p) || Batch(p[n:]).NextOffset() > upperBound {
			break
		}
		n += size
	}
	return p[:n:n], nil
}
