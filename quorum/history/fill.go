package history

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/quorum/env"
)

// filler fetches what is missing, one gap at a time.
type filler struct {
	h     *History
	found chan struct{} // has a token when there may be a gap
	tried map[Gap]attempt
}

// attempt is what became of a gap so far.
type attempt struct {
	pause time.Duration
	again time.Time
}

func (f *filler) wake() {
	select {
	case f.found <- struct{}{}:
	default:
	}
}

func (f *filler) run(ctx context.Context) {
	if f.h.cfg.Sources == nil {
		return
	}
	timer := time.NewTicker(f.h.cfg.FillIntervalMin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-f.found:
		}
		f.fillAll(ctx)
	}
}

// fillAll tries each gap whose time has come, the newest first.
func (f *filler) fillAll(ctx context.Context) {
	gaps := f.h.store.view().gaps()
	slices.Reverse(gaps)
	now := f.h.cfg.Env.Now()
	for g := range f.tried {
		if !slices.Contains(gaps, g) {
			delete(f.tried, g)
		}
	}
	for _, g := range gaps[:min(len(gaps), gapsTriedMax)] {
		if t, ok := f.tried[g]; ok && now.Before(t.again) || ctx.Err() != nil || g.Reason == ReasonLineage {
			continue
		}
		if f.fill(ctx, g) {
			continue
		}
		pause := min(max(2*f.tried[g].pause, f.h.cfg.FillIntervalMin), f.h.cfg.FillIntervalMax)
		f.tried[g] = attempt{pause: pause, again: now.Add(pause)}
	}
}

// fill asks one source after the other and tells whether one had something that leads up to the end of the gap.
func (f *filler) fill(ctx context.Context, g Gap) bool {
	logger := f.h.cfg.Logger
	for _, source := range f.h.cfg.Sources() {
		entries, from, err := f.from(ctx, g, source)
		if err != nil || entries == 0 {
			logger.Debug("history gap not filled", "from", int64(g.From), "to", int64(g.To), "source", source.Name, "error", err)
			continue
		}
		f.h.metrics.EntriesFilled.Add(int64(entries))
		if from == int64(g.From) {
			f.h.metrics.GapsFilled.Add(1)
		}
		logger.Info("history gap filled", "from", from, "to", int64(g.To), "entries", entries, "source", source.Name)
		return true
	}
	return false
}

// errOtherHistory tells that a source has other entries than those that belong here.
var errOtherHistory = errors.New("history: the source has another history")

// from fetches a gap from one source into files of their own, which count when their last entry leads to what follows the
// gap. Only what leads up to there is of use: the chain proves it.
func (f *filler) from(ctx context.Context, g Gap, source Source) (entries int, from int64, err error) {
	left, leftKnown, right := f.h.store.view().edges(g)
	b := &builder{store: &f.h.store, gap: g}
	defer b.drop()
	rate := &rate{max: f.h.cfg.FillBytesPerSecond}
	err = source.Read(ctx, g.From, g.To, func(p Piece) error {
		if p.Gap != nil {
			b.drop()
			return nil
		}
		raw, err := record.ScanEntry(p.Entry.Bytes)
		if err != nil {
			return err
		}
		i := newItem(p.Entry.Index, raw)
		switch {
		case i.LastOffset < g.From:
			return nil
		case i.BaseOffset < g.From, i.LastOffset > g.To, leftKnown && i.BaseOffset == g.From && i.before != left:
			return fmt.Errorf("%w: entry %d..%d in the gap %v", errOtherHistory, i.BaseOffset, i.LastOffset, g)
		case b.entries > 0 && i.before.Chain != b.after.Chain:
			b.drop()
		}
		if err := b.add(i); err != nil {
			return err
		}
		return rate.wait(ctx, len(i.Bytes))
	})
	switch {
	case err != nil || b.entries == 0:
		return 0, 0, err
	case b.after != right:
		return 0, 0, fmt.Errorf("%w or not all of it: it leads to offset %d, chain %v; wanted %d, %v",
			errOtherHistory, b.after.Offset, b.after.Chain, right.Offset, right.Chain)
	}
	entries, from = b.entries, int64(b.segments[0].header.before.Offset)+1
	return entries, from, b.publish()
}

