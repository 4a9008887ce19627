package broker

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

// begin makes of the disk and the replicas what the first image says: strays set aside, deletions carried out, the
// rest loaded, then leaders and followers made (Kafka: the first publish). The image has reached this broker's own
// registration and everything it has ever acted on.
//
// What is on disk and yet does not hold what was acknowledged, for its log does not load or ends below its high watermark,
// is disowned before anything is led or followed.
func (rs *replicas) begin(ctx context.Context, im *image.Image) error {
	rs.hold(im)
	keep, err := rs.compare(im)
	if err != nil {
		return err
	}
	began := rs.deps.now()
	reports := rs.logs.Load(ctx, keep, func(r log.Replica) log.LogConfig { return rs.configOf(im, r.Name.Topic) })
	failed := 0
	damaged := make(map[image.PartitionID]bool)
	for _, p := range reports {
		id := image.PartitionID{Topic: p.Replica.TopicID, Partition: p.Replica.Name.Partition}
		if p.Err != nil || p.Recovered.Lost > 0 {
			damaged[id] = true
		}
		if p.Err != nil {
			failed++
			rs.mu.Lock()
			rs.offline[id] = p.Err
			rs.mu.Unlock()
			rs.log.Error("a log could not be loaded; its partition is offline", "replica", p.Replica.String(), "error", p.Err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w while loading logs", ErrStopped)
	}
	rs.at("broker.begin.loaded")
	rs.logs.FinishLoading()
	rs.log.Info("logs loaded", "logs", len(reports)-failed, "failed", failed, "took", rs.deps.now().Sub(began))
	if len(damaged) > 0 {
		if err := rs.disown(ctx, damaged); err != nil {
			return err
		}
	}
	onDisk := make([]image.PartitionID, len(keep))
	for i, r := range keep {
		onDisk[i] = image.PartitionID{Topic: r.TopicID, Partition: r.Name.Partition}
	}
	if err := rs.used.begin(im.Lineage().Number, onDisk, rs.isAssigned(im)); err != nil {
		return err
	}
	rs.apply(im)
	return nil
}

// compare judges every directory that is not hosted by the image, and renames what does not belong to this broker. It
// returns what does. Nothing is ever deleted for being unknown: unknown data is set aside (KAFKA-16814).
func (rs *replicas) compare(im *image.Image) (keep []log.Replica, err error) {
	list, err := rs.logs.Scan()
	if err != nil {
		return nil, err
	}
	var strays, deleted []log.Replica
	aside := 0
	for _, d := range list {
		if d.State == log.DirStray {
			aside++
		}
		if d.State != log.DirLive || rs.isHosted(d) || rs.isUnfinished(im, d) {
			continue
		}
		r := log.Replica{Name: d.Name, TopicID: d.TopicID}
		switch judgeLog(im, rs.self, idOf(d), !d.TopicID.IsZero()) {
		case verdictKeep:
			keep = append(keep, r)
		case verdictDelete:
			deleted = append(deleted, r)
		case verdictStray:
			strays = append(strays, r)
		}
	}
	rs.at("broker.compare.judged")
	if rs.holding.Load() {
		if n := len(strays) + len(deleted); n > 0 {
			rs.log.Warn("data that the metadata does not know, or wants deleted, stays until the lineage is confirmed", "logs", n)
		}
		rs.metrics.logStrays.Set(float64(aside))
		return keep, nil
	}
	rs.setAside(strays)
	rs.metrics.logStrays.Set(float64(aside + len(strays)))
	if len(deleted) == 0 {
		return keep, nil
	}
	if err := rs.kept.keep(im); err != nil {
		return nil, err
	}
	for _, r := range deleted {
		rs.log.Info("data of a deleted topic found; removing it", "replica", r.String())
		rs.delete(r)
	}
	return keep, nil
}

func (rs *replicas) setAside(strays []log.Replica) {
	for _, r := range strays {
		rs.log.Warn("the metadata does not know this data; setting it aside", "replica", r.String())
	}
	for _, f := range rs.logs.SetAside(strays...) {
		rs.log.Error("a stray could not be set aside; it stays where it is", "replica", f.Replica.String(), "error", f.Err)
	}
}

func idOf(d log.OnDisk) image.PartitionID {
	return image.PartitionID{Topic: d.TopicID, Partition: d.Name.Partition}
}

func (rs *replicas) isHosted(d log.OnDisk) bool {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	_, hosted := rs.hosted[idOf(d)]
	_, offline := rs.offline[idOf(d)]
	return hosted || offline
}

// isUnfinished tells whether a directory was left by a stop in the middle of the making of a log that is wanted: it holds no
// record and names no topic, and the making takes it over.
func (rs *replicas) isUnfinished(im *image.Image, d log.OnDisk) bool {
	if !d.Empty || !d.TopicID.IsZero() {
		return false
	}
	t, ok := im.TopicByName(d.Name.Topic)
	if !ok {
		return false
	}
	p, ok := t.Partition(d.Name.Partition)
	return ok && image.Contains(p.Replicas, rs.self)
}
