package image

import (
	"slices"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// reindex brings the indexes from the old state of a partition to the new one; either may be nil.
func (d *Delta) reindex(ordinal uint32, old, new *Partition) {
	ix := &d.indexes
	if old == nil {
		old = &noPartition
	}
	if new == nil {
		new = &noPartition
	}
	if !slices.Equal(old.Replicas, new.Replicas) || !slices.Equal(old.ISR, new.ISR) {
		d.reindexReplicas(ordinal, old, new)
	}
	if len(old.ELR)+len(old.LastKnownELR)+len(new.ELR)+len(new.LastKnownELR) > 0 {
		d.reindexELR(ordinal, old, new)
	}
	if len(old.AddingReplicas)+len(new.AddingReplicas) > 0 {
		d.countAdding(old, -1)
		d.countAdding(new, 1)
	}
	if old.Leader != new.Leader {
		if old.Leader != NoBroker {
			d.editIndex(old.Leader).leaders--
			d.trimIndex(old.Leader)
		}
		if new.Leader != NoBroker {
			d.editIndex(new.Leader).leaders++
		}
	}
	ix.leaderless.put(d.gen, ordinal, new != &noPartition && new.Leader == NoBroker)
	ix.notPreferred.put(d.gen, ordinal, isNotPreferred(new))
	ix.reassigning.put(d.gen, ordinal, new.IsReassigning())
}

var noPartition = Partition{Leader: NoBroker}

func (d *Delta) reindexReplicas(ordinal uint32, old, new *Partition) {
	for _, id := range new.Replicas {
		out := !slices.Contains(new.ISR, id)
		was := slices.Contains(old.Replicas, id)
		if was && out == !slices.Contains(old.ISR, id) {
			continue
		}
		ix := d.editIndex(id)
		if !was {
			ix.on.put(d.gen, ordinal, true)
		}
		ix.outside.put(d.gen, ordinal, out)
	}
	for _, id := range old.Replicas {
		if !slices.Contains(new.Replicas, id) {
			ix := d.editIndex(id)
			ix.on.put(d.gen, ordinal, false)
			d.recentOf(id).page = noPage // it may be gone
			ix.outside.put(d.gen, ordinal, false)
			d.trimIndex(id)
		}
	}
}

// countAdding counts the replicas of p that are being added and not in sync.
func (d *Delta) countAdding(p *Partition, by int) {
	for _, id := range p.AddingReplicas {
		if isNewReplica(p, id) {
			d.editIndex(id).adding += by
			d.trimIndex(id)
		}
	}
}

// countPending counts the replicas of a deleted topic.
func (d *Delta) countPending(p *PendingDeletion, by int) {
	d.deletingPartitions += by * int(p.Partitions)
	for _, r := range p.Replicas {
		ix, n := d.editIndex(r.Broker), by*int(r.Partitions)
		switch {
		case r.Deleted:
			ix.deleted += n
		case r.Failure != "":
			ix.deletingFailed += n
			fallthrough
		default:
			ix.deleting += n
		}
		d.trimIndex(r.Broker)
	}
}

func (d *Delta) reindexELR(ordinal uint32, old, new *Partition) {
	in := func(p *Partition, id BrokerID) bool {
		return slices.Contains(p.ELR, id) || slices.Contains(p.LastKnownELR, id)
	}
	for _, list := range [][]BrokerID{new.ELR, new.LastKnownELR} {
		for _, id := range list {
			if !in(old, id) {
				d.editIndex(id).elr.put(d.gen, ordinal, true)
			}
		}
	}
	for _, list := range [][]BrokerID{old.ELR, old.LastKnownELR} {
		for _, id := range list {
			if !in(new, id) {
				d.editIndex(id).elr.put(d.gen, ordinal, false)
				d.trimIndex(id)
			}
		}
	}
}

// indexNew is reindex for a new partition whose record fits a page; isr and elr are masks of its replicas.
func (d *Delta) indexNew(ordinal uint32, r *metadatapb.Partition, isr, elr uint8) {
	for i, b := range r.Replicas {
		d.indexReplica(BrokerID(b), ordinal)
		if isr&(1<<i) == 0 {
			d.editIndex(BrokerID(b)).outside.put(d.gen, ordinal, true)
		}
		if elr&(1<<i) != 0 {
			d.editIndex(BrokerID(b)).elr.put(d.gen, ordinal, true)
		}
	}
	switch {
	case r.Leader == nil:
		d.indexes.leaderless.put(d.gen, ordinal, true)
		return
	case *r.Leader != r.Replicas[0]:
		d.indexes.notPreferred.put(d.gen, ordinal, true)
	}
	d.editIndex(BrokerID(*r.Leader)).leaders++
}

// indexReplica notes that a new partition has the broker as a replica, and keeps the broker's index at hand.
func (d *Delta) indexReplica(id BrokerID, ordinal uint32) {
	if d.recent == nil {
		d.keepRecent()
	}
	c := d.recentOf(id)
	if page := ordinal / bitsPerPage; c.id != id || c.page != page {
		d.editReplicas(id, page)
	}
	c.on[ordinal/64%bitWords] |= 1 << (ordinal % 64)
	c.index.on.n++
}

// editReplicas puts a page of the partitions that the broker is a replica of at hand, for writing.
func (d *Delta) editReplicas(id BrokerID, page uint32) {
	ix := d.editIndex(id)
	c := d.recentOf(id)
	c.on, c.page = ix.on.t.editFrom(d.bitSlab, d.gen, page), page
}

// editIndex returns the index of a broker for writing. The few last ones are kept at hand.
func (d *Delta) editIndex(id BrokerID) *brokerIndex {
	if d.recent == nil {
		d.keepRecent()
	}
	c := d.recentOf(id)
	if c.index != nil && c.id == id {
		return c.index
	}
	ix, ok := d.indexes.brokers.get(id)
	if !ok || ix.gen != d.gen {
		n := new(brokerIndex)
		if ok {
			*n = *ix
		}
		n.gen = d.gen
		d.indexes.brokers.set(d.gen, id, n)
		ix = n
	}
	*c = recentIndex{id: id, page: noPage, index: ix}
	return ix
}

// keepRecent makes room for indexes that are at hand.
func (d *Delta) keepRecent() {
	n := 16 // a power of two
	if d.snapshot {
		n = 1024
	}
	d.recent = make([]recentIndex, n)
	for i := range d.recent {
		d.recent[i].page = noPage
	}
}

// recentOf is where the broker's index is kept at hand, if it is.
func (d *Delta) recentOf(id BrokerID) *recentIndex {
	return &d.recent[uint(uint32(id))&uint(len(d.recent)-1)]
}

// trimIndex forgets a broker that nothing refers to any more.
func (d *Delta) trimIndex(id BrokerID) {
	if d.editIndex(id).isEmpty() {
		d.indexes.brokers.delete(d.gen, id)
		*d.recentOf(id) = recentIndex{page: noPage}
	}
}

// noPage is no number of a page of bits.
const noPage = 1<<32 - 1

type recentIndex struct {
	id BrokerID
	// page is the number of on, a page of index.on that may be written; noPage if there is none.
	page  uint32
	index *brokerIndex
	on    *bitPage
}
