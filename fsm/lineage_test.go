package fsm

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func controllerRecord(id int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterController{RegisterController: &metadatapb.RegisterController{
		ControllerId: id, IncarnationId: topicID(50), DirectoryId: topicID(int(id))}}}
}

func start() LineageStart {
	return LineageStart{Controller: 3, Directory: image.UUID(topicID(3)), TimeMs: 9000, Index: 77,
		LeftBehind: []image.RemovedController{{ID: 1, DirectoryID: image.UUID(topicID(1))}}}
}

// recovered is a lineage begun from a small log.
func recovered(t *testing.T) (before, after Position) {
	t.Helper()
	a := newAuthor(t)
	f := newFSM(t, nil)
	a.claim()
	a.entry(controllerRecord(1), controllerRecord(3), topicRecord(1, "a"), partitionRecord(1, 0, 1, 2), shrinkRecord(1, 0, 1))
	applyAll(f, a.logs, 1)
	before = f.Position()
	after, err := BeginLineage(before, start())
	if err != nil {
		t.Fatal(err)
	}
	return before, after
}

// TestLineageRaisesWhatMayHaveBeenGiven: offset, epochs and producer ids go beyond what lost records could have given, the
// content stays, and the lineage says where it came from.
func TestLineageRaisesWhatMayHaveBeenGiven(t *testing.T) {
	before, after := recovered(t)
	l := after.Image.Lineage()
	want := image.Lineage{Number: 1, Controller: 3, DirectoryID: image.UUID(topicID(3)), TimeMs: 9000,
		RecoveredOffset: before.State.Offset, RecoveredChain: before.State.Chain}
	if l != want || !l.IsUnconfirmed() {
		t.Errorf("lineage %+v, want %+v", l, want)
	}
	if got := after.State.Offset; got != before.State.Offset+RecordsSkipped+3 || after.Image.Offset() != got {
		t.Errorf("offset %d after %d", got, before.State.Offset)
	}
	p, _ := after.Image.Partition(image.PartitionID{Topic: image.UUID(topicID(1))})
	old, _ := before.Image.Partition(image.PartitionID{Topic: image.UUID(topicID(1))})
	if p.LeaderEpoch != old.LeaderEpoch+RecordsSkipped || p.PartitionEpoch != old.PartitionEpoch+RecordsSkipped || p.Leader != old.Leader {
		t.Errorf("partition %v after %v", p, old)
	}
	if got := after.Image.NextProducerID(); got != RecordsSkipped*1000 {
		t.Errorf("next producer id %d", got)
	}
	if _, ok := after.Image.Controller(1); ok {
		t.Error("a controller that is left behind is still known")
	}
	if !after.Image.IsRemovedController(1, image.UUID(topicID(1))) || after.Image.IsRemovedController(3, image.UUID(topicID(3))) {
		t.Error("a controller that is left behind may come back")
	}
	if _, ok := after.Image.Controller(3); !ok {
		t.Error("the controller that goes on is forgotten")
	}
	if after.State.Chain == before.State.Chain || after.Image.Chain() != after.State.Chain || after.State.Index != 77 || after.State.TimeMs != 9000 {
		t.Errorf("state %+v after %+v", after.State, before.State)
	}
	again, err := BeginLineage(before, start())
	if err != nil || again.State != after.State || again.Image.Fingerprint() != after.Image.Fingerprint() {
		t.Errorf("not the same when done again: %+v %v", again.State, err)
	}
}

// TestVerdictOverTheLineage: what the lost controllers decided cannot follow, what the new one decides does, and a second
// recovery follows the first.
func TestVerdictOverTheLineage(t *testing.T) {
	before, after := recovered(t)
	entry := func(s State) *record.RawEntry {
		h := record.EntryHeader{ClaimIndex: s.ClaimIndex, Term: s.ClaimTerm, Sequence: s.ExpectedSequence, BaseOffset: s.Offset + 1, Chain: s.Chain}
		c, err := record.DecodeCommand(encodeEntry(t, h, topicRecord(2, "b")))
		if err != nil {
			t.Fatal(err)
		}
		return c.Entry
	}
	if v, why := Judge(after.State, before.State.ClaimTerm, entry(before.State)); v != Halt || !strings.Contains(why, "base offset") {
		t.Errorf("a lost entry gets %v (%s)", v, why)
	}
	claimed := after.State.AfterClaim(78, 1000, 9001)
	if v, _ := Judge(claimed, before.State.ClaimTerm, entry(before.State)); v != Fenced {
		t.Errorf("a lost entry after a claim gets %v", v)
	}
	if v, why := Judge(claimed, 1000, entry(claimed)); v != Apply {
		t.Errorf("the first entry gets %v (%s)", v, why)
	}
	second, err := BeginLineage(after, start())
	if err != nil || second.Image.Lineage().Number != 2 || second.State.Offset != after.State.Offset+RecordsSkipped+2 {
		t.Errorf("second recovery: %+v %v", second.Image.Lineage(), err)
	}
}

