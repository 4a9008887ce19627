package replica

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// apply takes a request's changes into the session: first what is forgotten, then what is new or has moved. A request that
// cannot be meant for this session is refused as a whole, and ends it.
func (s *Server) apply(session *session, r *brokerpb.ReplicaFetchRequest) *brokerpb.ReplicaFetchResponse {
	switch {
	case image.BrokerID(r.GetLeaderId()) != s.cfg.BrokerID:
		return refusal(controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER,
			"the request is meant for broker %d, this is broker %v: look up the address again", r.GetLeaderId(), s.cfg.BrokerID)
	case image.BrokerID(r.GetReplicaId()) != session.replica:
		return refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"the stream is that of broker %v, the request that of broker %d", session.replica, r.GetReplicaId())
	case image.BrokerEpoch(r.GetReplicaBrokerEpoch()) != session.epoch:
		return refusal(controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH,
			"the stream was opened with broker epoch %d, the request has %d: open another stream", session.epoch, r.GetReplicaBrokerEpoch())
	case len(session.partitions)+len(r.GetPartitions()) > s.cfg.PartitionsMax:
		return refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"a session holds at most %d partitions, it would hold %d", s.cfg.PartitionsMax, len(session.partitions)+len(r.GetPartitions()))
	}
	now := s.clock.Now()
	if len(r.GetForgotten()) > 0 {
		s.forget(session, r.GetForgotten())
	}
	for _, position := range r.GetPartitions() {
		topic, err := image.UUIDFrom(position.GetTopicId())
		if err != nil {
			return refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic id %x: %v", position.GetTopicId(), err)
		}
		s.place(session, image.PartitionID{Topic: topic, Partition: position.GetPartition()}, position, now)
	}
	if now.Sub(session.swept) >= s.cfg.SweepInterval {
		session.sweep(now)
	}
	return nil
}

func (s *Server) forget(session *session, list []*brokerpb.ForgottenPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		topic, err := image.UUIDFrom(f.GetTopicId())
		if err != nil {
			continue // it cannot have been placed
		}
		id := image.PartitionID{Topic: topic, Partition: f.GetPartition()}
		if p := session.partitions[id]; p != nil {
			delete(session.partitions, id)
			s.unwatch(session, p)
		}
	}
}

// place takes a position. It is looked at in this request.
func (s *Server) place(session *session, id image.PartitionID, position *brokerpb.FetchPartition, now time.Time) {
	p := session.partitions[id]
	if p == nil {
		p = &followed{id: id}
		session.partitions[id] = p
		session.order = append(session.order, p)
		s.mu.Lock()
		s.watchers[id] = append(s.watchers[id], watcher{session, p})
		s.mu.Unlock()
	}
	p.position, p.told, p.counts, p.awaiting = position, now, true, false
	session.push(p)
}

// serve answers one request: at once if it finds something, else when a partition has news or the wait is over. An answer
// of offsets alone is held back for a moment, so that under load it rides with records. A request that comes meanwhile ends
// the wait and is returned; without one, next is nil.
func (s *Server) serve(session *session, r *brokerpb.ReplicaFetchRequest, requests <-chan *brokerpb.ReplicaFetchRequest) (
	response *brokerpb.ReplicaFetchResponse, next *brokerpb.ReplicaFetchRequest, err error) {
	bytesMax := min(max(int(r.GetMaxBytes()), 1), s.cfg.AnswerBytesMax)
	wait := time.NewTimer(min(time.Duration(r.GetMaxWaitMs())*time.Millisecond, s.cfg.WaitMax))
	defer wait.Stop()
	var a answer
	var held <-chan time.Time
	for {
		s.collect(session, &a, bytesMax)
		if a.urgent || a.full || r.GetMaxWaitMs() <= 0 {
			return a.response(), nil, nil
		}
		if len(a.entries) > 0 && held == nil {
			timer := time.NewTimer(s.cfg.WatermarkDelay)
			defer timer.Stop()
			held = timer.C
		}
		select {
		case <-session.wake:
		case <-held:
			return a.response(), nil, nil
		case <-wait.C:
			return a.response(), nil, nil
		case next, ok := <-requests:
			if !ok {
				return nil, nil, errEnded
			}
			return a.response(), next, nil
		case <-session.stop:
			return nil, nil, errClosing
		}
	}
}
