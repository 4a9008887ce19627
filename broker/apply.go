package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// fetches are the replica fetches of the partitions that this broker follows.
type fetches interface {
	// remove ends the fetches of these partitions; when it returns none of them touches its log any more.
	remove([]image.PartitionID)
	// add begins fetches at the leaders named, each at the end of its log.
	add([]fetchOrder)
}

// fetchOrder says where a followed partition is fetched from.
type fetchOrder struct {
	replica *hostedReplica
	leader  image.BrokerID
	address string // of the leader's GRPC listener
	epoch   image.LeaderEpoch
}

// apply makes of the replicas what a newer image says: deletes first, for a topic of the same name may follow; then new logs;
// then leaders; then followers; then news that no partition record tells (Kafka: ReplicaManager.applyDelta). An error is
// about one partition and is kept with it.
func (rs *replicas) apply(im *image.Image) {
	old := rs.taken.Swap(im)
	held := rs.holding.Load()
	rs.hold(im)
	local := image.LocalChanges(old, im, rs.self)
	rs.applyDeletes(old, im, local.Deletes)
	rs.at("broker.apply.deleted")
	rs.applyNew(im, rs.used.missing(local.Leaders, local.Followers))
	rs.applyLeaders(im, local.Leaders)
	rs.at("broker.apply.leading")
	rs.applyFollowers(im, local.Followers)
	rs.applyNews(old, im)
	rs.at("broker.apply.following")
	if held && !rs.holding.Load() {
		rs.release(im)
	}
	rs.applied.set(im)
	rs.kept.note(im)
	rs.metrics.acted.Set(float64(im.Offset()))
}

// applyDeletes takes replicas away, those that are offline too. Their directories are renamed before anything else happens,
// so that a topic of the same name starts empty. What the deletion rests on is kept on disk first.
func (rs *replicas) applyDeletes(old, im *image.Image, ids []image.PartitionID) {
	if len(ids) == 0 {
		return
	}
	rs.fetches.remove(ids)
	err := rs.kept.keep(im)
	if err != nil {
		rs.fail("keep the metadata offset", err)
	}
	for _, id := range ids {
		if r := rs.forget(id); r != nil {
			r.remove()
		}
		if t, ok := old.TopicByID(id.Topic); ok && err == nil && !rs.holding.Load() {
			rs.delete(log.Replica{Name: log.Name{Topic: t.Name(), Partition: id.Partition}, TopicID: id.Topic})
		}
	}
}

// forget takes a replica out of the hosted ones.
func (rs *replicas) forget(id image.PartitionID) *hostedReplica {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.hosted[id]
	delete(rs.hosted, id)
	delete(rs.offline, id)
	return r
}

// applyNew makes the logs of replicas that are new here, and notes them as used before any of them gets a role: from here on a
// log of theirs that is not there is a lost one.
func (rs *replicas) applyNew(im *image.Image, list []image.LocalPartition) {
	if len(list) == 0 {
		return
	}
	each(list, func(l image.LocalPartition) {
		if _, _, err := rs.host(im, l.ID); err != nil {
			rs.goOffline("make", l.ID, err)
		}
	})
	err := rs.used.add(list)
	if err == nil && rs.used.hasSlack(len(rs.all())) {
		err = rs.used.begin(im.Lineage().Number, nil, rs.isAssigned(im))
	}
	if err == nil {
		return
	}
	rs.fail("note the logs in use", err)
	for _, l := range list {
		rs.forget(l.ID)
		rs.goOffline("note as used", l.ID, err)
	}
}

// isAssigned tells whether an image assigns a replica to this broker.
func (rs *replicas) isAssigned(im *image.Image) func(image.PartitionID) bool {
	return func(id image.PartitionID) bool {
		p, ok := im.Partition(id)
		return ok && image.Contains(p.Replicas, rs.self)
	}
}

// applyLeaders makes this broker lead. It stops following first.
func (rs *replicas) applyLeaders(im *image.Image, list []image.LocalPartition) {
	if len(list) == 0 {
		return
	}
	rs.fetches.remove(idsOf(list))
	each(list, func(l image.LocalPartition) {
		topic, r, err := rs.host(im, l.ID)
		if err == nil {
			_, err = r.becomeLeader(l.Partition, im.MinInsyncReplicas(topic, len(l.Partition.Replicas)), im.Offset())
		}
		if err != nil {
			rs.goOffline("become leader", l.ID, err)
		}
	})
}

