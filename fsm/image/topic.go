package image

import (
	"iter"
	"strings"
)

const topicPageLen = 16

type topicPage [topicPageLen]*topicEntry

// topicEntry is a topic; the writer of generation gen may change it in place.
type topicEntry struct {
	gen     uint64
	id      TopicID
	name    string
	ordinal uint32
	// count is the number of partitions.
	count   int32
	extents []extent
}

// extent maps partitions first … first+n-1 to the ordinals start … start+n-1.
type extent struct {
	first int32
	start uint32
	n     int32
}

// partitionOrdinal returns the ordinal of a partition.
func (e *topicEntry) partitionOrdinal(i int32) (uint32, bool) {
	if i < 0 || i >= e.count {
		return 0, false
	}
	lo, hi := 0, len(e.extents)-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if e.extents[mid].first <= i {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	x := e.extents[lo]
	return x.start + uint32(i-x.first), true
}

// collidingName orders names by what Kafka's metric names make of them, where '.' and '_' are the same (KAFKA-2337).
type collidingName struct{ norm, name string }

func (c collidingName) compare(d collidingName) int {
	if r := strings.Compare(c.norm, d.norm); r != 0 {
		return r
	}
	return strings.Compare(c.name, d.name)
}

func normalName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Topic is a handle on a topic of one image. It stays valid as long as it is held.
type Topic struct {
	state *state
	entry *topicEntry
}

// Name returns the topic's name.
func (t Topic) Name() string { return t.entry.name }

// ID returns the topic's id.
func (t Topic) ID() TopicID { return t.entry.id }

// Len returns the number of partitions, which are numbered 0 … Len-1.
func (t Topic) Len() int { return int(t.entry.count) }

// Partition returns one partition.
func (t Topic) Partition(i int32) (Partition, bool) {
	ordinal, ok := t.entry.partitionOrdinal(i)
	if !ok {
		return Partition{}, false
	}
	return t.state.partition(ordinal), true
}

// Partitions returns all partitions in order.
func (t Topic) Partitions() iter.Seq2[int32, Partition] {
	return func(yield func(int32, Partition) bool) {
		for _, x := range t.entry.extents {
			for i := range x.n {
				if !yield(x.first+i, t.state.partition(x.start+uint32(i))) {
					return
				}
			}
		}
	}
}

// TopicByID returns a topic.
func (im *Image) TopicByID(id TopicID) (Topic, bool) {
	return im.topicAt(im.topicByID.get(id))
}

// TopicByName returns a topic.
func (im *Image) TopicByName(name string) (Topic, bool) {
	return im.topicAt(im.topicByName.get(name))
}

func (im *Image) topicAt(ordinal uint32, ok bool) (Topic, bool) {
	if !ok {
		return Topic{}, false
	}
	return Topic{&im.state, im.topic(ordinal)}, true
}

// Topics returns all topics by name.
func (im *Image) Topics() iter.Seq[Topic] {
	return func(yield func(Topic) bool) {
		for _, ordinal := range im.topicByName.all() {
			if !yield(Topic{&im.state, im.topic(ordinal)}) {
				return
			}
		}
	}
}

// TopicCount returns the number of topics.
func (im *Image) TopicCount() int { return im.topicByName.n }

// PartitionCount returns the number of partitions of all topics.
func (im *Image) PartitionCount() int { return im.partitionCount }

// Partition returns one partition.
func (im *Image) Partition(id PartitionID) (Partition, bool) {
	t, ok := im.TopicByID(id.Topic)
	if !ok {
		return Partition{}, false
	}
	return t.Partition(id.Partition)
}

// CollidingTopic returns a topic of another name that Kafka's metrics could not tell from a topic of this name,
// because the names differ in '.' and '_' only (KAFKA-2337).
func (im *Image) CollidingTopic(name string) (existing string, ok bool) {
	norm := normalName(name)
	for c := range im.colliding.from(collidingName{norm: norm}) {
		if c.norm != norm {
			break
		}
		if c.name != name {
			return c.name, true
		}
	}
	return "", false
}

// topic returns the entry of a topic that exists.
func (s *state) topic(ordinal uint32) *topicEntry {
	return s.topics.get(ordinal / topicPageLen)[ordinal%topicPageLen]
}

// packedAt returns the record of a partition that exists.
func (s *state) packedAt(ordinal uint32) *packed {
	return &s.partitions.get(ordinal / pageLen)[ordinal%pageLen]
}

// partition returns a partition that exists, with lists of its own.
func (s *state) partition(ordinal uint32) Partition {
	r := s.packedAt(ordinal)
	if r.spilled() {
		p, _ := s.spill.get(ordinal)
		return *p
	}
	var p Partition
	r.unpack(&p, make([]BrokerID, 0, r.size()))
	return p
}

// load is partition with lists cut from room, if they fit.
func (s *state) load(ordinal uint32, p *Partition, room []BrokerID) {
	r := s.packedAt(ordinal)
	if r.spilled() {
		sp, _ := s.spill.get(ordinal)
		*p = *sp
		return
	}
	r.unpack(p, room)
}

// partitionID returns the name of the partition with that record.
func (s *state) partitionID(r *packed) PartitionID {
	return PartitionID{Topic: s.topic(r.topic).id, Partition: r.partition}
}
