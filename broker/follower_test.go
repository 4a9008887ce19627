package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// metadataLog is entries as a controller would send them.
type metadataLog struct {
	entries []*controllerpb.EntryFrame
	offset  int64
	chain   record.Chain
}

func newMetadataLog() *metadataLog { return &metadataLog{offset: -1} }

// append adds one entry.
func (ml *metadataLog) append(t testing.TB, records ...*metadatapb.Record) *controllerpb.EntryFrame {
	t.Helper()
	data, err := record.EncodeDecision(&metadatapb.Decision{Cause: &metadatapb.Cause{Name: "Test"}, Records: records})
	if err != nil {
		t.Fatal(err)
	}
	base := record.MetadataOffset(ml.offset + 1)
	command, chain := record.EncodeEntry(record.EntryHeader{ClaimIndex: 1, Term: 1, Sequence: 1, BaseOffset: base, Chain: ml.chain}, [][]byte{data})
	decoded, err := record.DecodeCommand(command)
	if err != nil {
		t.Fatal(err)
	}
	ml.offset, ml.chain = int64(decoded.Entry.LastOffset()), chain
	f := &controllerpb.EntryFrame{Entry: decoded.Entry.Bytes, BaseOffset: int64(base), Records: int32(len(records)), Chain: uint64(chain)}
	ml.entries = append(ml.entries, f)
	return f
}

// topics adds n entries with a topic of one partition each.
func (ml *metadataLog) topics(t testing.TB, n int) *metadataLog {
	for range n {
		id := image.UUID{15: byte(len(ml.entries) + 1)}
		leader := int32(1)
		ml.append(t,
			&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: fmt.Sprintf("t%d", len(ml.entries)), TopicId: id.Bytes()}}},
			&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
				TopicId: id.Bytes(), Replicas: []int32{1}, Isr: []int32{1}, Leader: &leader,
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
			}}})
	}
	return ml
}

func (ml *metadataLog) position() *controllerpb.FollowFrame {
	return positionFrame(ml.offset, uint64(ml.chain), nil)
}

func positionFrame(offset int64, chain uint64, active *controllerpb.ActiveController) *controllerpb.FollowFrame {
	return &controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Position{Position: &controllerpb.StreamPosition{
		MetadataOffset: offset, Chain: chain, ActiveController: active,
	}}}
}

func entryFrame(f *controllerpb.EntryFrame) *controllerpb.FollowFrame {
	return &controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Entry{Entry: f}}
}

// fakeStream is a stream that a script feeds.
type fakeStream struct {
	ctx    context.Context
	frames chan *controllerpb.FollowFrame
}

func (s *fakeStream) Recv() (*controllerpb.FollowFrame, error) {
	select {
	case f, ok := <-s.frames:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		return f, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) Close() {}

// send hands a frame over, unless the stream has been given up.
func (s *fakeStream) send(frames ...*controllerpb.FollowFrame) bool {
	for _, f := range frames {
		select {
		case s.frames <- f:
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

// idle sends the position as an idle controller does, until the stream is given up.
func (s *fakeStream) idle(position func() *controllerpb.FollowFrame) {
	for s.send(position()) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
}

// fakeControllers has a script an address.
type fakeControllers struct {
	mu      sync.Mutex
	opened  []string
	scripts map[string]func(*fakeStream, *controllerpb.FollowRequest)
	began   time.Time
	wg      sync.WaitGroup
}

func (fc *fakeControllers) open(ctx context.Context, address string, r *controllerpb.FollowRequest) (metadataStream, error) {
	fc.mu.Lock()
	fc.opened = append(fc.opened, fmt.Sprintf("%v %s after %d", time.Since(fc.began).Round(time.Millisecond), address, r.MetadataOffset))
	script := fc.scripts[address]
	fc.mu.Unlock()
	if script == nil {
		return nil, errors.New("connection refused")
	}
	s := &fakeStream{ctx: ctx, frames: make(chan *controllerpb.FollowFrame)}
	fc.wg.Go(func() { script(s, r) })
	return s, nil
}

// followFixture runs a follower of broker 0 over c1, c2, c3 until the test ends.
func followFixture(t *testing.T, fc *fakeControllers, with ...func(*follower)) (fo *follower, stop func() error) {
	t.Helper()
	fc.began = time.Now()
	cfg := DefaultConfig()
	cfg.ID, cfg.Controllers = 0, []string{"c1", "c2", "c3"}
	fo = newFollower(&cfg, fc.open, newMetrics(), time.Now, slog.New(slog.DiscardHandler))
	for _, w := range with {
		w(fo)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fo.run(ctx) }()
	return fo, func() error {
		cancel()
		err := <-done
		fc.wg.Wait()
		return err
	}
}

// serve sends what the follower lacks of the log, then idles.
func serve(ml *metadataLog) func(*fakeStream, *controllerpb.FollowRequest) {
	return func(s *fakeStream, r *controllerpb.FollowRequest) {
		s.send(ml.position())
		for _, e := range ml.entries {
			if e.BaseOffset > r.MetadataOffset {
				s.send(entryFrame(e))
			}
		}
		s.idle(ml.position)
	}
}

func TestFollowerReplaysEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ml := newMetadataLog().topics(t, 3)
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){"c1": serve(ml)}}
		var up atomic.Bool
		fo, stop := followFixture(t, fc, func(fo *follower) { fo.caughtUp = func() { up.Store(true) } })
		time.Sleep(10 * time.Second)
		if im := fo.image(); im.Offset() != 5 || uint64(im.Chain()) != uint64(ml.chain) || im.TopicCount() != 3 {
			t.Errorf("image at %d, chain %v, %d topics", im.Offset(), im.Chain(), im.TopicCount())
		}
		if !up.Load() {
			t.Error("did not tell that the first position was reached")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"0s c1 after -1"}, fc.opened); d != "" {
			t.Errorf("streams (-want +got):\n%s", d)
		}
	})
}

