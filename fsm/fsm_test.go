package fsm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// someLog writes claims, entries and what is fenced, drawn.
func someLog(t *rapid.T, tb testing.TB) *author {
	a := newAuthor(tb)
	a.claim()
	topics := 0
	for range rapid.IntRange(1, 40).Draw(t, "commands") {
		switch rapid.IntRange(0, 9).Draw(t, "command") {
		case 0:
			a.term++
			a.noop()
			a.claim()
		case 1:
			a.claim()
		case 2:
			a.entry()
		case 3: // a fenced twin: the offset and chain that are expected, under a sequence that was left out
			h := a.header()
			h.Sequence++
			a.append(encodeEntry(tb, h, topicRecord(1000+topics, "twin")))
		case 4:
			h := a.header()
			h.Term++
			a.append(encodeEntry(tb, h, topicRecord(1000+topics, "twin")))
		default:
			topics++
			a.entry(topicRecord(topics, fmt.Sprint("t", topics)), partitionRecord(topics, 0, 1, 2, 3), shrinkRecord(topics, 0, 1, 2))
		}
	}
	return a
}

// TestSameLogSameState (F27): one log, handed over in different batches, with and without a restart from a snapshot,
// gives the same dump, chain and state everywhere.
func TestSameLogSameState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := someLog(rt, t)
		f, g := newFSM(t, nil), newFSM(t, nil)
		applyAll(f, a.logs, 1)
		cut := rapid.IntRange(0, len(a.logs)).Draw(rt, "cut")
		applyAll(g, a.logs[:cut], rapid.IntRange(1, 9).Draw(rt, "batch"))
		h := newFSM(t, nil)
		restoreInto(t, g, h)
		applyAll(h, a.logs[cut:], 3)
		if f.State().AfterFenced(0) != a.state.AfterFenced(0) {
			rt.Fatalf("state %+v, the author has %+v", f.State(), a.state)
		}
		if f.State() != h.State() || dump(t, f.Image()) != dump(t, h.Image()) {
			rt.Fatalf("%+v\n%v\nafter a restart\n%+v\n%v", f.State(), f.Image(), h.State(), h.Image())
		}
	})
}

// TestUnreadableRecordHalts (F25): the process is told, with index and kind; nothing more is applied, no snapshot is
// taken, waiters are released, and what was applied before stays.
func TestUnreadableRecordHalts(t *testing.T) {
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 77, protowire.BytesType), nil)
	decision := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), unknown)
	for _, c := range []struct {
		name string
		data func(a *author) []byte
		want string
	}{
		{"unknown kind", func(a *author) []byte {
			data, _ := record.EncodeEntry(a.header(), [][]byte{decision})
			return data
		}, "offset 3: record: unknown kind or field; this build is too old for the log: a record of kind 77"},
		{"does not fit", func(a *author) []byte { return encodeEntry(t, a.header(), shrinkRecord(9, 0, 1)) },
			"offset 3: PartitionChange: topic"},
		{"half fits", func(a *author) []byte { return encodeEntry(t, a.header(), topicRecord(5, "new"), topicRecord(6, "a")) },
			`offset 4: Topic "a": the name is taken`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var halts []error
				f := newFSM(t, &halts)
				a := newAuthor(t)
				a.claim()
				a.entry(topicRecord(1, "a"), partitionRecord(1, 0, 1, 2), shrinkRecord(1, 0, 1))
				good := a.state
				a.append(c.data(a))
				a.entry(topicRecord(7, "later"))
				waiter := make(chan error)
				go func() {
					_, err := f.WaitOffset(context.Background(), 100)
					waiter <- err
				}()
				out := applyAll(f, a.logs, 10)
				var halt *HaltError
				if err := <-waiter; !errors.As(err, &halt) || halt.Index != 3 || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("waiter got %v, want %q", err, c.want)
				}
				if len(halts) != 1 || f.Halted() != halt {
					t.Fatalf("told %v", halts)
				}
				if _, ok := out[3].(HaltResult); !ok || f.State() != good || f.Image().TopicCount() != 1 {
					t.Fatalf("after the halt: %v, state %+v, want %+v", out[3], f.State(), good)
				}
				if _, err := f.Snapshot(); !errors.As(err, &halt) {
					t.Fatalf("snapshot after a halt: %v", err)
				}
				if _, err := f.WriteSnapshot(nil); !errors.As(err, &halt) {
					t.Fatalf("written snapshot after a halt: %v", err)
				}
			})
		})
	}
}

