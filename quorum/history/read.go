package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/fsm/image"
)

// readBufferBytes is the size of a reader's buffer.
const readBufferBytes = 256 << 10

// rescansMax bounds how often one read may find damage that was not known.
const rescansMax = 100

// Topic names what a read is about, so that segments without it are not read.
type Topic struct {
	// ID counts if it is not zero, else Name. With an id, registrations of brokers are wanted, too.
	ID   image.TopicID
	Name string
}

func (t Topic) keys() []key {
	if !t.ID.IsZero() {
		return []key{idKey(t.ID[:]), brokersKey}
	}
	return []key{nameKey(t.Name)}
}

var (
	// errEnd ends a walk over a view.
	errEnd = errors.New("end")
	// errPage ends it for now: the page is full.
	errPage = errors.New("page is full")
)

// Read hands over what the history holds from one offset to another: entries whole, and gaps, in order. With a topic it
// leaves out segments that certainly hold nothing about it. What lies behind the end of the history is neither. It reads a
// page at a time and gives its place to others while it hands that over: whoever takes slowly holds up nobody. What retention
// removes between two pages is a gap.
func (h *History) Read(ctx context.Context, from, end image.MetadataOffset, about *Topic, take func(Piece) error) error {
	r := reader{ctx: ctx, store: &h.store, next: from, end: end, about: about}
	rescans := 0
	for whole := false; !whole; {
		name, err := h.readPage(&r)
		if name != "" {
			if rescans++; rescans > rescansMax {
				return fmt.Errorf("history: damage found %d times in one read; ask again", rescansMax)
			}
			if err := h.store.rescan(name, err); err != nil {
				return err
			}
			h.filler.wake()
		} else if err != nil && !errors.Is(err, errPage) {
			return err
		}
		whole = name == "" && err == nil
		for _, p := range r.page {
			if err := take(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPage waits for a place and reads one page.
func (h *History) readPage(r *reader) (bad string, err error) {
	select {
	case h.readers <- struct{}{}:
		defer func() { <-h.readers }()
	case <-r.ctx.Done():
		return "", r.ctx.Err()
	}
	return r.readPage(h.store.view())
}

// End is where the history ends.
func (h *History) End() Mark { return h.store.tail() }

// Gaps lists the ranges of offsets without entries, in order.
func (h *History) Gaps() []Gap { return h.store.view().gaps() }

// Missing is the number of gaps in which something is missing: the offsets that a new lineage skips are none.
func (h *History) Missing() int {
	n := 0
	for _, g := range h.Gaps() {
		if g.Reason != ReasonLineage {
			n++
		}
	}
	return n
}

// Begins is the oldest offset that retention has left.
func (h *History) Begins() image.MetadataOffset {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return h.store.floor
}

// reader is one read.
type reader struct {
	ctx       context.Context
	store     *store
	next, end image.MetadataOffset
	about     *Topic

	page  []Piece
	bytes int
	// Where the page before ended, so that the next one need not begin at the front of the run.
	at placed
}

// placed is a place in a segment, with the chain there.
type placed struct {
	segment string
	offset  int64
	chain   image.Chain
}

// readPage reads the next page of a view. It ends with errPage if there may be more. It returns the name of a segment that
// could not be read, with the error.
func (r *reader) readPage(v view) (bad string, err error) {
	r.page, r.bytes = nil, 0
	if v.floor > r.next {
		if err := r.gap(Gap{From: r.next, To: v.floor - 1, Reason: ReasonRetention}); err != nil {
			return "", endOf(err)
		}
	}
	err = v.each(func(g *Gap, sp *span) error {
		if g != nil {
			return r.gap(*g)
		}
		if sp.run.after.Offset < r.next {
			return nil
		}
		if sp.run.before.Offset >= r.end {
			return errEnd
		}
		if r.about != nil && !r.store.mayHold(sp.segment, r.about.keys()...) {
			r.next = sp.run.after.Offset + 1
			return nil
		}
		err := r.run(sp)
		if errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) {
			bad = sp.segment.name
		}
		return err
	})
	return bad, endOf(err)
}

func endOf(err error) error {
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// put adds a piece to the page.
func (r *reader) put(p Piece, size int) error {
	r.page = append(r.page, p)
	if r.bytes += pieceBytes + size; r.bytes >= r.store.cfg.PageBytes {
		return errPage
	}
	return nil
}

func (r *reader) gap(g Gap) error {
	if g.From > r.end {
		return errEnd
	}
	g.From, g.To = max(g.From, r.next), min(g.To, r.end)
	if g.From > g.To {
		return nil
	}
	r.next = g.To + 1
	return r.put(Piece{Gap: &g}, 0)
}

// run reads the entries of a run, from where the page before has ended.
func (r *reader) run(sp *span) error {
	file, err := r.store.cfg.Env.FS.OpenFile(filepath.Join(r.store.cfg.Dir, sp.segment.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close() // opened for reading
	at := placed{segment: sp.segment.name, offset: sp.run.start, chain: sp.run.before.Chain}
	if r.at.segment == at.segment && r.at.offset > at.offset && r.at.offset < sp.run.end {
		at = r.at
	}
	in := bufio.NewReaderSize(io.NewSectionReader(file, at.offset, sp.run.end-at.offset), readBufferBytes)
	for at.offset < sp.run.end {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		i, size, err := r.nextFrame(in)
		if err != nil {
			return err
		}
		if i.before.Chain != at.chain {
			return fmt.Errorf("%w: the entry at offset %d does not follow the one before", errDamaged, i.BaseOffset)
		}
		at.offset, at.chain = at.offset+int64(size), i.Chain
		if i.LastOffset < r.next {
			continue
		}
		if i.BaseOffset > r.end {
			return errEnd
		}
		r.next, r.at = i.LastOffset+1, at
		if err := r.put(Piece{Entry: i.Entry}, size); err != nil {
			return err
		}
	}
	return nil
}

// nextFrame reads one frame, and tells its size.
func (r *reader) nextFrame(in *bufio.Reader) (i item, size int, err error) {
	head, err := in.Peek(frameHeadBytes)
	if err != nil {
		return item{}, 0, short(err)
	}
	if size, err = frameLength(head); err != nil {
		return item{}, 0, err
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(in, frame); err != nil {
		return item{}, 0, short(err)
	}
	i, err = decodeFrame(frame)
	return i, size, err
}

// short takes an early end for damage.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the file is shorter than it was", errDamaged)
	}
	return err
}

// mayHold tells whether a segment may hold something that one of the keys is for.
func (s *store) mayHold(seg *segment, keys ...key) bool {
	if seg.keys != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(keys, func(k key) bool { _, ok := seg.keys[k]; return ok })
	}
	_, _, filter, err := readIndex(s.cfg.Env.FS, s.cfg.Dir, seg.name)
	return err != nil || slices.ContainsFunc(keys, filter.mayHold)
}

// rescan looks again at a segment that could not be read, and keeps in use what is good of it. It returns the reader's error
// if the segment is as it was.
func (s *store) rescan(name string, cause error) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	at := slices.IndexFunc(s.list, func(o *segment) bool { return o.name == name })
	if at < 0 {
		return nil // retention was faster
	}
	old := s.list[at]
	path := filepath.Join(s.cfg.Dir, name)
	found, err := scan(s.cfg.Env.FS, s.cfg.Dir, name)
	switch {
	case errors.Is(err, errDamaged), errors.Is(err, errTorn), errors.Is(err, fs.ErrNotExist):
		s.metrics.Damaged.Add(1)
		s.cfg.Logger.Error("history file cannot be used", "file", path, "error", err)
		s.drop(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return s.cfg.Env.FS.Rename(path, path+otherSuffix)
	case err != nil:
		return err
	case slices.Equal(found.segment.runs, old.runs):
		return cause
	}
	if len(found.damaged) == 0 {
		found.damaged = []int64{found.segment.size} // the end is damaged, or gone
	}
	s.reportScan(path, scanned{segment: found.segment, damaged: found.damaged})
	s.noteGap()
	next := found.segment
	next.size = max(next.size, old.size)
	if old.keys == nil {
		s.writeIndex(next)
		next.keys = nil
	}
	s.replace(next)
	return nil
}

// drop takes a segment out of the list. The caller holds wmu.
func (s *store) drop(at int) {
	if at == len(s.list)-1 {
		s.closeFile()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Delete(slices.Clone(s.list), at, at+1)
}
