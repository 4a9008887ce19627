package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// Versions of Produce from which on answers differ.
const (
	produceZstdMin    = 7  // KIP-110
	produceHintsMin   = 10 // KIP-951
	produceTopicIDMin = 13 // KIP-516
)

// Values of acks.
const (
	acksNone   int16 = 0
	acksLeader int16 = 1
	acksAll    int16 = -1
)

// produce appends batches. Each partition is decided for itself. Refusals, in order:
//   - a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all
//   - unknown topic id: UNKNOWN_TOPIC_ID; unknown name or partition: UNKNOWN_TOPIC_OR_PARTITION
//   - acks other than -1, 0, 1: INVALID_REQUIRED_ACKS
//   - broken log: KAFKA_STORAGE_ERROR; not hosted, not leader: NOT_LEADER_OR_FOLLOWER
//   - acks -1 and too small an ISR: NOT_ENOUGH_REPLICAS
//   - zstd below version 7 (KIP-110): UNSUPPORTED_COMPRESSION_TYPE
//   - a bad batch, or a bad epoch or sequence of its producer: see [Partition].AppendAsLeader
//
// Answer: acks 1 after the append; acks -1 when every partition is decided or the time-out has passed, then
// REQUEST_TIMED_OUT for those that are not, whose data stays; acks 0 none, and a failure closes the connection.
func (s *Server) produce(r *request) {
	req := r.body.(*kmsg.ProduceRequest)
	p := &produceCall{s: s, r: r, acks: req.Acks, im: s.backend.Metadata.Image()}
	p.hints = hints{s: s, im: p.im}
	for i := range req.Topics {
		p.topic(req, &req.Topics[i])
	}
	switch {
	case p.acks == acksNone && p.failed:
		r.hangUp(reasonProduceFailed)
	case p.acks == acksNone:
		r.replyNothing()
	case p.undecided == 0:
		r.reply(p.response())
	default:
		wait := min(time.Duration(req.TimeoutMillis)*time.Millisecond, s.cfg.WaitMax)
		w := &waiter{keys: p.keys(), deadline: r.arrived.Add(max(wait, 0)), ctx: r.ctx, check: p.check, expire: p.expire}
		r.parked.Store(w)
		s.purgatory.add(w)
	}
}

// produceCall is one Produce under way. After it is parked, only the purgatory touches it.
type produceCall struct {
	s     *Server
	r     *request
	acks  int16
	im    *image.Image
	hints hints

	topics    []kmsg.ProduceResponseTopic
	waiting   []replicating
	undecided int
	failed    bool
}

// replicating is an append that waits for the high watermark.
type replicating struct {
	id               image.PartitionID
	topic, partition int // in the response
	offset           int64
	epoch            image.LeaderEpoch
	decided          bool
}

func (p *produceCall) topic(req *kmsg.ProduceRequest, t *kmsg.ProduceRequestTopic) {
	topic, err := findTopic(p.im, p.r.version >= produceTopicIDMin, t.Topic, t.TopicID)
	if req.TransactionID != nil {
		err = kerr.TransactionalIDAuthorizationFailed
	}
	out := kmsg.NewProduceResponseTopic()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	out.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(t.Partitions))
	for i := range t.Partitions {
		in := &t.Partitions[i]
		part := kmsg.NewProduceResponseTopicPartition()
		part.Partition = in.Partition
		part.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{}
		part.BaseOffset = -1
		perr := err
		id := image.PartitionID{Partition: in.Partition}
		if perr == nil {
			id.Topic = topic.ID()
			perr = p.append(topic, in, &part, i)
		}
		if perr != nil {
			p.fail(&part, id, perr)
		}
		out.Partitions = append(out.Partitions, part)
	}
	p.topics = append(p.topics, out)
}