// TestRemovedTopicLeavesNothing (F18): deletion with all replicas gone, and a second deletion of the same topic, which
// no controller may let through, since committed records must apply.
func TestRemovedTopicLeavesNothing(t *testing.T) {
	a := newAuthor(t)
	a.claim()
	a.entry(topicRecord(1, "t"), partitionRecord(1, 0, 1, 2), topicRecord(2, "u"), partitionRecord(2, 0, 1, 2))
	a.entry(removeRecord(1))
	a.entry(shrinkRecord(2, 0, 2))
	a.entry(topicRecord(3, "t"))
	f := newFSM(t, nil)
	applyAll(f, a.logs, 10)
	for id := range f.Image().PartitionsWithISR(1) {
		t.Errorf("an index names %v", id)
	}
	d := f.Image().Fork()
	if err := d.Replay(100, removeRecord(1)); !errors.Is(err, image.ErrReplay) {
		t.Errorf("second deletion: %v", err)
	}
}

// TestOfferIsPublishedByPointer: the active controller's image is taken as it is, and is the one a replay gives.
func TestOfferIsPublishedByPointer(t *testing.T) {
	a := newAuthor(t)
	f := newFSM(t, nil)
	f.Apply(a.claim())
	pending := f.Image()
	for i := range 5 {
		r := topicRecord(i+1, fmt.Sprint("t", i))
		d := pending.Fork()
		if err := d.Replay(a.state.Offset+1, r); err != nil {
			t.Fatal(err)
		}
		h := a.header()
		l := a.entry(r)
		pending = d.Seal(a.state.Offset, a.state.Chain)
		if i != 3 { // an entry without its offer is replayed, and the next image is the offered one again
			f.Offer(Offer{ClaimIndex: h.ClaimIndex, Sequence: h.Sequence, Image: pending})
		}
		res := f.Apply(l).(EntryResult)
		if i != 3 && res.Image != pending {
			t.Fatalf("entry %d: the image offered was not published", i)
		}
		if res.Image.Fingerprint() != pending.Fingerprint() {
			t.Fatalf("entry %d: images differ", i)
		}
	}
	if c := f.Counters(); c.Offered.Load() != 4 || c.Verified.Load() != 4 {
		t.Errorf("offered %d, verified %d", c.Offered.Load(), c.Verified.Load())
	}
}

// TestWrongOfferHalts: an image that the entry does not lead to is found by the comparison.
func TestWrongOfferHalts(t *testing.T) {
	for _, c := range []struct{ name, want string }{{"content", "fingerprint"}, {"chain", "the image offered ends at"}} {
		t.Run(c.name, func(t *testing.T) {
			var halts []error
			a, f := newAuthor(t), newFSM(t, &halts)
			f.Apply(a.claim())
			d := f.Image().Fork()
			if err := d.Replay(0, topicRecord(1, "other")); err != nil {
				t.Fatal(err)
			}
			h := a.header()
			l := a.entry(topicRecord(1, "t"))
			chain := a.state.Chain
			if c.name == "chain" {
				chain++
			}
			f.Offer(Offer{ClaimIndex: h.ClaimIndex, Sequence: h.Sequence, Image: d.Seal(0, chain)})
			if _, ok := f.Apply(l).(HaltResult); !ok || len(halts) != 1 || !strings.Contains(halts[0].Error(), c.want) {
				t.Fatalf("told %v", halts)
			}
		})
	}
}

