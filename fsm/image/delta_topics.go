package image

import (
	"fmt"
	"slices"
	"strings"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func (d *Delta) addTopic(r *metadatapb.Topic) error {
	id, err := UUIDFrom(r.TopicId)
	switch {
	case err != nil:
		return fmt.Errorf("Topic %q: %w", r.Name, err)
	case r.Name == "" || id.IsZero():
		return fmt.Errorf("Topic %q %v: without a name or an id", r.Name, id)
	}
	name := r.Name
	e := &topicEntry{gen: d.gen, id: id, name: name, ordinal: d.topicOrdinals.alloc(d.gen)}
	if !d.topicByName.add(d.gen, name, e.ordinal) {
		return fmt.Errorf("Topic %q: the name is taken", name)
	}
	if d.pending.has(id) || !d.topicByID.add(d.gen, id, e.ordinal) {
		return fmt.Errorf("Topic %q: the id %v is taken", name, id)
	}
	d.topics.edit(d.gen, e.ordinal/topicPageLen)[e.ordinal%topicPageLen] = e
	if strings.IndexByte(name, '.') >= 0 || strings.IndexByte(name, '_') >= 0 {
		d.colliding.set(d.gen, collidingName{normalName(name), name}, struct{}{})
	}
	d.sum += hashTopic(e)
	d.lastTopic = e
	if !d.snapshot {
		d.created = append(d.created, TopicRef{id, name})
	}
	return nil
}

// removeTopic takes the topic out with its partitions, its configs and every index entry (KAFKA-14170), frees its
// name, and leaves a pending deletion for the registered brokers among its replicas.
func (d *Delta) removeTopic(r *metadatapb.RemoveTopic) error {
	e, err := d.findTopic(r.TopicId)
	if err != nil {
		return fmt.Errorf("RemoveTopic: %w", err)
	}
	left := PendingDeletion{TopicID: e.id, Name: e.name, Partitions: e.count}
	for _, x := range e.extents {
		for ordinal := x.start; ordinal < x.start+uint32(x.n); ordinal++ {
			d.load(ordinal, &d.before, d.room1[:])
			for _, id := range d.before.Replicas {
				if d.brokers.has(id) {
					left.add(id)
				}
			}
			d.clearPartition(ordinal, e.id)
		}
		d.dropPages(x)
		d.ordinals.release(d.gen, x.start, uint32(x.n))
	}
	d.partitionCount -= int(e.count)
	d.removeTopicEntry(e)
	d.removeConfigs(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, e.name)
	if len(left.Replicas) > 0 {
		d.setPending(&left)
	}
	if !d.snapshot {
		d.removed = append(d.removed, TopicRef{e.id, e.name})
	}
	return nil
}

func (d *Delta) removeTopicEntry(e *topicEntry) {
	page := d.topics.edit(d.gen, e.ordinal/topicPageLen)
	page[e.ordinal%topicPageLen] = nil
	if *page == (topicPage{}) {
		d.topics.drop(d.gen, e.ordinal/topicPageLen)
	}
	d.topicOrdinals.release(d.gen, e.ordinal, 1)
	d.topicByName.delete(d.gen, e.name)
	d.topicByID.delete(d.gen, e.id)
	d.colliding.delete(d.gen, collidingName{normalName(e.name), e.name})
	d.sum -= hashTopic(e)
	d.lastTopic = nil
}

// clearPartition takes the partition, whose state is in d.before, out of its page and the indexes.
func (d *Delta) clearPartition(ordinal uint32, topic TopicID) {
	d.reindex(ordinal, &d.before, nil)
	r := d.editPacked(ordinal)
	d.sum -= d.hashAt(ordinal, topic, r)
	if r.spilled() {
		d.spill.delete(d.gen, ordinal)
	}
	*r = packed{}
}

// dropPages drops the pages of an extent on which no partition is left.
func (d *Delta) dropPages(x extent) {
	d.lastPage = nil
	for page := x.start / pageLen; page <= (x.start+uint32(x.n)-1)/pageLen; page++ {
		p := d.partitions.get(page)
		if p != nil && !slices.ContainsFunc(p[:], func(r packed) bool { return r.present() }) {
			d.partitions.drop(d.gen, page)
		}
	}
}

// findTopic returns the topic of that id. Records of one topic tend to follow each other.
func (d *Delta) findTopic(id []byte) (*topicEntry, error) {
	if len(id) != 16 {
		_, err := UUIDFrom(id)
		return nil, err
	}
	if t := d.lastTopic; t != nil && t.id == UUID(id) {
		return t, nil
	}
	ordinal, ok := d.topicByID.get(UUID(id))
	if !ok {
		return nil, fmt.Errorf("topic %v is unknown", UUID(id))
	}
	d.lastTopic = d.topic(ordinal)
	return d.lastTopic, nil
}

// editTopic returns the entry for writing.
func (d *Delta) editTopic(e *topicEntry) *topicEntry {
	if e.gen == d.gen {
		return e
	}
	n := *e
	n.gen = d.gen
	n.extents = append(make([]extent, 0, len(e.extents)+1), e.extents...)
	d.topics.edit(d.gen, e.ordinal/topicPageLen)[e.ordinal%topicPageLen] = &n
	d.lastTopic = &n
	return &n
}

// growTopic adds a partition to the topic and returns its ordinal.
func (d *Delta) growTopic(e *topicEntry) (*topicEntry, uint32) {
	e = d.editTopic(e)
	if n := len(e.extents); n > 0 {
		x := &e.extents[n-1]
		if at := x.start + uint32(x.n); at == d.ordinals.next {
			d.ordinals.next++
			x.n++
			e.count++
			return e, at
		} else if d.ordinals.take(d.gen, at) {
			x.n++
			e.count++
			return e, at
		}
	}
	at := d.ordinals.alloc(d.gen)
	e.extents = append(e.extents, extent{first: e.count, start: at, n: 1})
	e.count++
	return e, at
}
