package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// deletions is why data of deleted topics could not be removed. What was removed, or waits for it, the log manager
// knows. Any goroutine may call it.
type deletions struct {
	mu      sync.Mutex
	failed  map[image.TopicID]string
	changed chan struct{} // holds one token
}

func newDeletions() *deletions {
	return &deletions{failed: make(map[image.TopicID]string), changed: make(chan struct{}, 1)}
}

// note takes over how an attempt ended.
func (de *deletions) note(topic image.TopicID, err error) {
	de.mu.Lock()
	if err != nil {
		de.failed[topic] = err.Error()
	} else {
		delete(de.failed, topic)
	}
	de.mu.Unlock()
	select {
	case de.changed <- struct{}{}:
	default:
	}
}

func (de *deletions) all() map[image.TopicID]string {
	de.mu.Lock()
	defer de.mu.Unlock()
	m := make(map[image.TopicID]string, len(de.failed))
	for t, why := range de.failed {
		m[t] = why
	}
	return m
}

// delete renames a replica's directory, so that its name is free and its removal survives a crash; the log manager
// removes it in the background. A directory that is another topic's is no data of this one.
func (rs *replicas) delete(r log.Replica) {
	for _, f := range rs.logs.Delete(r) {
		rs.log.Error("a deleted replica could not be renamed", "replica", f.Replica.String(), "error", f.Err)
		if !errors.Is(f.Err, log.ErrInconsistentTopicID) {
			rs.deletions.note(f.Replica.TopicID, f.Err)
		}
	}
}

// removed is told by the log manager of each renamed directory that it removed or could not remove.
func (rs *replicas) removed(r log.Removal) {
	if r.State != log.DirDeleting {
		return
	}
	rs.deletions.note(r.Replica.TopicID, r.Err)
	rs.applied.wake()
}

// held is what the broker has of each topic, on disk or open.
func (rs *replicas) held() map[image.TopicID]holding {
	held := make(map[image.TopicID]holding)
	for _, d := range rs.logs.Inventory() {
		held[d.TopicID] = holding{held: true}
	}
	rs.mu.RLock()
	for id := range rs.offline {
		held[id.Topic] = holding{held: true}
	}
	rs.mu.RUnlock()
	for topic, why := range rs.deletions.all() {
		held[topic] = holding{held: true, failure: why}
	}
	return held
}

// heldNow is what held gave last, for all who ask until something changes.
type heldNow struct {
	mu sync.Mutex
	// changed is what was to be closed at the next change when it was listed.
	changed <-chan struct{}
	topics  map[image.TopicID]holding
}

// holdsAny tells whether the broker holds anything of one of the topics, which no longer exist. Changed is that of the image
// at which the question is asked: whoever asks at the same one shares the list of all logs.
func (rs *replicas) holdsAny(topics []image.TopicID, changed <-chan struct{}) bool {
	if len(topics) == 0 {
		return false
	}
	if im, _ := rs.applied.watch(); rs.holdsBack(im) {
		return true // nothing is deleted, so none that ask for this can be served
	}
	h := &rs.heldNow
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != changed {
		h.topics, h.changed = rs.held(), changed
	}
	return slices.ContainsFunc(topics, func(t image.TopicID) bool { return h.topics[t].held })
}

// reportDeletions tells the active controller what became of the deletions that the metadata waits for, at most once a
// second, until ctx ends. It compares state with state, so a report that is lost is made again.
func (rs *replicas) reportDeletions(ctx context.Context, send func(context.Context, *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error)) {
	for {
		im, changed := rs.applied.watch()
		if again := rs.report(ctx, im, send); again {
			if !sleep(ctx, reportInterval) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-rs.deletions.changed:
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, reportInterval) {
			return
		}
	}
}

// reportInterval is the least time between two reports.
const reportInterval = time.Second

// report makes one report if there is news, and tells whether to look again soon.
func (rs *replicas) report(ctx context.Context, im *image.Image, send func(context.Context, *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error)) bool {
	if !waitsFor(im, rs.self) {
		rs.countDeletions(im, nil)
		return false
	}
	if rs.holdsBack(im) {
		return false
	}
	held := rs.held()
	rs.countDeletions(im, held)
	deleted, failed := deletionReport(im, rs.self, func(t image.TopicID) holding { return held[t] })
	if len(deleted)+len(failed) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	answer, err := send(ctx, &controllerpb.ReportDeletionsRequest{
		BrokerId: int32(rs.self), BrokerEpoch: int64(rs.deps.epoch()), Deleted: deleted, Failed: failed,
	})
	if err != nil {
		rs.log.Warn("deletions could not be reported; trying again", "deleted", len(deleted), "failed", len(failed), "error", err)
		return true
	}
	rs.log.Info("deletions reported", "deleted", len(deleted), "failed", len(failed), "metadataOffset", answer.MetadataOffset)
	// What was just told is news until the metadata has it.
	_, _ = rs.applied.waitOffset(ctx, image.MetadataOffset(answer.MetadataOffset))
	return true
}

// holdsBack tells whether data that the metadata wants deleted stays where it is, open or not: held does not know of it.
func (rs *replicas) holdsBack(im *image.Image) bool {
	return rs.holding.Load() || im.Lineage().IsUnconfirmed()
}

// waitsFor tells whether the metadata waits for any deletion of a broker.
func waitsFor(im *image.Image, b image.BrokerID) bool {
	for p := range im.PendingDeletions() {
		if _, ok := p.WaitsFor(b); ok {
			return true
		}
	}
	return false
}

// reportTimeout bounds one report and the wait for the metadata to have it.
const reportTimeout = 5 * time.Second

func (rs *replicas) countDeletions(im *image.Image, held map[image.TopicID]holding) {
	pending, failed := 0, 0
	for p := range im.PendingDeletions() {
		if _, ok := p.WaitsFor(rs.self); !ok || !held[p.TopicID].held {
			continue
		}
		pending++
		if held[p.TopicID].failure != "" {
			failed++
		}
	}
	rs.metrics.deletionsPending.Set(float64(pending))
	rs.metrics.deletionsFailed.Set(float64(failed))
}
