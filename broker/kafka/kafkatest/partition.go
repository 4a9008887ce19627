package kafkatest

import (
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

// sequencesKept is the number of batches remembered a producer.
const sequencesKept = 5

// Partition is a replica in memory.
type Partition struct {
	changed func()

	mu        sync.Mutex
	batches   []log.Batch
	bytes     int
	end, high int64
	held      bool // the watermark does not follow
	leads     bool
	since     image.LeaderEpoch // leads without a break since
	epoch     image.LeaderEpoch
	isr       int
	minISR    int
	producers map[int64][]producerBatch
	appends   []int64 // first offsets in order of appending
}

type producerBatch struct {
	epoch       int16
	first, last int32
	offset, end int64
}

// Hold makes the high watermark stand still, as a slow follower does.
func (p *Partition) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// Release lets the watermark go to the log's end and on.
func (p *Partition) Release() {
	p.mu.Lock()
	p.held, p.high = false, p.end
	p.mu.Unlock()
	p.changed()
}

// SetISR sets the sizes that acks=-1 is judged by.
func (p *Partition) SetISR(size, minimum int) {
	p.mu.Lock()
	p.isr, p.minISR = size, minimum
	p.mu.Unlock()
	p.changed()
}

// End is the log end offset.
func (p *Partition) End() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

// Batches are the stored batches.
func (p *Partition) Batches() []log.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]log.Batch(nil), p.batches...)
}

func (p *Partition) setLeader(leads bool, epoch image.LeaderEpoch) {
	p.mu.Lock()
	if leads && !p.leads {
		p.since = epoch
	}
	p.leads, p.epoch = leads, epoch
	p.mu.Unlock()
	p.changed()
}

// Resign makes the replica refuse as a follower does, before the image names another leader.
func (p *Partition) Resign() {
	p.mu.Lock()
	p.leads = false
	p.mu.Unlock()
	p.changed()
}

// CanAppend implements [kafka.Partition].
func (p *Partition) CanAppend(acks int16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.canAppend(acks)
}

func (p *Partition) canAppend(acks int16) error {
	switch {
	case !p.leads:
		return kerr.NotLeaderForPartition
	case acks == -1 && p.isr < p.minISR:
		return fmt.Errorf("%w: ISR has %d members, min.insync.replicas is %d", kerr.NotEnoughReplicas, p.isr, p.minISR)
	}
	return nil
}

// AppendAsLeader implements [kafka.Partition].
func (p *Partition) AppendAsLeader(records []byte, acks int16) (kafka.AppendResult, error) {
	parsed, err := log.ParseProduce(records, 1<<20+12)
	if err != nil {
		return kafka.AppendResult{}, fmt.Errorf("%w: %v", kerr.ErrorForCode(int16(log.CodeOf(err))), err)
	}
	p.mu.Lock()
	res, err := p.append(parsed.Batch(), acks)
	p.mu.Unlock()
	if err == nil {
		p.changed()
	}
	return res, err
}

func (p *Partition) append(b log.Batch, acks int16) (kafka.AppendResult, error) {
	res := kafka.AppendResult{LogAppendTimeMs: -1, LeaderEpoch: p.epoch}
	if err := p.canAppend(acks); err != nil {
		return res, err
	}
	entry := producerBatch{b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), p.end, p.end + int64(b.LastOffsetDelta())}
	if id := b.ProducerID(); id != log.NoProducerID {
		known := p.producers[id]
		for _, k := range known {
			if k.epoch == entry.epoch && k.first == entry.first && k.last == entry.last {
				res.FirstOffset, res.LastOffset = k.offset, k.end
				return res, nil
			}
		}
		if n := len(known); n > 0 && known[n-1].epoch == entry.epoch && entry.first != int32((int64(known[n-1].last)+1)&math.MaxInt32) {
			return res, kerr.OutOfOrderSequenceNumber
		}
		known = append(known, entry)
		p.producers[id] = known[max(0, len(known)-sequencesKept):]
	}
	own := log.Batch(append([]byte(nil), b...))
	own.SetBaseOffset(p.end)
	own.SetLeaderEpoch(int32(p.epoch))
	p.batches = append(p.batches, own)
	p.bytes += len(own)
	p.appends = append(p.appends, p.end)
	res.FirstOffset, res.LastOffset = entry.offset, entry.end
	p.end = entry.end + 1
	if !p.held {
		p.high = p.end
	}
	return res, nil
}