// A stream that brings nothing for a second is given up, also one that never begins; the active controller comes next.
func TestFollowerLeavesASilentController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ml := newMetadataLog().topics(t, 3)
		silent := func(s *fakeStream, _ *controllerpb.FollowRequest) {
			s.send(positionFrame(5, 0, &controllerpb.ActiveController{Address: "c3", ControllerEpoch: 2}), entryFrame(ml.entries[0]))
		}
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){"c1": silent, "c2": silent, "c3": serve(ml)}}
		fo, stop := followFixture(t, fc)
		time.Sleep(3 * time.Second)
		if fo.image().Offset() != 5 || *fo.serving.Load() != "c3" {
			t.Errorf("at %d, following %q", fo.image().Offset(), *fo.serving.Load())
		}
		stop()
		if d := cmp.Diff([]string{"0s c1 after -1", "1s c3 after 1"}, fc.opened); d != "" {
			t.Errorf("streams (-want +got):\n%s", d)
		}
	})
}

// A stream that goes on idling behind an offset that a heartbeat told to be committed is given up after a second.
func TestFollowerLeavesAControllerThatStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := newMetadataLog().topics(t, 3)
		behind := &metadataLog{entries: whole.entries[:1], offset: 1, chain: record.Chain(whole.entries[0].Chain)}
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){"c1": serve(behind), "c2": serve(whole)}}
		fo, stop := followFixture(t, fc)
		time.Sleep(5 * time.Second)
		fo.heard.note(0, 5, &controllerpb.ActiveController{Address: "c2", ControllerEpoch: 2})
		time.Sleep(500 * time.Millisecond)
		fo.heard.note(0, 5, nil) // a later answer does not begin the second anew
		time.Sleep(2 * time.Second)
		if fo.image().Offset() != 5 || *fo.serving.Load() != "c2" {
			t.Errorf("at %d, following %q", fo.image().Offset(), *fo.serving.Load())
		}
		stop()
		if d := cmp.Diff([]string{"0s c1 after -1", "6s c2 after 1"}, fc.opened); d != "" {
			t.Errorf("streams (-want +got):\n%s", d)
		}
	})
}

// Equal offset and unequal chain is an alarm; the image stays, and another controller that agrees ends it.
func TestFollowerRaisesTheAlarmOnAnotherChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ml := newMetadataLog().topics(t, 2)
		agree := make(chan struct{})
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){
			"c1": func(s *fakeStream, _ *controllerpb.FollowRequest) {
				s.send(ml.position(), entryFrame(ml.entries[0]), positionFrame(1, 4711, nil))
			},
			"c2": func(s *fakeStream, r *controllerpb.FollowRequest) {
				select {
				case <-agree:
					serve(ml)(s, r)
				case <-s.ctx.Done():
				}
			},
		}}
		fo, stop := followFixture(t, fc)
		time.Sleep(100 * time.Millisecond)
		if !strings.Contains(fo.alarm(), "equal offset and unequal chain") || !strings.Contains(fo.alarm(), "c1") {
			t.Errorf("alarm: %q", fo.alarm())
		}
		if fo.image().Offset() != 1 {
			t.Errorf("image moved to %d", fo.image().Offset())
		}
		close(agree)
		time.Sleep(time.Second)
		if fo.alarm() != "" || fo.image().Offset() != 3 {
			t.Errorf("at %d with alarm %q", fo.image().Offset(), fo.alarm())
		}
		stop()
	})
}

