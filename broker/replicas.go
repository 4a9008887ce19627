package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// replicas hosts partitions: it makes of them what the metadata says. One goroutine, in run, takes images on;
// everything else may be called from any goroutine.
type replicas struct {
	self    image.BrokerID
	base    log.LogConfig
	logs    *log.Manager
	at      func(point string) // the environment's hook
	fetches fetches
	kept    *keptOffset
	used    *usedLogs
	applied *imageCell
	// registeredIn is the lineage by whose metadata the present registration has judged the logs.
	registeredIn func() image.LineageNumber
	deps         *replicaDeps
	// disown returns when the metadata counts none of these replicas of this broker as holding what was acknowledged.
	disown  func(context.Context, map[image.PartitionID]bool) error
	metrics *metrics
	log     *slog.Logger

	// stopping is set from the wish to stop on: what this broker has lost is not fetched any more.
	stopping atomic.Bool
	// holding: nothing is deleted until an operator has confirmed the lineage of the metadata.
	holding atomic.Bool
	// taken is the image that is being acted on, or was last.
	taken atomic.Pointer[image.Image]
	// deletions is what is being removed, or could not be.
	deletions *deletions
	heldNow   heldNow

	mu     sync.RWMutex
	hosted map[image.PartitionID]*hostedReplica
	// fail is told of a failure of the disk, once or more often. It does not block.
	fail func(what string, err error)
	// offline are replicas whose log could not be opened, with the reason.
	offline map[image.PartitionID]error
}

// image is the newest metadata that this broker has begun to act on. A leadership that moved away shows in it before
// the first request is refused for it, so a client that asks again is told where to go.
func (rs *replicas) image() *image.Image { return rs.taken.Load() }

// get returns a hosted replica.
func (rs *replicas) get(id image.PartitionID) (*hostedReplica, error) {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	if r, ok := rs.hosted[id]; ok {
		if err := r.log.Failure(); err != nil {
			return nil, logError(err)
		}
		return r, nil
	}
	if err, ok := rs.offline[id]; ok {
		return nil, logError(err)
	}
	if _, ok := rs.image().Partition(id); !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	return nil, kerr.NotLeaderForPartition
}

// Lookup implements [kafka.Partitions].
func (rs *replicas) Lookup(id image.PartitionID) (kafka.Partition, error) {
	r, err := rs.get(id)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// all are the hosted replicas, in no order.
func (rs *replicas) all() []*hostedReplica {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	list := make([]*hostedReplica, 0, len(rs.hosted))
	for _, r := range rs.hosted {
		list = append(list, r)
	}
	return list
}

// run acts on images as they come, until ctx ends or one is of another lineage than the registration ([ErrNewLineage]): the first
// one with all that a start needs. begun is called when the first has been acted on. Every five minutes it compares the disk with the metadata.
func (rs *replicas) run(ctx context.Context, newest *imageCell, begun func()) error {
	im, changed := newest.watch()
	lineage := rs.registeredIn()
	if err := rs.checkLineage(im, lineage); err != nil {
		return err
	}
	if err := rs.begin(ctx, im); err != nil {
		return err
	}
	begun()
	comparison := time.NewTicker(compareInterval)
	defer comparison.Stop()
	for {
		select {
		case <-changed:
			im, changed = newest.watch()
			if err := rs.checkLineage(im, lineage); err != nil {
				return err
			}
			rs.apply(im)
		case <-comparison.C:
			if _, err := rs.compare(im); err != nil {
				rs.log.Error("the disk could not be compared with the metadata", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// checkLags asks every leader for followers that have fallen behind, each half of the lag limit (Kafka: the
// isr-expiration task), until ctx ends. A look that comes late says nothing about the followers: this process stood still
// and could not hear them. They get until the next one.
func (rs *replicas) checkLags(ctx context.Context) {
	interval := rs.deps.lagTimeMax / 2
	for last := rs.deps.now(); sleep(ctx, interval); {
		now := rs.deps.now()
		late := now.Sub(last) > interval+interval/2
		last = now
		if late {
			rs.log.Warn("this process stood still; followers get until the next check", "checkInterval", interval)
			continue
		}
		for _, r := range rs.all() {
			r.checkLag()
		}
	}
}

// close ends every replica's life here. Fetches have been stopped.
func (rs *replicas) close() {
	for _, r := range rs.all() {
		r.remove()
	}
}

// counts are the numbers of hosted partitions, for metrics.
type counts struct {
	hosted, leaders, underReplicated, underMinISR, offline int
}

func (rs *replicas) count() counts {
	c := counts{}
	for _, r := range rs.all() {
		st := r.state()
		c.hosted++
		if st.Role == partition.RoleLeader {
			c.leaders++
		}
		if st.IsUnderReplicated() {
			c.underReplicated++
		}
		if st.IsUnderMinISR() {
			c.underMinISR++
		}
	}
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	c.offline = len(rs.offline)
	return c
}

// isStorage tells whether an error is a failure of the disk.
func isStorage(err error) bool {
	var s *log.StorageError
	return errors.As(err, &s)
}

// applyWorkers is how many partitions of one image are worked on at once.
const applyWorkers = 8

// compareInterval is the time between two comparisons of the disk with the metadata.
const compareInterval = 5 * time.Minute
