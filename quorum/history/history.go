package history

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm"
)

// History is the files of one controller. It is made by New and lives while Run does.
type History struct {
	cfg     Config
	metrics Metrics
	store   store
	queue   queue
	readers chan struct{}
	filler  filler

	// Of the writer's goroutine.
	opened  bool
	failing bool
	lost    Reason
}

// New checks the configuration. It does no work.
func New(cfg Config) (*History, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &History{cfg: cfg, readers: make(chan struct{}, readersMax)}
	h.store = store{cfg: &h.cfg, metrics: &h.metrics}
	h.queue = queue{entriesMax: cfg.QueueEntriesMax, bytesMax: cfg.QueueBytesMax, wake: make(chan struct{}, 1)}
	h.filler = filler{h: h, tried: map[Gap]attempt{}, found: make(chan struct{}, 1)}
	return h, nil
}

// Metrics are the history's counters.
func (h *History) Metrics() *Metrics { return &h.metrics }

// Bytes is what the segments take on the disk.
func (h *History) Bytes() int64 { return h.store.bytes() }

// Open reads what is on the disk. An error is told and tried again by Run: the controller goes on without its history.
func (h *History) Open() {
	if err := h.store.open(); err != nil {
		h.fail("not opened", err)
		return
	}
	h.opened = true
}

// Offer hands over applied entries, in order. It moves pointers and never waits.
func (h *History) Offer(entries []*fsm.Entry) {
	if n := h.queue.putEntries(entries); n > 0 {
		h.metrics.Dropped.Add(int64(n))
	}
}

// Missed tells that entries were applied which the caller could not hand over.
func (h *History) Missed() { h.queue.putLost() }

// Restored tells that the state machine stands at a mark that no entry led to. recovered is where the log ended from which
// the newest recovery went on; a mark that no log has if there was none.
func (h *History) Restored(m, recovered Mark) { h.queue.putRestored(restored{m, recovered}) }

// Run writes, removes and fills until the context ends.
func (h *History) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { h.filler.run(ctx) })
	h.write(ctx)
	parts.Wait()
	h.store.close()
}

// write is the writer.
func (h *History) write(ctx context.Context) {
	retention := time.NewTicker(h.cfg.RetentionInterval)
	defer retention.Stop()
	retry := time.NewTicker(h.cfg.RetryInterval)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			h.drain()
			return
		case <-h.queue.wake:
			h.drain()
		case <-retention.C:
			if err := h.retain(); err != nil {
				h.fail("nothing removed", err)
			}
		case <-retry.C:
			if h.failing {
				h.retry()
			}
		}
	}
}

func (h *History) retain() error {
	if h.failing {
		return nil
	}
	return h.store.retain(h.cfg.Env.Now())
}

// drain writes what waits.
func (h *History) drain() {
	list, lost := h.queue.take()
	if lost && h.lost == ReasonNone {
		h.lost = ReasonQueue
	}
	if h.failing {
		h.metrics.Dropped.Add(int64(len(list)))
		h.lost = ReasonDisk
		return
	}
	if err := h.writeAll(list); err != nil {
		h.fail("not written", err)
		return
	}
	if h.lost != ReasonNone {
		h.skip()
	}
	if h.store.gapped.Swap(false) {
		h.filler.wake()
	}
}

// writeAll writes entries and marks in their order.
func (h *History) writeAll(list []queued) error {
	var items []item
	put := func() error {
		reason := h.lost
		if reason == ReasonNone {
			reason = ReasonSnapshot
		}
		err := h.store.append(items, reason)
		items = items[:0]
		return err
	}
	for _, q := range list {
		if q.restored != nil {
			if err := put(); err != nil {
				return err
			}
			reason := ReasonSnapshot
			if h.store.tail() == q.restored.recovered {
				reason = ReasonLineage
			}
			if err := h.store.skipTo(q.restored.at, reason); err != nil {
				return err
			}
			continue
		}
		i, err := itemOf(q.entry)
		if err != nil {
			return err // the state machine has just applied it
		}
		items = append(items, i)
	}
	return put()
}

// skip makes the gap visible that ends where the state machine stands, if nothing came after what was lost.
func (h *History) skip() {
	if err := h.store.skipTo(h.cfg.Position(), h.lost); err != nil {
		h.fail("not written", err)
		return
	}
	h.lost = ReasonNone
}

// fail stops the writing for a while. The controller does not notice.
func (h *History) fail(what string, err error) {
	h.metrics.WriteErrors.Add(1)
	if !h.failing {
		h.cfg.Logger.Warn("history stops: "+what+"; the controller goes on without it", "dir", h.cfg.Dir, "error", err, "again in", h.cfg.RetryInterval)
	}
	h.failing, h.lost = true, ReasonDisk
}

// retry begins again after a failure.
func (h *History) retry() {
	if !h.opened {
		if err := h.store.open(); err != nil {
			h.metrics.WriteErrors.Add(1)
			return
		}
		h.opened = true
	}
	if err := h.store.skipTo(h.cfg.Position(), ReasonDisk); err != nil {
		h.metrics.WriteErrors.Add(1)
		return
	}
	h.failing, h.lost = false, ReasonNone
	h.cfg.Logger.Info("history goes on", "dir", h.cfg.Dir, "metadataOffset", int64(h.store.tail().Offset))
	h.filler.wake()
}
