package fsm

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/snapshot"
)

// memorySink is a sink in memory that fails after a number of bytes, if that is not negative.
type memorySink struct {
	bytes.Buffer
	failAfter         int
	closed, cancelled bool
}

func (s *memorySink) Write(p []byte) (int, error) {
	if s.failAfter >= 0 && s.Len()+len(p) > s.failAfter {
		return 0, errors.New("no space left")
	}
	return s.Buffer.Write(p)
}

func (s *memorySink) ID() string    { return "s" }
func (s *memorySink) Close() error  { s.closed = true; return nil }
func (s *memorySink) Cancel() error { s.cancelled = true; return nil }

func persist(t testing.TB, f *FSM) []byte {
	t.Helper()
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	return persisted(t, s)
}

func persisted(t testing.TB, s raft.FSMSnapshot) []byte {
	t.Helper()
	sink := &memorySink{failAfter: -1}
	if err := s.Persist(sink); err != nil || !sink.closed {
		t.Errorf("persist: %v", err)
	}
	return sink.Bytes()
}

// restoreFrom restores a snapshot into a state machine.
func restoreFrom(t testing.TB, s raft.FSMSnapshot, to *FSM) {
	t.Helper()
	if err := to.Restore(io.NopCloser(bytes.NewReader(persisted(t, s)))); err != nil {
		t.Error(err)
	}
}

func restoreInto(t testing.TB, from, to *FSM) {
	t.Helper()
	if err := to.Restore(io.NopCloser(bytes.NewReader(persist(t, from)))); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreReplacesEverything (F26 a, b): after a restore over a state that is not empty the state is the snapshot's,
// nothing more and nothing less, and the entries that follow are applied once.
func TestRestoreReplacesEverything(t *testing.T) {
	a := newAuthor(t)
	a.claim()
	a.entry(topicRecord(1, "old"), partitionRecord(1, 0, 1, 2))
	a.entry(removeRecord(1))
	a.entry(topicRecord(2, "new"))
	full := newFSM(t, nil)
	applyAll(full, a.logs, 10)

	f := newFSM(t, nil)
	applyAll(f, a.logs[:2], 10) // still has the topic that was deleted meanwhile
	changed := f.Changed()
	restoreInto(t, full, f)
	select {
	case <-changed:
	default:
		t.Error("readers were not told")
	}
	if dump(t, f.Image()) != dump(t, full.Image()) || f.State() != full.State() {
		t.Fatalf("restored\n%v\nwant\n%v", f.Image(), full.Image())
	}
	if es, ok := f.After(0, 10); ok {
		t.Errorf("the ring still has %v of before", es)
	}
	l := a.entry(topicRecord(3, "next"))
	f.Apply(l)
	full.Apply(l)
	if dump(t, f.Image()) != dump(t, full.Image()) {
		t.Fatalf("after the next entry\n%v\nwant\n%v", f.Image(), full.Image())
	}
}

// TestBadSnapshotChangesNothing (F26 c): a snapshot that is damaged, cut short, of another cluster, or written by a newer
// build is refused and named; the state before stays whole.
func TestBadSnapshotChangesNothing(t *testing.T) {
	a := newAuthor(t)
	from := newFSM(t, nil)
	from.Apply(a.claim())
	from.Apply(a.entry(topicRecord(1, "a"), partitionRecord(1, 0, 1, 2)))
	good := persist(t, from)
	other := newFSM(t, nil, func(c *Config) { c.ClusterID = "other" })
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 4
	for _, c := range []struct {
		name, want string
		is         error
		data       []byte
	}{
		{"flipped byte", "checksum", snapshot.ErrCorrupt, flipped},
		{"cut short", "the snapshot ends within", snapshot.ErrCorrupt, good[:len(good)-3]},
		{"other cluster", `of cluster "other"`, nil, persist(t, other)},
		{"empty", "the snapshot ends within", snapshot.ErrCorrupt, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFSM(t, nil)
			f.Apply(newAuthor(t).claim())
			before := f.Position()
			err := f.Restore(io.NopCloser(bytes.NewReader(c.data)))
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if f.Position() != before {
				t.Fatal("the state changed")
			}
		})
	}
}

// TestPersistBesideApply: a snapshot is the state at the moment it was taken, however late it is written.
func TestPersistBesideApply(t *testing.T) {
	a := newAuthor(t)
	f := newFSM(t, nil)
	f.Apply(a.claim())
	f.Apply(a.entry(topicRecord(1, "a")))
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	want, state := dump(t, f.Image()), f.State()
	f.Apply(a.entry(topicRecord(2, "b")))
	sink := &memorySink{failAfter: -1}
	if err := s.Persist(sink); err != nil {
		t.Fatal(err)
	}
	h, im, err := snapshot.Read(&sink.Buffer)
	if err != nil || dump(t, im) != want || StateOf(h) != state {
		t.Fatalf("%v: %+v\n%v\nwant %+v\n%s", err, StateOf(h), im, state, want)
	}
}

// TestFailedPersistIsCancelled: a snapshot that cannot be written whole is none.
func TestFailedPersistIsCancelled(t *testing.T) {
	f := newFSM(t, nil)
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sink := &memorySink{failAfter: 10}
	if err := s.Persist(sink); err == nil || !sink.cancelled || sink.closed {
		t.Fatalf("error %v, cancelled %v, closed %v", err, sink.cancelled, sink.closed)
	}
}
