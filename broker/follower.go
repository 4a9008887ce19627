package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Bounds of following.
const (
	// streamSilenceMax is the time without a frame after which a stream is given up. An idle stream carries its
	// position every 100 ms.
	streamSilenceMax = time.Second
	// streamBehindMax is the time for which a stream may stay behind a committed offset that the broker has heard of.
	streamBehindMax = time.Second
	// streamUseful is the life after which a stream counts as having been of use.
	streamUseful = 2 * time.Second
	// Pause after all controllers have failed one after another: doubles with each round.
	followBackoffMin = 100 * time.Millisecond
	followBackoffMax = time.Second
)

// metadataStream is one stream from one controller.
type metadataStream interface {
	// Recv waits for the next frame.
	Recv() (*controllerpb.FollowFrame, error)
	// Close ends the stream and its connection; a waiting Recv returns.
	Close()
}

// openStream begins a stream; it must not wait longer than its context allows.
type openStream func(ctx context.Context, address string, req *controllerpb.FollowRequest) (metadataStream, error)

// follower keeps the newest image: one goroutine, in run, follows one stream at a time.
type follower struct {
	clusterID string
	id        image.BrokerID
	addresses []string
	open      openStream
	// taken is called on the follower's goroutine after each new image. It must not wait.
	taken func(*image.Image)
	// caughtUp is called once, when the image has reached both the position that the first stream began with and
	// the highest one this broker ever applied. It must not wait.
	caughtUp func()
	metrics  *metrics
	log      *slog.Logger
	now      func() time.Time

	im       atomic.Pointer[image.Image]
	diverged atomic.Pointer[string] // why; nil while nothing contradicts the image
	broken   atomic.Pointer[string]
	serving  atomic.Pointer[string] // address of the controller followed; "" for none

	heard heard
	cands *candidates
	// least is what the image must reach before it is acted on: the kept position at first, then also the one that the
	// first stream began with. Metadata of an older lineage is never followed.
	least image.Position
	begun bool
	// foreign holds the controllers that refused the cluster id, until a stream has begun.
	foreign map[string]bool
	isUp    bool
	lastLog time.Time // of a stream's end: one line a second
}

func newFollower(cfg *Config, open openStream, m *metrics, now func() time.Time, log *slog.Logger) *follower {
	fo := &follower{
		clusterID: cfg.ClusterID, id: cfg.ID, addresses: cfg.Controllers, open: open,
		taken: func(*image.Image) {}, caughtUp: func() {},
		metrics: m, log: log, now: now,
		heard: heard{changed: make(chan struct{}, 1), committed: image.NoPosition},
		cands: newCandidates(cfg.ID), least: image.NoPosition,
	}
	fo.im.Store(image.Empty())
	none := ""
	fo.serving.Store(&none)
	return fo
}

// image is the newest image. Any goroutine may call it.
func (fo *follower) image() *image.Image { return fo.im.Load() }

// alarm says what is wrong with the metadata, "" for nothing. Any goroutine may call it.
func (fo *follower) alarm() string {
	for _, p := range []*atomic.Pointer[string]{&fo.diverged, &fo.broken} {
		if s := p.Load(); s != nil {
			return *s
		}
	}
	return ""
}

// heard is what others told of the quorum: committed position, its chain aside, and active controller.
type heard struct {
	mu        sync.Mutex
	committed image.Position
	active    *controllerpb.ActiveController
	changed   chan struct{}
}

// note takes over what a heartbeat answer or a position frame told. What an older lineage tells does not count, and a newer one
// makes void what was heard before. Any goroutine may call it.
func (h *heard) note(lineage image.LineageNumber, committed image.MetadataOffset, active *controllerpb.ActiveController) {
	h.mu.Lock()
	if lineage < h.committed.Lineage {
		h.mu.Unlock()
		return
	}
	if lineage > h.committed.Lineage {
		h.committed, h.active = image.Position{Lineage: lineage, Offset: image.NoOffset}, nil
	}
	h.committed.Offset = max(h.committed.Offset, committed)
	if active != nil && active.Address != "" && (h.active == nil || active.ControllerEpoch >= h.active.ControllerEpoch) {
		h.active = active
	}
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

func (h *heard) position() image.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.committed
}

func (h *heard) activeController() *controllerpb.ActiveController {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

func (h *heard) activeAddress() string {
	if a := h.activeController(); a != nil {
		return a.Address
	}
	return ""
}

// run follows until ctx ends, until an entry is met that this version cannot read, or until it is sure at its start that
// the controllers are those of another cluster.
func (fo *follower) run(ctx context.Context) error {
	backoff := followBackoffMin
	for ctx.Err() == nil {
		address, again := fo.cands.next(controllerAddresses(fo.addresses, fo.image()), fo.heard.activeAddress())
		if again {
			if !sleep(ctx, backoff) {
				return nil
			}
			backoff = min(2*backoff, followBackoffMax)
		}
		began := fo.now()
		err := fo.follow(ctx, address)
		useful := fo.now().Sub(began) >= streamUseful
		none := ""
		fo.serving.Store(&none)
		if ctx.Err() != nil {
			return nil
		}
		if err = fo.judgeCluster(address, err); isFatal(err) {
			return err
		}
		fo.cands.failed(useful)
		if useful {
			backoff = followBackoffMin
		}
		fo.note(address, err)
	}
	return nil
}

// judgeCluster makes [ErrForeignCluster] of a refusal when each controller that the broker was told of has refused its
// cluster id and none ever began a stream. One that answers for another cluster beside others is only a stale address.
func (fo *follower) judgeCluster(address string, err error) error {
	refusal, ok := client.AsRefusal(err)
	if fo.begun || !ok || refusal.Code != controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID {
		return err
	}
	if fo.foreign == nil {
		fo.foreign = make(map[string]bool)
	}
	fo.foreign[address] = true
	for _, a := range fo.addresses {
		if !fo.foreign[a] {
			return err
		}
	}
	return fmt.Errorf("%w: %s answers %q; correct log.dirs or controller.quorum.bootstrap.servers", ErrForeignCluster, address, refusal.Message)
}

// note tells of a stream's end.
func (fo *follower) note(address string, err error) {
	fo.metrics.streamEnds.WithLabelValues(streamEndReason(err)).Inc()
	at := fo.image()
	if now := fo.now(); fo.lastLog.IsZero() || now.Sub(fo.lastLog) >= failureLogInterval {
		fo.lastLog = now
		fo.log.Warn("metadata stream ended; going on at another controller",
			"controller", address, "metadataOffset", at.Offset(), "error", err)
	}
	switch {
	case errors.Is(err, ErrDiverged):
		text := err.Error()
		fo.diverged.Store(&text)
		fo.metrics.diverged.Inc()
		fo.log.Error("metadata diverged", "controller", address, "metadataOffset", at.Offset(), "chain", at.Chain().String(), "error", err)
	case errors.Is(err, ErrLogBroken):
		text := err.Error()
		fo.broken.Store(&text)
	}
}

func streamEndReason(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{
		{ErrStreamSilent, "silent"}, {ErrStreamBehind, "behind"}, {ErrStreamGap, "gap"},
		{ErrDiverged, "diverged"}, {ErrOldLineage, "old_lineage"}, {ErrSnapshotOld, "old_snapshot"}, {ErrLogBroken, "broken"},
	} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "lost"
}

// sleep waits and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