// TestLineageInASnapshot: what a recovery writes is what a node loads, and an FSM goes on from there.
func TestLineageInASnapshot(t *testing.T) {
	_, after := recovered(t)
	var b bytes.Buffer
	if err := snapshot.Write(&b, after.Header("c"), after.Image); err != nil {
		t.Fatal(err)
	}
	f := newFSM(t, nil)
	if err := f.Restore(io.NopCloser(&b)); err != nil {
		t.Fatal(err)
	}
	if f.State() != after.State || f.Image().Lineage() != after.Image.Lineage() || f.Image().Fingerprint() != after.Image.Fingerprint() {
		t.Fatalf("loaded %+v, written %+v", f.State(), after.State)
	}
	a := &author{t: t, index: 77, term: 1000, state: f.State()}
	applyAll(f, a.logsOf(func() { a.claim(); a.entry(topicRecord(2, "b")) }), 1)
	if f.Image().Offset() != after.State.Offset+1 {
		t.Errorf("offset %d", f.Image().Offset())
	}
}

func (a *author) logsOf(f func()) []*raft.Log { f(); return a.logs }

func TestLineageRefusals(t *testing.T) {
	if _, err := BeginLineage(Position{State: InitialState(), Image: image.Empty()}, start()); err == nil || !strings.Contains(err.Error(), "no metadata") {
		t.Errorf("empty log: %v", err)
	}
	for _, change := range []func(*metadatapb.Partition){
		func(p *metadatapb.Partition) { p.LeaderEpoch = math.MaxInt32 - 5 }, func(p *metadatapb.Partition) { p.PartitionEpoch = math.MaxInt32 - 5 },
	} {
		r := partitionRecord(1, 0, 1)
		change(r.GetPartition())
		d := image.Empty().Fork()
		if err := errors.Join(d.Replay(0, topicRecord(1, "a")), d.Replay(1, r)); err != nil {
			t.Fatal(err)
		}
		p := Position{State: State{Offset: 1}, Image: d.Seal(1, 5)}
		if _, err := BeginLineage(p, start()); err == nil || !strings.Contains(err.Error(), "cannot be raised") {
			t.Errorf("epochs at the end: %v", err)
		}
	}
}

// TestReplayLogTellsWhatIsCertain: a log is replayed to its end, fenced entries left out, and what it proves committed is
// everything before the claim of the newest entry, and before the window of that claim.
func TestReplayLogTellsWhatIsCertain(t *testing.T) {
	a := newAuthor(t)
	f := newFSM(t, nil)
	a.noop()
	a.claim()
	first := a.entry(topicRecord(1, "a"))
	old := a.header()
	a.term = 2
	a.noop()
	claim := a.claim()
	a.append(encodeEntry(t, old, topicRecord(9, "fenced")))
	replay := func(inFlightMax int) (Position, Certain) {
		t.Helper()
		at, certain, err := ReplayLog(a, Position{State: InitialState(), Image: image.Empty()}, a.index, inFlightMax)
		if err != nil {
			t.Fatal(err)
		}
		return at, certain
	}
	if _, certain := replay(2); certain != (Certain{2, image.NoOffset}) {
		t.Errorf("nothing under the second claim: %v", certain)
	}
	_ = first
	a.entry(topicRecord(2, "b"))
	if _, certain := replay(2); certain != (Certain{claim.Index, 0}) {
		t.Errorf("one entry under the second claim: %v", certain)
	}
	third := a.entry(topicRecord(3, "c"))
	a.entry()
	a.entry(topicRecord(4, "d"))
	at, certain := replay(2)
	if certain != (Certain{third.Index, 2}) {
		t.Errorf("a window of two: %v, want raft index %d", certain, third.Index)
	}
	applyAll(f, a.logs, 3)
	if at.Image.Fingerprint() != f.Image().Fingerprint() || at.State.Offset != f.State().Offset || at.State.Chain != f.State().Chain {
		t.Errorf("replayed %+v, applied %+v", at.State, f.State())
	}
}

func TestReplayLogErrors(t *testing.T) {
	a := newAuthor(t)
	a.claim()
	a.entry(topicRecord(1, "a"))
	a.entry(topicRecord(1, "a"))
	from := Position{State: InitialState(), Image: image.Empty()}
	var halt *HaltError
	if _, _, err := ReplayLog(a, from, a.index, 64); !errors.As(err, &halt) || halt.Index != 3 {
		t.Errorf("a record that does not fit: %v", err)
	}
	a.logs[0] = nil
	if _, _, err := ReplayLog(a, from, a.index, 64); !errors.Is(err, ErrCompacted) {
		t.Errorf("a log that begins too late: %v", err)
	}
}