// TestFencedOfferIsDropped: what an incarnation offered is gone when the next one claims.
func TestFencedOfferIsDropped(t *testing.T) {
	a, f := newAuthor(t), newFSM(t, nil, func(c *Config) { c.OffersMax = 2 })
	f.Apply(a.claim())
	for seq := range uint64(5) {
		f.Offer(Offer{ClaimIndex: 1, Sequence: seq, Image: f.Image()})
	}
	if len(f.offers.list) != 2 {
		t.Fatalf("%d offers kept", len(f.offers.list))
	}
	f.Apply(a.claim())
	if len(f.offers.list) != 0 {
		t.Fatalf("%d offers outlive their claim", len(f.offers.list))
	}
}

// collect reads everything after an offset, from the ring.
func collect(t fataler, f *FSM, after image.MetadataOffset) []*Entry {
	var out []*Entry
	for {
		es, ok := f.After(after, 3)
		if !ok {
			t.Fatalf("the ring does not reach back to %d", after)
		}
		if len(es) == 0 {
			return out
		}
		out = append(out, es...)
		after = es[len(es)-1].LastOffset
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// TestStreamIsContiguous: ring and walk give the same entries from every offset, fenced twins left out, and replaying
// them gives the same image.
func TestStreamIsContiguous(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := someLog(rt, t)
		f := newFSM(t, nil, func(c *Config) { c.MarkEvery = rapid.IntRange(1, 5).Draw(rt, "mark") })
		applyAll(f, a.logs, rapid.IntRange(1, 9).Draw(rt, "batch"))
		last := f.State().Offset
		after := image.MetadataOffset(rapid.Int64Range(-1, int64(last)).Draw(rt, "after"))
		entries := collect(rt, f, after)
		w, err := f.Walk(a, after)
		if err != nil {
			rt.Fatal(err)
		}
		at := after
		for _, e := range entries {
			got, err := w.Next()
			if err != nil || got.LastOffset != e.LastOffset || got.Chain != e.Chain || got.Index != e.Index || string(got.Bytes) != string(e.Bytes) {
				rt.Fatalf("walk gives %+v (%v), the ring %+v", got, err, e)
			}
			if at != after && e.BaseOffset != at+1 || e.BaseOffset <= at {
				rt.Fatalf("after %d comes %d–%d", at, e.BaseOffset, e.LastOffset)
			}
			at = e.LastOffset
		}
		if e, err := w.Next(); err == nil || len(entries) > 0 && at != last {
			rt.Fatalf("the walk goes on with %+v; the ring ended at %d of %d", e, at, last)
		}
		im, err := NewWalker(a, InitialState(), -1, f.AppliedIndex()).ReplayTo(image.Empty(), last)
		if err != nil || dump(t, im) != dump(t, f.Image()) {
			rt.Fatalf("replayed: %v\n%v\nwant\n%v", err, im, f.Image())
		}
	})
}

// TestSlowReaderFallsOut: the ring is bounded in bytes; who is too far behind is told so, and the walk helps until the
// log is compacted.
func TestSlowReaderFallsOut(t *testing.T) {
	a := newAuthor(t)
	f := newFSM(t, nil, func(c *Config) { c.RingBytesMax = 1000; c.MarkEvery = 4 })
	f.Apply(a.claim())
	for i := range 100 {
		f.Apply(a.entry(topicRecord(i+1, fmt.Sprint("t", i))))
	}
	if _, ok := f.After(10, 1000); ok {
		t.Fatal("entry 11 is still at hand")
	}
	if es, ok := f.After(97, 1000); !ok || len(es) != 2 || f.publisher.bytes > 1000 {
		t.Fatalf("newest entries: %v %v, %d bytes kept", es, ok, f.publisher.bytes)
	}
	if es, ok := f.After(500, 1); !ok || len(es) != 0 {
		t.Fatalf("beyond the end: %v %v", es, ok)
	}
	w, err := f.Walk(a, 10)
	if err != nil {
		t.Fatal(err)
	}
	if w.state.Index < 5 {
		t.Errorf("the walk starts at index %d, not at the newest mark", w.state.Index)
	}
	if e, err := w.Next(); err != nil || e.BaseOffset != 11 {
		t.Fatalf("%+v %v", e, err)
	}
	for i := range 20 {
		a.logs[i] = nil
	}
	if w, err = f.Walk(a, 10); err == nil {
		_, err = w.Next()
	}
	if !errors.Is(err, ErrCompacted) {
		t.Fatalf("after compaction: %v", err)
	}
}