// builder writes the segments of a gap.
type builder struct {
	store    *store
	gap      Gap
	segments []*segment
	file     env.File
	batch    batch
	after    Mark
	entries  int
}

func (b *builder) add(i item) error {
	if n := len(b.segments); n == 0 || b.segments[n-1].size+int64(len(b.batch.buf)) >= b.store.cfg.SegmentBytes {
		if err := b.roll(i); err != nil {
			return err
		}
	}
	b.batch.add(i)
	b.after = i.after()
	b.entries++
	if len(b.batch.buf) >= writeBytes {
		return b.flush()
	}
	return nil
}

func (b *builder) roll(i item) error {
	if err := b.end(); err != nil {
		return err
	}
	h := header{before: i.before, timeMs: b.store.cfg.Env.Now().UnixMilli()}
	if len(b.segments) == 0 && i.BaseOffset != b.gap.From {
		h.reason = b.gap.Reason
	}
	b.store.wmu.Lock()
	name := b.store.freeName(i.BaseOffset)
	b.store.wmu.Unlock()
	file, err := createSegment(b.store.cfg.Env.FS, b.store.cfg.Dir, name+fillSuffix, h)
	if err != nil {
		return err
	}
	b.file = file
	b.segments = append(b.segments, &segment{name: name, header: h, size: headerBytes, keys: keySet{}})
	return nil
}

func (b *builder) flush() error {
	if len(b.batch.items) == 0 {
		return nil
	}
	defer b.batch.reset()
	seg := b.segments[len(b.segments)-1]
	if _, err := b.file.WriteAt(b.batch.buf, seg.size); err != nil {
		return err
	}
	if len(seg.runs) == 0 {
		seg.runs = []run{{start: seg.size, end: seg.size, before: b.batch.items[0].before}}
	}
	for n, i := range b.batch.items {
		seg.runs[0].add(i, b.batch.sizes[n])
		seg.size += int64(b.batch.sizes[n])
		seg.keys.addEntry(i.Entry)
	}
	return nil
}

// end finishes the file that is written.
func (b *builder) end() error {
	if b.file == nil {
		return nil
	}
	err := b.flush()
	if err == nil {
		err = b.file.Sync()
	}
	err = errors.Join(err, b.file.Close())
	b.file = nil
	return err
}

// drop forgets what was fetched.
func (b *builder) drop() {
	b.batch.reset()
	if b.file != nil {
		_ = b.file.Close() // it goes away
		b.file = nil
	}
	for _, seg := range b.segments {
		if err := b.store.cfg.Env.FS.Remove(filepath.Join(b.store.cfg.Dir, seg.name+fillSuffix)); err != nil {
			b.store.cfg.Logger.Debug("history file not removed", "file", seg.name+fillSuffix, "error", err)
		}
	}
	b.segments, b.entries, b.after = nil, 0, Mark{}
}

// publish puts the segments among the others.
func (b *builder) publish() error {
	if err := b.end(); err != nil {
		return err
	}
	s := b.store
	s.wmu.Lock()
	defer s.wmu.Unlock()
	published := b.segments
	b.segments = nil
	for _, seg := range published {
		path := filepath.Join(s.cfg.Dir, seg.name)
		if err := s.cfg.Env.FS.Rename(path+fillSuffix, path); err != nil {
			return err
		}
		s.writeIndex(seg)
		seg.keys = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append(slices.Clone(s.list), published...)
	slices.SortStableFunc(list, compareSegments)
	s.list = list
	return nil
}

// rate spreads bytes over time.
type rate struct {
	max, taken int
}

// wait waits when a second's worth has been taken.
func (r *rate) wait(ctx context.Context, n int) error {
	if r.taken += n; r.taken < r.max {
		return nil
	}
	r.taken = 0
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
