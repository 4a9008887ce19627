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

// errEnd ends a walk over a view.
var errEnd = errors.New("end")

// Read hands over what the history holds from one offset to another: entries whole, and gaps, in order. With a topic it
// leaves out segments that certainly hold nothing about it. What lies behind the end of the history is neither.
func (h *History) Read(ctx context.Context, from, end image.MetadataOffset, about *Topic, take func(Piece) error) error {
	select {
	case h.readers <- struct{}{}:
		defer func() { <-h.readers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r := reader{ctx: ctx, store: &h.store, next: from, end: end, about: about, take: take}
	for range rescansMax {
		name, err := r.read(h.store.view())
		if name == "" {
			return err
		}
		if err := h.store.rescan(name, err); err != nil {
			return err
		}
		h.filler.wake()
	}
	return fmt.Errorf("history: damage found %d times in one read; ask again", rescansMax)
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
	take      func(Piece) error
}

// read goes over a view. It returns the name of a segment that could not be read, with the error.
func (r *reader) read(v view) (bad string, err error) {
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
	if errors.Is(err, errEnd) {
		return "", nil
	}
	return bad, err
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
	return r.take(Piece{Gap: &g})
}

// run reads the entries of a run.
func (r *reader) run(sp *span) error {
	file, err := r.store.cfg.Env.FS.OpenFile(filepath.Join(r.store.cfg.Dir, sp.segment.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close() // opened for reading
	in := bufio.NewReaderSize(io.NewSectionReader(file, sp.run.start, sp.run.end-sp.run.start), readBufferBytes)
	chain := sp.run.before.Chain
	for range sp.run.entries {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		i, err := r.nextFrame(in)
		if err != nil {
			return err
		}
		if i.before.Chain != chain {
			return fmt.Errorf("%w: the entry at offset %d does not follow the one before", errDamaged, i.BaseOffset)
		}
		chain = i.Chain
		if i.LastOffset < r.next {
			continue
		}
		if i.BaseOffset > r.end {
			return errEnd
		}
		r.next = i.LastOffset + 1
		if err := r.take(Piece{Entry: i.Entry}); err != nil {
			return err
		}
	}
	return nil
}

// nextFrame reads one frame.
func (r *reader) nextFrame(in *bufio.Reader) (item, error) {
	head, err := in.Peek(frameHeadBytes)
	if err != nil {
		return item{}, short(err)
	}
	n, err := frameLength(head)
	if err != nil {
		return item{}, err
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(in, frame); err != nil {
		return item{}, short(err)
	}
	return decodeFrame(frame)
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
	s.metrics.Gaps.Add(1)
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