// TestWalkAfterRestore: a walk starts at a loaded snapshot even when Raft's own entries around it are gone from the log.
func TestWalkAfterRestore(t *testing.T) {
	a := newAuthor(t)
	g := newFSM(t, nil)
	g.Apply(a.claim())
	g.Apply(a.entry(topicRecord(1, "a")))
	a.noop()
	f := newFSM(t, nil)
	restoreInto(t, g, f)
	clear(a.logs)
	if _, err := f.Walk(a, -1); !errors.Is(err, ErrCompacted) {
		t.Fatalf("before the snapshot: %v", err)
	}
	f.Apply(a.entry(topicRecord(2, "b")))
	w, err := f.Walk(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := w.Next(); err != nil || e.BaseOffset != 1 {
		t.Fatalf("%+v %v", e, err)
	}
	if f.AppliedIndex() != 4 {
		t.Errorf("applied index %d", f.AppliedIndex())
	}
}

// TestConfigurationIsSeen: Raft hands configurations over in batches too; they move the applied index only.
func TestConfigurationIsSeen(t *testing.T) {
	f := newFSM(t, nil)
	out := f.ApplyBatch([]*raft.Log{{Index: 4, Term: 1, Type: raft.LogConfiguration}})
	if len(out) != 1 || f.AppliedIndex() != 4 || f.State() != InitialState() {
		t.Fatalf("%v, applied %d, state %+v", out, f.AppliedIndex(), f.State())
	}
}

// TestReadersDoNotHoldUpApply: many readers, each at its own pace, see contiguous entries and never an image that is
// older than what they saw, while Apply goes on.
func TestReadersDoNotHoldUpApply(t *testing.T) {
	a := newAuthor(t)
	f := newFSM(t, nil)
	f.Apply(a.claim())
	const entries = 300
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			at := image.NoOffset
			for at < entries-1 {
				changed := f.Changed()
				es, ok := f.After(at, 7)
				if !ok {
					done <- fmt.Errorf("fell out at %d", at)
					return
				}
				for _, e := range es {
					if e.BaseOffset != at+1 {
						done <- fmt.Errorf("after %d comes %d", at, e.BaseOffset)
						return
					}
					at = e.LastOffset
				}
				if len(es) == 0 {
					<-changed
				}
				if p := f.Position(); p.Image.Offset() < at || p.State.Offset != p.Image.Offset() {
					done <- fmt.Errorf("at %d the image is at %d, the state at %d", at, p.Image.Offset(), p.State.Offset)
					return
				}
			}
			_, err := f.WaitOffset(context.Background(), entries-1)
			done <- err
		}()
	}
	for i := range entries {
		f.Apply(a.entry(topicRecord(i+1, fmt.Sprint("t", i))))
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.WaitOffset(ctx, entries+1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled waiter got %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"ClusterID":    func(c *Config) { c.ClusterID = "" },
		"Logger":       func(c *Config) { c.Logger = nil },
		"OnHalt":       func(c *Config) { c.OnHalt = nil },
		"VerifyEvery":  func(c *Config) { c.VerifyEvery = -1 },
		"RingBytesMax": func(c *Config) { c.RingBytesMax = 0 },
		"OffersMax":    func(c *Config) { c.OffersMax = 0 },
		"MarkEvery":    func(c *Config) { c.MarkEvery = 0 },
		"MarksMax":     func(c *Config) { c.MarksMax = 0 },
	} {
		cfg := newFSM(t, nil).cfg
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
