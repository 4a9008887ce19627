package broker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
)

func lineageRecord(number int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Lineage{Lineage: &metadatapb.Lineage{Number: number, DirectoryId: image.UUID{1}.Bytes(), TimeMs: 1}}}
}

func confirmRecord(number int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_LineageConfirmed{LineageConfirmed: &metadatapb.LineageConfirmed{Number: number, TimeMs: 2}}}
}

// inLineage is a controller of a lineage at an offset, which sends its snapshot and idles.
func inLineage(t *testing.T, number int32, offset image.MetadataOffset, chain image.Chain) func(*fakeStream, *controllerpb.FollowRequest) {
	t.Helper()
	d := image.Load()
	if number > 0 {
		if err := d.Replay(offset, lineageRecord(number)); err != nil {
			t.Fatal(err)
		}
	}
	im := d.Seal(offset, chain)
	var b strings.Builder
	if err := snapshot.Write(&b, &metadatapb.SnapshotHeader{}, im); err != nil {
		t.Fatal(err)
	}
	position := func() *controllerpb.FollowFrame {
		return &controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Position{Position: &controllerpb.StreamPosition{
			MetadataOffset: int64(offset), Chain: uint64(chain), Lineage: number,
		}}}
	}
	return func(s *fakeStream, r *controllerpb.FollowRequest) {
		s.send(position())
		if r.MetadataOffset != int64(offset) || r.Lineage != number {
			s.send(&controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Snapshot{Snapshot: &controllerpb.SnapshotPart{Data: []byte(b.String()), Last: true}}})
		}
		s.idle(position)
	}
}

// A lower offset is taken with a newer lineage only, whatever its chain is; an older lineage is refused, whatever its offset is.
func TestFollowerTakesALowerOffsetOnlyWithANewerLineage(t *testing.T) {
	for _, c := range []struct {
		name        string
		kept, first image.Position // kept on disk; where the first controller is
		second      image.Position // the next controller
		want        image.Position
		alarm       bool
	}{
		{"a newer lineage and a lower offset", image.NoPosition, image.Position{Offset: 900, Chain: 1}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, false},
		{"a newer lineage and the same offset", image.NoPosition, image.Position{Offset: 50, Chain: 1}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, false},
		{"an older lineage and a higher offset", image.NoPosition, image.Position{Lineage: 1, Offset: 50, Chain: 2}, image.Position{Offset: 900, Chain: 1}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, false},
		{"the same lineage and a lower offset", image.NoPosition, image.Position{Lineage: 1, Offset: 900, Chain: 2}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, image.Position{Lineage: 1, Offset: 900, Chain: 2}, false},
		{"the same lineage, the same offset, another chain", image.NoPosition, image.Position{Lineage: 1, Offset: 50, Chain: 2}, image.Position{Lineage: 1, Offset: 50, Chain: 3}, image.Position{Lineage: 1, Offset: 50, Chain: 2}, true},
		{"older than what was kept on disk", image.Position{Lineage: 1, Offset: 50}, image.Position{Offset: 900, Chain: 1}, image.Position{Lineage: 1, Offset: 60, Chain: 2}, image.Position{Lineage: 1, Offset: 60, Chain: 2}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				second := make(chan struct{})
				first := inLineage(t, int32(c.first.Lineage), c.first.Offset, c.first.Chain)
				fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){
					"c1": func(s *fakeStream, r *controllerpb.FollowRequest) {
						ctx, cancel := context.WithTimeout(s.ctx, time.Second)
						defer cancel()
						first(&fakeStream{ctx: ctx, frames: s.frames}, r)
						close(s.frames)
					},
					"c2": func(s *fakeStream, r *controllerpb.FollowRequest) {
						inLineage(t, int32(c.second.Lineage), c.second.Offset, c.second.Chain)(s, r)
						<-second
					},
				}}
				fo, stop := followFixture(t, fc, func(fo *follower) { fo.least = c.kept })
				time.Sleep(1050 * time.Millisecond)
				if got := fo.alarm() != ""; got != c.alarm {
					t.Errorf("alarm %q", fo.alarm())
				}
				time.Sleep(850 * time.Millisecond)
				if got := fo.image().Position(); got != c.want {
					t.Errorf("at %v, want %v", got, c.want)
				}
				close(second)
				stop()
			})
		})
	}
}