// What does not follow the image is not applied: a gap, an entry on another chain, one whose frame lies, one that cannot be
// replayed. Each ends the stream.
func TestFollowerTakesNothingThatDoesNotFollow(t *testing.T) {
	ml := newMetadataLog().topics(t, 3)
	other := newMetadataLog()
	other.append(t, &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "x", TopicId: image.UUID{9}.Bytes()}}},
		&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "y", TopicId: image.UUID{8}.Bytes()}}})
	onOther := other.append(t, &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "z", TopicId: image.UUID{7}.Bytes()}}})
	lies := &controllerpb.EntryFrame{Entry: ml.entries[1].Entry, Chain: 1}
	wrong := newMetadataLog().topics(t, 1)
	unreplayable := wrong.append(t, &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: image.UUID{66}.Bytes()}}})
	for _, tc := range []struct {
		name  string
		frame *controllerpb.EntryFrame
		want  error
	}{
		{"gap", ml.entries[2], ErrStreamGap},
		{"repetition", ml.entries[0], ErrStreamGap},
		{"other chain", onOther, ErrDiverged},
		{"frame lies", lies, ErrLogBroken},
		{"no message", &controllerpb.EntryFrame{Entry: []byte{0xff}}, ErrLogBroken},
		{"cannot be replayed", unreplayable, ErrLogBroken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, err := replayEntry(image.Empty(), ml.entries[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := replayEntry(at, tc.frame); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// Before the highest offset that the broker ever applied is reached again, the metadata is not acted on.
func TestFollowerIsNotUpBelowTheKeptOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ml := newMetadataLog().topics(t, 3)
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){
			"c1": func(s *fakeStream, _ *controllerpb.FollowRequest) {
				s.send(ml.position(), entryFrame(ml.entries[0]), entryFrame(ml.entries[1]), entryFrame(ml.entries[2]))
				time.Sleep(500 * time.Millisecond)
				s.send(entryFrame(ml.append(t, &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: image.FeatureMetadataVersion, Level: 1}}})))
				s.idle(ml.position)
			},
		}}
		up := make(chan time.Duration, 1)
		fo, stop := followFixture(t, fc, func(fo *follower) {
			fo.least.Offset = 6
			fo.caughtUp = func() { up <- time.Since(fc.began) }
		})
		if at := <-up; at != 500*time.Millisecond || fo.image().Offset() != 6 {
			t.Errorf("up after %v at offset %d", at, fo.image().Offset())
		}
		stop()
	})
}

// A log of a newer build ends the follower: skipping a fact would let this broker drift apart.
func TestFollowerStopsAtAnUnknownRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := []byte{0x3a, 0x05, 0x1a, 0x03, 0xfa, 0x07, 0x00} // a decision with a record of no known field
		unknown := &controllerpb.EntryFrame{Entry: entry, Chain: uint64(record.ChainAfter(entry))}
		fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){
			"c1": func(s *fakeStream, _ *controllerpb.FollowRequest) {
				s.send(positionFrame(0, 1, nil), entryFrame(unknown))
			},
		}}
		_, stop := followFixture(t, fc)
		time.Sleep(time.Minute)
		if err := stop(); !errors.Is(err, record.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	})
}

// snapshotFrames are the parts of a snapshot of the image that the log leads to.
func snapshotFrames(t testing.TB, ml *metadataLog, cluster string, partBytes int) []*controllerpb.FollowFrame {
	t.Helper()
	im := image.Empty()
	for _, e := range ml.entries {
		next, err := replayEntry(im, e)
		if err != nil {
			t.Fatal(err)
		}
		im = next
	}
	var b bytes.Buffer
	if err := snapshot.Write(&b, &metadatapb.SnapshotHeader{ClusterId: cluster}, im); err != nil {
		t.Fatal(err)
	}
	var frames []*controllerpb.FollowFrame
	for data := b.Bytes(); ; {
		n := min(partBytes, len(data))
		part := &controllerpb.SnapshotPart{Data: bytes.Clone(data[:n]), Last: n == len(data)}
		frames = append(frames, &controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Snapshot{Snapshot: part}})
		if data = data[n:]; part.Last {
			return frames
		}
	}
}

// A snapshot replaces the image when its last part was read and checked, and entries go on from there. One that is torn,
// of another cluster, older, or silent in the middle is not taken.
func TestFollowerTakesSnapshotsWholeOrNotAtAll(t *testing.T) {
	cfg := DefaultConfig() // the fixture's cluster has no name
	whole := newMetadataLog().topics(t, 5)
	older := newMetadataLog().topics(t, 1)
	torn := snapshotFrames(t, whole, cfg.ClusterID, 40)
	torn[2].GetSnapshot().Data[3] ^= 1
	for _, tc := range []struct {
		name   string
		frames []*controllerpb.FollowFrame
		want   image.MetadataOffset
	}{
		{"whole", snapshotFrames(t, whole, cfg.ClusterID, 40), 9},
		{"in one part", snapshotFrames(t, whole, cfg.ClusterID, 1<<20), 9},
		{"flipped bit", torn, 3},
		{"ends early", snapshotFrames(t, whole, cfg.ClusterID, 40)[:4], 3},
		{"another cluster", snapshotFrames(t, whole, "other", 40), 3},
		{"older", snapshotFrames(t, older, cfg.ClusterID, 40), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){
					"c1": func(s *fakeStream, r *controllerpb.FollowRequest) {
						if r.MetadataOffset >= 0 {
							return // only once
						}
						s.send(whole.position(), entryFrame(whole.entries[0]), entryFrame(whole.entries[1]))
						s.send(tc.frames...)
						s.idle(whole.position)
					},
				}}
				fo, stop := followFixture(t, fc)
				time.Sleep(1500 * time.Millisecond)
				if got := fo.image().Offset(); got != tc.want {
					t.Errorf("image at %d, want %d", got, tc.want)
				}
				stop()
			})
		})
	}
}
