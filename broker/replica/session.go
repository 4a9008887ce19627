package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// session is the leader's memory of one stream. Its fields belong to the stream's handler, except the queue.
type session struct {
	// replica and epoch are those of the first request.
	replica    image.BrokerID
	epoch      image.BrokerEpoch
	partitions map[image.PartitionID]*followed
	// order are the partitions in the order in which they came, some of them gone.
	order []*followed
	swept time.Time
	// stop is closed when another stream of the same replica takes over, or the server closes.
	stop chan struct{}
	// wake says that something was put into the queue.
	wake chan struct{}

	mu sync.Mutex
	// head to tail are the partitions to look at, the next one first.
	head, tail *followed
}

// followed is a partition of a session.
type followed struct {
	id       image.PartitionID
	position *brokerpb.FetchPartition
	// told is when the position was last said, or said again by a sweep; counts: it has not been counted since.
	told   time.Time
	counts bool
	// awaiting: an answer obliges the follower to say where it is now; until then there is nothing to look at.
	awaiting bool
	// Bounds as last sent; sent is false if the next answer must hold them in any case.
	sent                          bool
	highWatermark, logStartOffset int64
	// entry is the partition's part of the answer being made, nil if it has none.
	entry *brokerpb.FetchedPartition
	gone  bool

	// Of the queue, guarded by session.mu:
	queued bool
	next   *followed
}

func newSession(replica image.BrokerID, epoch image.BrokerEpoch) *session {
	return &session{
		replica: replica, epoch: epoch, partitions: make(map[image.PartitionID]*followed),
		stop: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// push puts a partition at the end of the queue, if it is not in it, and wakes the handler.
func (s *session) push(p *followed) {
	s.mu.Lock()
	if !p.queued {
		p.queued, p.next = true, nil
		if s.tail == nil {
			s.head = p
		} else {
			s.tail.next = p
		}
		s.tail = p
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// putBack puts a partition at the front of the queue: it has the first turn next time.
func (s *session) putBack(p *followed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.queued {
		return // it was pushed meanwhile, and keeps that turn
	}
	p.queued, p.next = true, s.head
	s.head = p
	if s.tail == nil {
		s.tail = p
	}
}

// pop takes the first partition off the queue, nil if there is none.
func (s *session) pop() *followed {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.head
	if p == nil {
		return nil
	}
	if s.head = p.next; s.head == nil {
		s.tail = nil
	}
	p.queued, p.next = false, nil
	return p
}

// sweep counts the request as a fetch of every partition at rest: a follower that stands at the end of an idle log says
// so by asking at all. One that was answered, or is to be looked at anyway, is not at rest: the fetch that it had
// stands, and would only be overwritten.
func (s *session) sweep(now time.Time) {
	s.swept = now
	kept := s.order[:0]
	for _, p := range s.order {
		if p.gone {
			continue
		}
		kept = append(kept, p)
		if !p.awaiting && !s.isQueued(p) {
			p.told, p.counts = now, true
			s.push(p)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
}

func (s *session) isQueued(p *followed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.queued
}

// readRequest is the fetch of one partition of the session.
func (s *session) readRequest(p *followed, bytesMax int, oneBatch bool) ReadRequest {
	r := ReadRequest{
		Replica: s.replica, BrokerEpoch: s.epoch, LeaderEpoch: image.LeaderEpoch(p.position.GetCurrentLeaderEpoch()),
		FetchOffset: p.position.GetFetchOffset(), LogStartOffset: p.position.GetLogStartOffset(),
		LastFetchedEpoch: partition.NoLeaderEpoch, BytesMax: bytesMax, OneBatch: oneBatch,
		Counts: p.counts, At: p.told,
	}
	if p.position.LastFetchedEpoch != nil {
		r.LastFetchedEpoch = image.LeaderEpoch(p.position.GetLastFetchedEpoch())
	}
	return r
}

// refusal makes a whole-request refusal.
func refusal(code controllerpb.ErrorCode, format string, args ...any) *brokerpb.ReplicaFetchResponse {
	return &brokerpb.ReplicaFetchResponse{Error: controllerpb.NewError(code, format, args...)}
}
