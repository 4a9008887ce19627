package fsm

import (
	"context"
	"sort"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// Entry is an applied entry with records, as streams send it. It is shared and must not be changed.
type Entry struct {
	// Bytes is the entry message as it stands in the log.
	Bytes []byte
	// BaseOffset is the metadata offset of the first of Records records, LastOffset of the last.
	BaseOffset, LastOffset image.MetadataOffset
	Records                int
	// Chain is the chain after the entry.
	Chain image.Chain
	// TimeMs is the active controller's clock when it was decided.
	TimeMs int64
	// Index and Term are Raft's; the term is that of the claim too.
	Index, Term uint64
}

func entryOf(l *raft.Log, e *record.RawEntry, after State) *Entry {
	return &Entry{
		Bytes: e.Bytes, BaseOffset: e.BaseOffset, LastOffset: after.Offset, Records: e.Count,
		Chain: after.Chain, TimeMs: e.TimeMs, Index: l.Index, Term: l.Term,
	}
}

// publisher keeps the newest entries, contiguous up to the published position, and wakes those who wait for more.
// Its lock is never held for longer than copying a few pointers, so Apply waits for no reader.
type publisher struct {
	mu       sync.Mutex
	bytesMax int
	bytes    int
	ring     []*Entry
	// changed is closed and replaced at each publication.
	changed chan struct{}
}

// entryOverheadBytes is counted for each entry beside its bytes.
const entryOverheadBytes = 128

func (p *publisher) init(bytesMax int) {
	p.bytesMax = bytesMax
	p.changed = make(chan struct{})
}

// publish appends the entries and makes the new position visible in one step.
func (p *publisher) publish(entries []*Entry, store func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring = append(p.ring, entries...)
	for _, e := range entries {
		p.bytes += len(e.Bytes) + entryOverheadBytes
	}
	drop := 0
	for ; drop < len(p.ring)-1 && p.bytes > p.bytesMax; drop++ {
		p.bytes -= len(p.ring[drop].Bytes) + entryOverheadBytes
	}
	if drop > 0 {
		clear(p.ring[:drop])
		p.ring = p.ring[drop:]
	}
	store()
	p.wakeLocked()
}

// reset makes a position visible that no entry led to.
func (p *publisher) reset(store func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring, p.bytes = nil, 0
	store()
	p.wakeLocked()
}

func (p *publisher) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked()
}

func (p *publisher) wakeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next publication, restore or halt. Take it before looking, look,
// then wait.
func (f *FSM) Changed() <-chan struct{} {
	f.publisher.mu.Lock()
	defer f.publisher.mu.Unlock()
	return f.publisher.changed
}

// After returns up to max entries that follow the metadata offset, in order, the last of them at most the published
// position; none if there is nothing new. ok is false when entries after it are no longer at hand: [FSM.Walk] may
// have them. An offset within an entry counts as that entry's end.
func (f *FSM) After(offset image.MetadataOffset, max int) (entries []*Entry, ok bool) {
	p := &f.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset >= f.position.Load().State.Offset {
		return nil, true
	}
	i := sort.Search(len(p.ring), func(i int) bool { return p.ring[i].BaseOffset > offset })
	if i == 0 && (len(p.ring) == 0 || p.ring[0].BaseOffset != offset+1) {
		return nil, false
	}
	return append(entries, p.ring[i:min(len(p.ring), i+max)]...), true
}

// WaitOffset returns the newest image as soon as it holds the record at offset. The error is that of ctx, or a
// [HaltError].
func (f *FSM) WaitOffset(ctx context.Context, offset image.MetadataOffset) (*image.Image, error) {
	for {
		changed := f.Changed()
		if im := f.Image(); im.Offset() >= offset {
			return im, nil
		}
		if err := f.Halted(); err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