// IsReplicated implements [kafka.Partition].
func (p *Partition) IsReplicated(offset int64, epoch image.LeaderEpoch) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leads || epoch < p.since:
		return false, kerr.NotLeaderForPartition
	case p.high < offset:
		return false, nil
	case p.isr < p.minISR:
		return false, kerr.NotEnoughReplicasAfterAppend
	}
	return true, nil
}

func (p *Partition) check(epoch image.LeaderEpoch, leaderOnly bool) error {
	switch {
	case epoch != kafka.NoEpoch && epoch < p.epoch:
		return kerr.FencedLeaderEpoch
	case epoch > p.epoch:
		return kerr.UnknownLeaderEpoch
	case leaderOnly && !p.leads:
		return kerr.NotLeaderForPartition
	}
	return nil
}

// Read implements [kafka.Partition].
func (p *Partition) Read(r kafka.ReadRequest) (kafka.ReadResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	res := kafka.ReadResult{HighWatermark: p.high, LastStableOffset: p.high}
	if err := p.check(r.CurrentLeaderEpoch, r.LeaderOnly); err != nil {
		return res, err
	}
	if r.Offset < 0 || r.Offset > p.end {
		return res, kerr.OffsetOutOfRange
	}
	for _, b := range p.batches {
		if b.LastOffset() < r.Offset || b.LastOffset() >= p.high {
			continue
		}
		if fits := len(res.Records)+len(b) <= r.BytesMax; !fits && (len(res.Records) > 0 || !r.OneBatch) {
			break
		}
		res.Records = append(res.Records, b...)
	}
	return res, nil
}

// Readable implements [kafka.Partition].
func (p *Partition) Readable(r kafka.ReadRequest) (int, error) {
	r.OneBatch = true
	res, err := p.Read(r)
	return len(res.Records), err
}

// ListOffset implements [kafka.Partition].
func (p *Partition) ListOffset(r kafka.ListOffsetRequest) (kafka.TimestampedOffset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	none := kafka.TimestampedOffset{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
	if err := p.check(r.CurrentLeaderEpoch, true); err != nil {
		return none, err
	}
	switch r.Timestamp {
	case kafka.EarliestTimestamp:
		return kafka.TimestampedOffset{Offset: 0, TimestampMs: -1, LeaderEpoch: p.epoch}, nil
	case kafka.LatestTimestamp:
		if p.held && p.high < p.end {
			return none, kerr.OffsetNotAvailable
		}
		return kafka.TimestampedOffset{Offset: p.high, TimestampMs: -1, LeaderEpoch: p.epoch}, nil
	}
	found := none
	for _, b := range p.batches {
		switch ts := b.MaxTimestamp(); {
		case r.Timestamp == kafka.MaxTimestamp && ts > found.TimestampMs:
			found = kafka.TimestampedOffset{Offset: b.LastOffset(), TimestampMs: ts, LeaderEpoch: p.epoch}
		case r.Timestamp >= 0 && ts >= r.Timestamp:
			return kafka.TimestampedOffset{Offset: b.BaseOffset(), TimestampMs: ts, LeaderEpoch: p.epoch}, nil
		}
	}
	return found, nil
}

// EpochEnd implements [kafka.Partition].
func (p *Partition) EpochEnd(current, epoch image.LeaderEpoch) (kafka.EpochEnd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(current, true); err != nil {
		return kafka.EpochEnd{}, err
	}
	if epoch < p.epoch {
		return kafka.EpochEnd{Epoch: kafka.NoEpoch, EndOffset: -1}, nil
	}
	return kafka.EpochEnd{Epoch: p.epoch, EndOffset: p.end}, nil
}