// What an older lineage tells of the quorum does not count any more.
func TestHeardOfANewerLineageGoesBefore(t *testing.T) {
	h := heard{changed: make(chan struct{}, 1), committed: image.NoPosition}
	h.note(0, 900, &controllerpb.ActiveController{Address: "old", ControllerEpoch: 50})
	h.note(1, 60, &controllerpb.ActiveController{Address: "new", ControllerEpoch: 3})
	h.note(0, 950, &controllerpb.ActiveController{Address: "old", ControllerEpoch: 51})
	if p := h.position(); p.Lineage != 1 || p.Offset != 60 || h.activeAddress() != "new" {
		t.Errorf("%v, active %q", p, h.activeAddress())
	}
}

// The lineage is kept with the offset, a file of before lineages is of the first, and a lower offset is kept with a newer lineage.
func TestKeptOffsetKnowsItsLineage(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, keptOffsetFile)
	if err := os.WriteFile(name, []byte("0\n812 00000000000000ff\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	load := func() image.Position {
		t.Helper()
		p, err := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler)).load()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if got, want := load(), (image.Position{Offset: 812, Chain: 0xff}); got != want {
		t.Errorf("version 0: %v, want %v", got, want)
	}
	ko := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler))
	if _, err := ko.load(); err != nil {
		t.Fatal(err)
	}
	d := image.Load()
	if err := d.Replay(40, lineageRecord(2)); err != nil {
		t.Fatal(err)
	}
	if err := ko.keep(d.Seal(40, 7)); err != nil {
		t.Fatal(err)
	}
	if got, want := load(), (image.Position{Lineage: 2, Offset: 40, Chain: 7}); got != want {
		t.Errorf("lower offset of a newer lineage: %v, want %v", got, want)
	}
}

// In a lineage that nobody has confirmed nothing is deleted: no topic, nothing that the metadata does not know, no segment by
// retention. When it is confirmed, all of it goes the usual way.
func TestNothingIsDeletedInAnUnconfirmedLineage(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t)
	h := newHosting(t, dir)
	h.start(t, w.put(brokerRecord(1, 5), topicRecord("gone", 1), partitionRecord(1, 0, 1, 1), topicRecord("unknown", 2), partitionRecord(2, 0, 1, 1),
		topicRecord("kept", 3), partitionRecord(3, 0, 1, 1)))
	appendOne(t, h.partition(t, 1, 0), 1)
	appendOne(t, h.partition(t, 2, 0), 1)

	// The recovered metadata has never heard of one topic, and the other is deleted in it.
	past := newWorld(t)
	past.put(brokerRecord(1, 5), topicRecord("gone", 1), partitionRecord(1, 0, 1, 1), topicRecord("kept", 3), partitionRecord(3, 0, 1, 1), lineageRecord(1))
	h.apply(past.im)
	h.apply(past.put(removeRecord(1)))
	if _, err := h.compare(past.im); err != nil {
		t.Fatal(err)
	}
	if removed := h.logs.RemoveRenamed(t.Context()); len(removed) > 0 {
		t.Errorf("removed %v", removed)
	}
	for _, want := range []string{"gone-0", "unknown-0", "kept-0"} {
		if !slices.Contains(dirsOf(t, dir), want) {
			t.Errorf("%s is not there: %v", want, dirsOf(t, dir))
		}
	}
	// A new topic may take the name: the held data moves aside.
	h.apply(past.put(topicRecord("unknown", 9), partitionRecord(9, 0, 1, 1)))
	appendOne(t, h.partition(t, 9, 0), 1)
	if !slices.Contains(dirsOf(t, dir), "unknown-0-stray") {
		t.Errorf("held data is not set aside: %v", dirsOf(t, dir))
	}
	if len(h.failures) > 0 {
		t.Errorf("failures %v", h.failures)
	}

	h.apply(past.put(confirmRecord(1)))
	h.logs.RemoveRenamed(t.Context())
	if got := dirsOf(t, dir); slices.ContainsFunc(got, func(d string) bool { return strings.HasPrefix(d, "gone") }) || !slices.Contains(got, "kept-0") {
		t.Errorf("after the confirmation: %v", got)
	}
}