// append appends one batch and, with acks -1, notes what it waits for.
func (p *produceCall) append(t image.Topic, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition, index int) error {
	partition, err := p.s.findPartition(t, in.Partition)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	if p.acks != acksNone && p.acks != acksLeader && p.acks != acksAll {
		return kerr.InvalidRequiredAcks
	}
	if err != nil {
		return err
	}
	if err := partition.CanAppend(p.acks); err != nil {
		return err
	}
	if p.r.version < produceZstdMin && isZstd(in.Records) {
		return kerr.UnsupportedCompressionType
	}
	res, err := partition.AppendAsLeader(in.Records, p.acks)
	if err != nil {
		return err
	}
	out.BaseOffset, out.LogStartOffset, out.LogAppendTime = res.FirstOffset, res.LogStartOffset, res.LogAppendTimeMs
	if p.acks != acksAll {
		return nil
	}
	done, err := partition.IsReplicated(res.LastOffset+1, res.LeaderEpoch)
	if done || err != nil {
		return err
	}
	p.undecided++
	p.waiting = append(p.waiting, replicating{
		id: image.PartitionID{Topic: t.ID(), Partition: in.Partition}, topic: len(p.topics), partition: index,
		offset: res.LastOffset + 1, epoch: res.LeaderEpoch})
	return nil
}

// isZstd looks at the attributes of a batch of format 2, whose other fields nobody has checked yet.
func isZstd(batch []byte) bool {
	const attributesLowAt, codecMask, zstd = 22, 0x07, 4
	return len(batch) > attributesLowAt && batch[attributesLowAt]&codecMask == zstd
}

func (p *produceCall) fail(out *kmsg.ProduceResponseTopicPartition, id image.PartitionID, err error) {
	p.failed = true
	out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
	if p.r.version < produceHintsMin {
		return
	}
	if h, ok := p.hints.find(id, out.ErrorCode); ok {
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = int32(h.leader), int32(h.epoch)
	}
}

func (p *produceCall) keys() []image.PartitionID {
	seen := make(map[image.PartitionID]bool, len(p.waiting))
	keys := make([]image.PartitionID, 0, len(p.waiting))
	for _, w := range p.waiting {
		if !seen[w.id] {
			seen[w.id] = true
			keys = append(keys, w.id)
		}
	}
	return keys
}

// check decides what it can of one partition, and answers when nothing is left.
func (p *produceCall) check(id image.PartitionID) bool {
	for i := range p.waiting {
		w := &p.waiting[i]
		if w.decided || w.id != id {
			continue
		}
		done, err := p.isReplicated(w)
		if err != nil {
			p.decide(w, err)
		} else if done {
			p.decide(w, nil)
		}
	}
	if p.undecided > 0 {
		return false
	}
	p.r.reply(p.response())
	return true
}

// isReplicated looks the partition up anew: it may be gone, or have another log, by now.
func (p *produceCall) isReplicated(w *replicating) (bool, error) {
	partition, err := p.s.backend.Partitions.Lookup(w.id)
	if err != nil {
		return false, err
	}
	return partition.IsReplicated(w.offset, w.epoch)
}

func (p *produceCall) decide(w *replicating, err error) {
	w.decided = true
	p.undecided--
	if err == nil {
		return
	}
	// The leader has moved since the request came: the hint comes from the newest image.
	p.im = p.s.backend.Metadata.Image()
	p.hints.im = p.im
	p.fail(&p.topics[w.topic].Partitions[w.partition], w.id, err)
}

func (p *produceCall) expire() {
	for i := range p.waiting {
		if w := &p.waiting[i]; !w.decided {
			p.decide(w, kerr.RequestTimedOut)
		}
	}
	p.r.reply(p.response())
}

func (p *produceCall) response() *kmsg.ProduceResponse {
	resp := response[*kmsg.ProduceResponse](p.r)
	resp.Topics = p.topics
	if resp.Topics == nil {
		resp.Topics = []kmsg.ProduceResponseTopic{}
	}
	if p.r.version >= produceHintsMin {
		resp.Brokers = p.hints.produceBrokers()
	}
	return resp
}
