package image

import (
	"slices"
)

// Changes is what lies between two images. Lists are ordered by id.
type Changes struct {
	// Partitions that exist in one image only, or whose state differs.
	Partitions []PartitionDiff
	// CreatedTopics and RemovedTopics by topic id; a topic made again under its name is in both.
	CreatedTopics, RemovedTopics []TopicRef
	// Brokers and Controllers that exist in one image only, or whose registration differs.
	Brokers, Controllers []BrokerID
	// Configs, Features and PendingDeletions tell whether anything of the kind differs.
	Configs, Features, PendingDeletions bool
}

// PartitionDiff is a partition in two images. Old or New is nil where it does not exist.
type PartitionDiff struct {
	ID       PartitionID
	Old, New *Partition
}

// LocalPartition is a partition as the newer image has it.
type LocalPartition struct {
	ID        PartitionID
	Partition Partition
}

// BrokerChanges is what lies between two images for one broker. Lists are ordered by topic id and number.
type BrokerChanges struct {
	// Deletes: the broker was a replica and is none any more, because it was taken off the replicas or the topic is gone.
	Deletes []PartitionID
	// Leaders: the broker leads, and the state differs or the broker was no replica before.
	Leaders []LocalPartition
	// ElectedLeaders are those of Leaders whose leader epoch differs.
	ElectedLeaders []LocalPartition
	// Followers: the broker is a replica that does not lead, and the state differs or it was no replica before.
	Followers []LocalPartition
}

// IsEmpty tells whether nothing changed for the broker.
func (c *BrokerChanges) IsEmpty() bool { return len(c.Deletes)+len(c.Leaders)+len(c.Followers) == 0 }

// LocalChanges compares two images for one broker. What both images share costs nothing: after a few records it looks
// at a few pages. Images that were loaded apart, as after a snapshot, are compared whole.
//
// A topic that was deleted and made again under its name shows as a delete of the old id and new partitions of the
// new one. If leadership moved away and back in between, only the end is seen, with a higher leader epoch.
func LocalChanges(old, new *Image, b BrokerID) *BrokerChanges {
	c := &BrokerChanges{}
	eachPartitionDiff(old, new, func(p *Partition) bool { return Contains(p.Replicas, b) }, func(d PartitionDiff) {
		switch {
		case d.New == nil || !Contains(d.New.Replicas, b):
			c.Deletes = append(c.Deletes, d.ID)
		case d.New.Leader == b:
			l := LocalPartition{d.ID, *d.New}
			c.Leaders = append(c.Leaders, l)
			if d.Old == nil || !Contains(d.Old.Replicas, b) || d.Old.LeaderEpoch != d.New.LeaderEpoch {
				c.ElectedLeaders = append(c.ElectedLeaders, l)
			}
		default:
			c.Followers = append(c.Followers, LocalPartition{d.ID, *d.New})
		}
	})
	slices.SortFunc(c.Deletes, PartitionID.Compare)
	for _, l := range [][]LocalPartition{c.Leaders, c.ElectedLeaders, c.Followers} {
		slices.SortFunc(l, func(a, b LocalPartition) int { return a.ID.Compare(b.ID) })
	}
	return c
}