// applyFollowers makes this broker follow, also where there is no leader: the log must be there, and a former leader
// must step down. Then the fetches that have to change are stopped, all of them, and begun anew.
func (rs *replicas) applyFollowers(im *image.Image, list []image.LocalPartition) {
	var mu sync.Mutex
	var stop []image.PartitionID
	var start []fetchOrder
	each(list, func(l image.LocalPartition) {
		_, r, err := rs.host(im, l.ID)
		var fx partition.Effects
		if err == nil {
			fx, err = r.becomeFollower(l.Partition, rs.stopping.Load())
		}
		if err != nil {
			rs.goOffline("become follower", l.ID, err)
			return
		}
		if fx.Fetch == partition.FetchKeep {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		stop = append(stop, l.ID)
		if fx.Fetch == partition.FetchRestart {
			if o, ok := orderFor(im, r, l.Partition); ok {
				start = append(start, o)
			}
		}
	})
	if len(stop) > 0 {
		rs.fetches.remove(stop)
	}
	if len(start) > 0 {
		slices.SortFunc(start, func(a, b fetchOrder) int { return a.replica.id.Compare(b.replica.id) })
		rs.fetches.add(start)
	}
}

// orderFor says where to fetch from; a fenced leader's address counts too. Without one there is nothing to fetch until the
// leader epoch changes.
func orderFor(im *image.Image, r *hostedReplica, p image.Partition) (fetchOrder, bool) {
	b, ok := im.Broker(p.Leader)
	if !ok {
		return fetchOrder{}, false
	}
	address, ok := grpcAddress(b.Listeners)
	return fetchOrder{replica: r, leader: p.Leader, address: address, epoch: p.LeaderEpoch}, ok
}

// applyNews tells replicas what changed beside their records: configs, and registrations of brokers among them.
func (rs *replicas) applyNews(old, im *image.Image) {
	news := image.Diff(old, im)
	if !news.Configs && len(news.Brokers) == 0 {
		return
	}
	for _, r := range rs.all() {
		topic := r.log.Name().Topic
		if news.Configs {
			rs.configure(im, r)
		}
		st := r.state()
		touched := slices.ContainsFunc(news.Brokers, func(b image.BrokerID) bool { return image.Contains(st.Replicas, b) })
		if news.Configs || touched {
			r.metadataChanged(im.MinInsyncReplicas(topic, len(st.Replicas)), im.Offset())
		}
	}
}

func (rs *replicas) configure(im *image.Image, r *hostedReplica) {
	c := rs.configOf(im, r.log.Name().Topic)
	if c == r.log.Config() {
		return
	}
	if err := r.log.SetConfig(c); err != nil {
		rs.log.Error("a log keeps its former settings", "partition", r.log.Name().String(), "error", err)
	}
}

func (rs *replicas) configOf(im *image.Image, topic string) log.LogConfig {
	c, errs := logConfig(im, topic, rs.base)
	for _, err := range errs {
		rs.log.Error("a topic setting is not used", "topic", topic, "error", err)
	}
	return c
}

// host returns the replica, and creates it with its log if it is not there. The id decides, never the name.
func (rs *replicas) host(im *image.Image, id image.PartitionID) (topic string, r *hostedReplica, err error) {
	t, ok := im.TopicByID(id.Topic)
	if !ok {
		return "", nil, fmt.Errorf("broker: the image has partition %v and not its topic", id)
	}
	rs.mu.RLock()
	r, err = rs.hosted[id], rs.offline[id]
	rs.mu.RUnlock()
	if r != nil || err != nil {
		return t.Name(), r, err
	}
	replica, config := log.Replica{Name: log.Name{Topic: t.Name(), Partition: id.Partition}, TopicID: id.Topic}, rs.configOf(im, t.Name())
	lg, err := rs.logs.Open(replica, config)
	if errors.Is(err, log.ErrInconsistentTopicID) && rs.holding.Load() {
		lg, err = rs.openHeld(replica, config)
	}
	if err != nil {
		return t.Name(), nil, err
	}
	r = newReplica(id, lg, rs.deps)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.hosted[id] = r
	delete(rs.offline, id)
	return t.Name(), r, nil
}

// goOffline notes why a partition cannot be served here. A disk that fails while the broker runs ends the broker, so
// that its leaderships move; a log that could not be loaded at the start takes nothing with it.
func (rs *replicas) goOffline(what string, id image.PartitionID, err error) {
	rs.mu.Lock()
	_, known := rs.offline[id]
	if _, hosted := rs.hosted[id]; !hosted {
		rs.offline[id] = err
	}
	rs.mu.Unlock()
	rs.metrics.failed.WithLabelValues(what).Inc()
	rs.log.Error("a partition cannot be served here", "step", what, "partition", id.String(), "error", err)
	if !known && isStorage(err) {
		rs.fail(what+" of "+id.String(), err)
	}
}

// each calls work for every partition, several at a time, and waits.
func each(list []image.LocalPartition, work func(image.LocalPartition)) {
	var g errgroup.Group
	g.SetLimit(applyWorkers)
	for _, l := range list {
		g.Go(func() error {
			work(l)
			return nil
		})
	}
	_ = g.Wait() // the work keeps its errors
}

func idsOf(list []image.LocalPartition) []image.PartitionID {
	ids := make([]image.PartitionID, len(list))
	for i, l := range list {
		ids[i] = l.ID
	}
	return ids
}