// Data that is held back is not told to be gone: neither to the controller, which would forget the deletion, so that the data
// became a stray, nor to who waits for it.
func TestHeldBackDataIsNotReportedAsDeleted(t *testing.T) {
	dir := t.TempDir()
	h, w := newHosting(t, dir), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 5), topicRecord("gone", 1), partitionRecord(1, 0, 1, 1)))
	appendOne(t, h.partition(t, 1, 0), 1)
	if err := h.logs.Shutdown(5); err != nil {
		t.Fatal(err)
	}

	past := newWorld(t)
	past.put(brokerRecord(1, 5), topicRecord("gone", 1), partitionRecord(1, 0, 1, 1), lineageRecord(1))
	h = newHosting(t, dir)
	h.start(t, past.put(removeRecord(1)))
	reported := func() (n int) {
		h.report(t.Context(), h.applied.image(), func(_ context.Context, r *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error) {
			n += len(r.GetDeleted())
			return &controllerpb.ReportDeletionsResponse{}, nil
		})
		return n
	}
	holds := func() bool {
		_, changed := h.applied.watch()
		return h.holdsAny([]image.TopicID{topicID(1)}, changed)
	}
	if n := reported(); n > 0 || !holds() {
		t.Errorf("held back: %d reported, holds %v", n, holds())
	}

	h.apply(past.put(confirmRecord(1)))
	for _, r := range h.logs.RemoveRenamed(t.Context()) {
		h.removed(r)
	}
	if n := reported(); n != 1 || holds() || len(dirsOf(t, dir)) > 0 {
		t.Errorf("confirmed: %d reported, holds %v, %v", n, holds(), dirsOf(t, dir))
	}
}

// A broker that runs through an offline recovery makes nothing by the metadata that came back: it ends, and says why.
func TestRunningBrokerEndsInANewLineage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, q, b := startCluster(t, dir)
		q.put(lineageRecord(1), topicRecord("back", 1), partitionRecord(1, 0, 1, 1))
		if err := <-b.ended; !errors.Is(err, ErrNewLineage) || !strings.Contains(err.Error(), "start it again") {
			t.Errorf("ended: %v", err)
		}
		b.stop()
		if got := dirsOf(t, dir); slices.Contains(got, "back-0") {
			t.Errorf("a log was made: %v", got)
		}
	})
	if kept, err := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler)).load(); err != nil || kept.Lineage != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// A registration that a recovery has lost is made again in the same life, as long as that has not acted on metadata.
func TestForgottenRegistrationIsMadeAgain(t *testing.T) {
	lc := newLifecycle(2 * time.Second)
	lc.onJudgeable()
	lc.onRegistered(7, 7)
	lc.onFailed()
	if e := lc.onForgotten(); e.send != callRegister || lc.state != StateStarting {
		t.Errorf("%v, %v", e, lc)
	}
	if e := lc.onRegistered(1_000_020, 1_000_020); e.send != callHeartbeat || lc.state != StateStarting {
		t.Errorf("%v, %v", e, lc)
	}
	lc.onHeartbeat(heartbeatAnswer{caughtUp: true, fenced: true})
	if e := lc.onForgotten(); e.send != callNone || lc.epoch != 1_000_020 {
		t.Errorf("after its first image: %v, %v", e, lc)
	}
	lc.onStopNow()
	if e := lc.onForgotten(); e.send != callNone {
		t.Errorf("at the end: %v", e)
	}
}