// Diff compares two images. As with [LocalChanges], what both share costs nothing.
func Diff(old, new *Image) *Changes {
	c := &Changes{
		Brokers:          treeDiff(&old.brokers, &new.brokers, func(a, b *Broker) bool { return a == b || hashBroker(a) == hashBroker(b) }),
		Controllers:      treeDiff(&old.controllers, &new.controllers, func(a, b *Controller) bool { return a == b || hashController(a) == hashController(b) }),
		Features:         len(treeDiff(&old.features, &new.features, equal[int32])) > 0,
		Configs:          len(treeDiff(&old.configs, &new.configs, equal[string])) > 0,
		PendingDeletions: len(treeDiff(&old.pending, &new.pending, func(a, b *PendingDeletion) bool { return a == b || hashPending(a) == hashPending(b) })) > 0,
	}
	eachPartitionDiff(old, new, func(*Partition) bool { return true }, func(d PartitionDiff) { c.Partitions = append(c.Partitions, d) })
	slices.SortFunc(c.Partitions, func(a, b PartitionDiff) int { return a.ID.Compare(b.ID) })
	eachDifference(&old.topics, &new.topics, func(_ uint32, po, pn *topicPage) {
		c.RemovedTopics = appendMissing(c.RemovedTopics, po, new)
		c.CreatedTopics = appendMissing(c.CreatedTopics, pn, old)
	})
	for _, l := range [][]TopicRef{c.CreatedTopics, c.RemovedTopics} {
		slices.SortFunc(l, func(a, b TopicRef) int { return compareUUID(a.ID, b.ID) })
	}
	return c
}

func equal[T comparable](a, b T) bool { return a == b }

// appendMissing appends the topics of a page that an image does not have.
func appendMissing(to []TopicRef, page *topicPage, im *Image) []TopicRef {
	if page == nil {
		return to
	}
	for _, e := range page {
		if e != nil && !im.topicByID.has(e.id) {
			to = append(to, TopicRef{e.id, e.name})
		}
	}
	return to
}

// eachPartitionDiff calls fn once for each partition that is wanted in at least one image and differs.
func eachPartitionDiff(old, new *Image, wanted func(*Partition) bool, fn func(PartitionDiff)) {
	var p, q Partition
	var room1, room2 [unpackRoom]BrokerID
	eachDifference(&old.partitions, &new.partitions, func(page uint32, po, pn *partitionPage) {
		for i := range pageLen {
			ordinal := page*pageLen + uint32(i)
			if pn != nil && pn[i].present() && !sameRecord(old, new, po, pn, i, ordinal) {
				id := new.partitionID(&pn[i])
				new.load(ordinal, &p, room1[:])
				existed := old.find(id, &q, room2[:])
				if (wanted(&p) || existed && wanted(&q)) && !(existed && p.Equal(q)) {
					d := PartitionDiff{ID: id, New: p.clone()}
					if existed {
						d.Old = q.clone()
					}
					fn(d)
				}
			}
			if po != nil && po[i].present() && !sameRecord(old, new, po, pn, i, ordinal) {
				id := old.partitionID(&po[i])
				old.load(ordinal, &p, room1[:])
				if wanted(&p) && !new.find(id, &q, room2[:]) {
					fn(PartitionDiff{ID: id, Old: p.clone()})
				}
			}
		}
	})
}

// sameRecord tells that an ordinal holds the same partition in the same state in both images.
func sameRecord(old, new *Image, po, pn *partitionPage, i int, ordinal uint32) bool {
	if po == nil || pn == nil || po[i] != pn[i] || old.topic(po[i].topic).id != new.topic(pn[i].topic).id {
		return false
	}
	if !po[i].spilled() {
		return true
	}
	a, _ := old.spill.get(ordinal)
	b, _ := new.spill.get(ordinal)
	return a == b || a.Equal(*b)
}

// find loads a partition by its name.
func (s *state) find(id PartitionID, p *Partition, room []BrokerID) bool {
	t, ok := s.topicByID.get(id.Topic)
	if !ok {
		return false
	}
	ordinal, ok := s.topic(t).partitionOrdinal(id.Partition)
	if ok {
		s.load(ordinal, p, room)
	}
	return ok
}

// treeDiff returns the keys that only one of the trees has, or whose values are not the same.
func treeDiff[K, V any](old, new *tree[K, V], same func(a, b V) bool) []K {
	if old.root == new.root {
		return nil
	}
	var out []K
	for k, v := range new.all() {
		if o, ok := old.get(k); !ok || !same(o, v) {
			out = append(out, k)
		}
	}
	for k := range old.all() {
		if !new.has(k) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, new.compare)
	return out
}
