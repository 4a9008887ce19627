package replica

import (
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
)

// answer is one response being made.
type answer struct {
	entries []*brokerpb.FetchedPartition
	touched []*followed // of entries, at the same places
	// bytes are those of the records; urgent: there is something that should not wait.
	bytes  int
	urgent bool
	full   bool
}

// collect takes partitions off the session's queue and adds what they have to tell, until the queue is empty or the
// answer full. A partition whose next batch does not fit keeps its turn for the next answer, in which it is first.
func (s *Server) collect(session *session, a *answer, bytesMax int) {
	for !a.full {
		p := session.pop()
		if p == nil {
			return
		}
		if p.gone || p.awaiting {
			continue
		}
		if len(a.entries) >= s.cfg.EntriesMax && p.entry == nil || a.bytes >= bytesMax {
			session.putBack(p)
			a.full = true
			return
		}
		limit := min(int(p.position.GetMaxBytes()), bytesMax-a.bytes)
		r := s.source.ReadForReplica(p.id, session.readRequest(p, limit, a.bytes == 0))
		p.counts = false
		if !r.isUrgent() && r.LogEndOffset > p.position.GetFetchOffset() && a.bytes > 0 {
			session.putBack(p)
			a.full = true
			return
		}
		a.add(p, &r)
	}
}

// add takes a result into the answer if it holds something that the follower does not know.
func (a *answer) add(p *followed, r *ReadResult) {
	if p.sent && !r.isUrgent() && r.HighWatermark == p.highWatermark && r.LogStartOffset == p.logStartOffset {
		return
	}
	if p.entry == nil {
		p.entry = &brokerpb.FetchedPartition{TopicId: p.position.GetTopicId(), Partition: p.position.GetPartition()}
		a.entries, a.touched = append(a.entries, p.entry), append(a.touched, p)
	}
	e := p.entry
	e.Error, e.Records = r.Error, r.Records
	e.HighWatermark, e.LogStartOffset, e.LogEndOffset = r.HighWatermark, r.LogStartOffset, r.LogEndOffset
	if d := r.Diverging; d != nil {
		epoch, end := int32(d.Epoch), d.EndOffset
		e.Diverging = &brokerpb.EpochEndOffset{LeaderEpoch: &epoch, EndOffset: &end}
	}
	a.bytes += len(r.Records)
	if r.isUrgent() {
		a.urgent, p.awaiting = true, true
	}
	p.sent, p.highWatermark, p.logStartOffset = r.Error == nil && r.Diverging == nil, r.HighWatermark, r.LogStartOffset
}

// response finishes the answer.
func (a *answer) response() *brokerpb.ReplicaFetchResponse {
	for _, p := range a.touched {
		p.entry = nil
	}
	return &brokerpb.ReplicaFetchResponse{Partitions: a.entries}
}
