package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chainOf makes entries that follow each other, entry i with 1 to 3 records about topic i modulo 7.
type chainOf struct {
	header  record.EntryHeader
	entries []*fsm.Entry
}

func topicID(i int) image.TopicID { return image.UUID{7, byte(i), 0xaa, 0xbb, 0xcc, 1, 2, 3, 4} }

func newChain(t testing.TB, n int) *chainOf {
	t.Helper()
	c := &chainOf{header: record.EntryHeader{ClaimIndex: 1, Term: 2, TimeMs: 1_000_000}}
	for i := range n {
		d := &metadatapb.Decision{Cause: &metadatapb.Cause{Name: "CreateTopics"}}
		for k := range 1 + i%3 {
			d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_Topic{
				Topic: &metadatapb.Topic{Name: fmt.Sprintf("topic-%d-%d", i, k), TopicId: topicID(i % 7).Bytes()},
			}})
		}
		c.add(t, d)
	}
	return c
}

// add appends an entry with one decision, ten seconds after the one before.
func (c *chainOf) add(t testing.TB, d *metadatapb.Decision) {
	t.Helper()
	encoded, err := record.EncodeDecision(d)
	if err != nil {
		t.Fatal(err)
	}
	c.header.Sequence++
	c.header.TimeMs += 10_000
	data, after := record.EncodeEntry(c.header, [][]byte{encoded})
	command, err := record.DecodeCommand(data)
	if err != nil {
		t.Fatal(err)
	}
	e, err := EntryOf(uint64(10+len(c.entries)), command.Entry.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	c.entries = append(c.entries, e)
	c.header.BaseOffset, c.header.Chain = e.LastOffset+1, after
}

// mark is the end of the first n entries.
func (c *chainOf) mark(n int) Mark {
	if n == 0 {
		return begin
	}
	e := c.entries[n-1]
	return Mark{e.LastOffset, e.Chain}
}

func (c *chainOf) end() image.MetadataOffset { return c.mark(len(c.entries)).Offset }

// source reads the entries from one to another, both by number.
func (c *chainOf) source(first, end int) func() []Source {
	return func() []Source {
		return []Source{{Name: "test", Read: func(_ context.Context, from, to image.MetadataOffset, take func(Piece) error) error {
			for _, e := range c.entries[first:end] {
				if e.LastOffset < from || e.BaseOffset > to {
					continue
				}
				if err := take(Piece{Entry: e}); err != nil {
					return err
				}
			}
			return nil
		}}}
	}
}

// rig is a history over a directory that lives longer.
type rig struct {
	t      testing.TB
	cfg    Config
	faults *envtest.Faults
	fs     *envtest.FS
	clock  *envtest.Clock
	log    *lines
	at     atomic.Pointer[Mark]
}

// lines is what the history logs.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, faults: envtest.NewFaults(), clock: envtest.NewClock(), log: &lines{}}
	r.at.Store(&begin)
	r.fs = envtest.NewFS(env.OS("").FS, r.faults)
	r.cfg = Config{
		Dir: filepath.Join(t.TempDir(), "history"), RetentionTime: 365 * 24 * time.Hour * 100, RetentionBytes: 1 << 30, SegmentBytes: 1500, PageBytes: 700,
		Position: func() Mark { return *r.at.Load() },
		Env:      &env.Env{FS: r.fs, Clock: r.clock}, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	return r
}

func (r *rig) open() *History {
	r.t.Helper()
	h, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	h.Open()
	return h
}

// run lets a history run while f does.
func (r *rig) run(f func(h *History)) {
	r.t.Helper()
	h := r.open()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	f(h)
	synctest.Wait()
	cancel()
	<-done
}

// write writes entries with a history that is opened for it.
func (r *rig) write(entries ...*fsm.Entry) {
	r.t.Helper()
	h := r.open()
	h.Offer(entries)
	h.drain()
	h.store.close()
}

// holds reads everything and returns the numbers of the entries, with gaps between them as text.
func (r *rig) holds(h *History, c *chainOf, about *Topic) string {
	r.t.Helper()
	var out []string
	next := -1
	err := h.Read(context.Background(), 0, c.end(), about, func(p Piece) error {
		if p.Gap != nil {
			out = append(out, "gap "+p.Gap.String())
			next = -1
			return nil
		}
		i := slices.IndexFunc(c.entries, func(e *fsm.Entry) bool { return e.BaseOffset == p.Entry.BaseOffset })
		if i < 0 || string(c.entries[i].Bytes) != string(p.Entry.Bytes) || c.entries[i].Chain != p.Entry.Chain || c.entries[i].Index != p.Entry.Index {
			r.t.Errorf("entry %d..%d is not what was written", p.Entry.BaseOffset, p.Entry.LastOffset)
		}
		if i == next && about == nil {
			from, _, _ := strings.Cut(out[len(out)-1], "-")
			out[len(out)-1] = fmt.Sprintf("%s-%d", from, i)
		} else {
			out = append(out, fmt.Sprint(i))
		}
		next = i + 1
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func (r *rig) wants(h *History, c *chainOf, want string) {
	r.t.Helper()
	if got := r.holds(h, c, nil); got != want {
		r.t.Errorf("history holds %q, expected %q", got, want)
	}
}

// files lists the segments.
func (r *rig) files(suffix string) []string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.cfg.Dir, "*"+suffix))
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// What was applied is there, in order, over segments and restarts; what comes again after a restart is there once.
func TestEntriesAreKeptOnceOverRestarts(t *testing.T) {
	r, c := newRig(t), newChain(t, 60)
	r.write(c.entries[:20]...)
	r.write(c.entries[5:40]...)
	r.write(c.entries[40:40]...)
	r.write(c.entries[30:60]...)
	h := r.open()
	r.wants(h, c, "0-59")
	if n := len(r.files(segmentSuffix)); n < 3 {
		t.Errorf("%d segments", n)
	}
	if len(h.Gaps()) != 0 || h.End() != c.mark(60) {
		t.Errorf("gaps %v, end %v", h.Gaps(), h.End())
	}
	// From any offset to any other.
	for from := image.MetadataOffset(0); from <= c.end(); from += 7 {
		first, last := image.NoOffset, image.NoOffset
		err := h.Read(context.Background(), from, from+4, nil, func(p Piece) error {
			if first == image.NoOffset {
				first = p.Entry.BaseOffset
			}
			last = p.Entry.LastOffset
			return nil
		})
		if err != nil || first > from || first < from-2 || last < min(from+4, c.end()) || last > from+6 {
			t.Errorf("from %d to %d: read %d to %d, %v", from, from+4, first, last, err)
		}
	}
}

// A file that ends within a frame is cut there, wherever that is, and goes on.
func TestTornTailIsCut(t *testing.T) {
	r, c := newRig(t), newChain(t, 6)
	r.cfg.SegmentBytes = 1 << 20
	r.write(c.entries[:5]...)
	name := r.files(segmentSuffix)[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	last := len(whole) - len(appendFrame(nil, 0, c.entries[4].Bytes))
	for cut := last; cut < len(whole); cut++ {
		if err := os.WriteFile(name, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		h := r.open()
		if h.End() != c.mark(4) {
			t.Fatalf("cut at %d: ends at %v", cut, h.End())
		}
		h.store.close()
	}
	r.write(c.entries[4:]...)
	r.wants(r.open(), c, "0-5")
	// The same for a file that was cut within its header, as a crash leaves it that made a new segment.
	if err := os.WriteFile(filepath.Join(r.cfg.Dir, segmentName(99, 0)), []byte(segmentMagic), 0o644); err != nil {
		t.Fatal(err)
	}
	r.wants(r.open(), c, "0-5")
}

// Wherever a byte is flipped, in a segment that is closed or in the last one, found at the start or while reading: what is
// returned is what was written, what is not is a gap, and what is not damaged is returned.
func TestFlippedByteIsAGap(t *testing.T) {
	for _, closed := range []bool{false, true} {
		r, c := newRig(t), newChain(t, 12)
		r.cfg.SegmentBytes = 1 << 20
		if closed {
			r.cfg.SegmentBytes = 1
			r.write(c.entries[:1]...)
			r.cfg.SegmentBytes = 600
		}
		r.write(c.entries...)
		name := r.files(segmentSuffix)[len(r.files(segmentSuffix))/2]
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at++ {
			if at > headerBytes+frameHeadBytes && at%9 != 0 {
				continue
			}
			flipped := slices.Clone(whole)
			flipped[at] ^= 0x40
			found := r.open() // opened before the damage: found while reading
			if err := os.WriteFile(name, flipped, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, h := range []*History{found, r.open()} {
				held := r.holds(h, c, nil)
				lost := strings.Count(held, "gap")
				inHeader := at < headerBytes
				if !inHeader && lost > 1 || h == found && !inHeader && lost == 0 && h.End() == c.mark(12) {
					t.Fatalf("closed=%v, byte %d flipped: %s", closed, at, held)
				}
				if h == found && !inHeader && h.metrics.Damaged.Load() == 0 || !strings.Contains(r.log.String(), filepath.Base(name)) {
					t.Fatalf("closed=%v, byte %d flipped: not told: %s", closed, at, r.log)
				}
				h.store.close()
			}
			restore(t, r.cfg.Dir, name, whole)
		}
	}
}

// restore makes a file what it was.
func restore(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	for _, other := range []string{name + otherSuffix, name + indexSuffix} {
		if err := os.Remove(other); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Files of another log are put aside when an entry shows it, and the history begins anew.
func TestOtherLogIsPutAside(t *testing.T) {
	r, c := newRig(t), newChain(t, 30)
	r.write(c.entries[:10]...)
	other := newChain(t, 4)
	other.add(t, &metadatapb.Decision{Records: []*metadatapb.Record{{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(1).Bytes()}}}}})
	for range 30 {
		other.add(t, &metadatapb.Decision{Records: []*metadatapb.Record{{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(2).Bytes()}}}}})
	}
	r.write(other.entries...)
	h := r.open()
	if got := r.holds(h, other, nil); !strings.HasSuffix(got, "-34") || !strings.HasPrefix(got, "gap 0..") {
		t.Errorf("holds %q", got)
	}
	if len(r.files(otherSuffix)) == 0 || !strings.Contains(r.log.String(), "another log") {
		t.Errorf("files %v, log %s", r.files(otherSuffix), r.log)
	}
}

// A read about one topic leaves out segments without it.
func TestSegmentsWithoutTheTopicAreNotRead(t *testing.T) {
	r := newRig(t)
	c := newChain(t, 0)
	for i := range 200 {
		c.add(t, &metadatapb.Decision{Records: []*metadatapb.Record{{Kind: &metadatapb.Record_RemoveTopic{
			RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(i / 100 * 50).Bytes()},
		}}}})
	}
	r.write(c.entries...)
	h := r.open()
	for _, x := range []struct{ topic, first, last int }{{0, 0, 99}, {50, 100, 199}} {
		first, last, n := 999, -1, 0
		err := h.Read(context.Background(), 0, c.end(), &Topic{ID: topicID(x.topic)}, func(p Piece) error {
			i := int(p.Entry.BaseOffset)
			first, last = min(first, i), max(last, i)
			n++
			return nil
		})
		if err != nil || first > x.first || last < x.last || n > 130 {
			t.Errorf("topic %d: entries %d to %d, %d of them, %v", x.topic, first, last, n, err)
		}
	}
	if n := len(strings.Fields(r.holds(h, c, &Topic{ID: topicID(77)}))); n > 40 { // a Bloom filter may be wrong now and then
		t.Errorf("%d entries read for a topic that is nowhere", n)
	}
}
