package log

import (
	"time"
)

// producerWindow is how many batches of a producer are remembered: the Java client has at most five requests
// in flight (Kafka: ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const producerWindow = 5

// noProducerEpoch stands in an entry that knows of no epoch.
const noProducerEpoch int16 = -1

// producerBatch is a batch as its producer knows it.
type producerBatch struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
}

func (b producerBatch) firstSequence() int32 { return addSequence(b.lastSequence, -b.offsetDelta) }

func (b producerBatch) firstOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

// producerEntry is what a log knows of one producer.
type producerEntry struct {
	epoch   int16
	count   uint8 // of the batches that are remembered
	batches [producerWindow]producerBatch
	// lastMs is the broker's clock at the newest batch.
	lastMs int64
}

func (e *producerEntry) remembered() []producerBatch { return e.batches[:e.count] }

func (e *producerEntry) add(b producerBatch) {
	if e.count == producerWindow {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = b
	e.count++
}

// producers is the state of the idempotent producers of one log, up to an offset. It is guarded by the log's
// writer lock. (Kafka: ProducerStateManager, ProducerAppendInfo.)
type producers struct {
	byID map[int64]*producerEntry
	// end is the offset up to which batches are taken in.
	end int64
	// snapshotEnd is the offset of the newest snapshot on disk, -1 if there is none.
	snapshotEnd int64
}

func newProducers(end int64) *producers { return &producers{end: end, snapshotEnd: -1} }

// check tests a client's batch against what its producer has written before. With duplicate true the batch is in the
// log already, as the batch returned. everHeld tells whether the log ever held a record.
func (p *producers) check(b Batch, everHeld bool) (old producerBatch, duplicate bool, err error) {
	id := b.ProducerID()
	if id == NoProducerID {
		return producerBatch{}, false, nil
	}
	first, last := b.BaseSequence(), b.LastSequence()
	e, known := p.byID[id]
	switch {
	case !known && everHeld:
		return producerBatch{}, false, nil // it may have been forgotten
	case !known && first != 0:
		return producerBatch{}, false, refuse(ErrOutOfOrderSequence,
			"producer %d begins with sequence %d in a partition that never held a record; it must be 0", id, first)
	case !known:
		return producerBatch{}, false, nil
	case b.ProducerEpoch() < e.epoch:
		return producerBatch{}, false, refuse(ErrInvalidProducerEpoch,
			"producer %d has epoch %d; a producer of epoch %d has written already", id, b.ProducerEpoch(), e.epoch)
	case b.ProducerEpoch() > e.epoch || e.count == 0:
		if first != 0 {
			return producerBatch{}, false, refuse(ErrOutOfOrderSequence,
				"producer %d begins epoch %d with sequence %d; it must be 0", id, b.ProducerEpoch(), first)
		}
		return producerBatch{}, false, nil
	}
	for _, r := range e.remembered() {
		if r.firstSequence() == first && r.lastSequence == last {
			return r, true, nil
		}
	}
	if expected := addSequence(e.batches[e.count-1].lastSequence, 1); first != expected {
		return producerBatch{}, false, refuse(ErrOutOfOrderSequence,
			"producer %d of epoch %d: sequence %d does not follow %d and is none of its last %d batches",
			id, e.epoch, first, e.batches[e.count-1].lastSequence, e.count)
	}
	return producerBatch{}, false, nil
}

// update takes in a batch that is in the log, without a test: a follower and a recovery take what is there.
func (p *producers) update(b Batch, nowMs int64) {
	p.end = b.NextOffset()
	id := b.ProducerID()
	if id == NoProducerID {
		return
	}
	e := p.entry(id)
	e.lastMs = max(e.lastMs, nowMs)
	if b.ProducerEpoch() != e.epoch {
		e.epoch = b.ProducerEpoch()
		e.count = 0
	}
	if b.IsControl() {
		return // a marker has no sequence
	}
	e.add(producerBatch{b.LastSequence(), b.LastOffsetDelta(), b.LastOffset()})
}

func (p *producers) entry(id int64) *producerEntry {
	e, ok := p.byID[id]
	if !ok {
		if p.byID == nil {
			p.byID = make(map[int64]*producerEntry)
		}
		e = &producerEntry{epoch: noProducerEpoch}
		p.byID[id] = e
	}
	return e
}

// expire forgets producers that have been idle for the time given, and returns how many.
func (p *producers) expire(now time.Time, ageMax time.Duration) int {
	n := 0
	for id, e := range p.byID {
		if now.UnixMilli()-e.lastMs >= ageMax.Milliseconds() {
			delete(p.byID, id)
			n++
		}
	}
	return n
}
