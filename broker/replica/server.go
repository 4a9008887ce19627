package replica

import (
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/env"
)

// Server is the leader's end of the fetch streams. It implements brokerpb.ReplicaApiServer.
type Server struct {
	brokerpb.UnimplementedReplicaApiServer
	cfg    ServerConfig
	source Source
	clock  env.Clock
	logger *slog.Logger

	wg sync.WaitGroup // handlers and receivers

	mu sync.RWMutex
	// watchers are the sessions that hold a partition.
	watchers map[image.PartitionID][]watcher
	sessions map[image.BrokerID]*session
	closed   bool
}

// watcher is a partition's place in a session.
type watcher struct {
	session  *session
	followed *followed
}

// NewServer returns a server that reads from source.
func NewServer(cfg ServerConfig, source Source, clock env.Clock, logger *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, source: source, clock: clock, logger: logger,
		watchers: make(map[image.PartitionID][]watcher), sessions: make(map[image.BrokerID]*session),
	}, nil
}

// Notify tells that a follower may find something new in a partition: its log has grown, its high watermark or log
// start has moved, its role or leader epoch has changed, it was removed. It does not block, and costs a look-up if
// nobody follows the partition.
func (s *Server) Notify(id image.PartitionID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.watchers[id] {
		w.session.push(w.followed)
	}
}

// Close tells all streams to end; streams that begin later are refused. It does not wait: a stream whose follower does not
// read ends only with its connection. It must be called before the gRPC server is stopped gracefully, which waits
// for streams, and would wait for parked ones for ever.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		for _, session := range s.sessions {
			close(session.stop)
		}
		clear(s.sessions)
	}
	s.mu.Unlock()
}

// Wait returns when the goroutines of all streams have ended. It is called after Close, when the gRPC server has stopped.
func (s *Server) Wait() { s.wg.Wait() }

// Sessions is the number of open streams.
func (s *Server) Sessions() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.sessions)
}

var (
	errClosing = status.Error(codes.Unavailable, "the fetch stream is closed: the broker shuts down, or another stream took over")
	errEnded   = status.Error(codes.Canceled, "the follower ended the stream")
)

// Fetch serves one stream: a request is answered before the next is looked at, and a request that comes while one
// waits ends that wait.
func (s *Server) Fetch(stream brokerpb.ReplicaApi_FetchServer) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosing
	}
	s.wg.Add(2)
	s.mu.Unlock()
	defer s.wg.Done()
	requests, done := make(chan *brokerpb.ReplicaFetchRequest), make(chan struct{})
	defer close(done)
	go func() { // it ends with the stream, and the stream with this handler
		defer s.wg.Done()
		receive(stream, requests, done)
	}()
	first, ok := <-requests
	if !ok {
		return nil
	}
	session, refused := s.begin(first)
	if refused != nil {
		return send(stream, first, refused)
	}
	defer s.end(session)
	for request := first; request != nil; {
		if refused := s.apply(session, request); refused != nil {
			return send(stream, request, refused)
		}
		response, next, err := s.serve(session, request, requests)
		if err != nil {
			return err
		}
		if err := send(stream, request, response); err != nil {
			return err
		}
		if next == nil {
			select {
			case next = <-requests:
			case <-session.stop:
				return errClosing
			}
		}
		request = next
	}
	return nil
}

// receive hands requests over one at a time, and closes the channel when the stream has ended.
func receive(stream brokerpb.ReplicaApi_FetchServer, requests chan<- *brokerpb.ReplicaFetchRequest, done <-chan struct{}) {
	defer close(requests)
	for {
		request, err := stream.Recv()
		if err != nil {
			return
		}
		select {
		case requests <- request:
		case <-done:
			return
		}
	}
}

func send(stream brokerpb.ReplicaApi_FetchServer, request *brokerpb.ReplicaFetchRequest, response *brokerpb.ReplicaFetchResponse) error {
	response.RequestId = request.GetRequestId()
	return stream.Send(response)
}

// begin opens a session for the replica that a stream's first request names. An older session of it ends; one of a later
// life of its broker refuses the stream.
func (s *Server) begin(r *brokerpb.ReplicaFetchRequest) (*session, *brokerpb.ReplicaFetchResponse) {
	replica, epoch := image.BrokerID(r.GetReplicaId()), image.BrokerEpoch(r.GetReplicaBrokerEpoch())
	if replica < 0 {
		return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "replica id %v is negative: only brokers fetch here", replica)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER, "broker %v shuts down", s.cfg.BrokerID)
	}
	if old := s.sessions[replica]; old != nil {
		if epoch < old.epoch {
			return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH,
				"broker %v fetches with epoch %d, and its epoch %d fetches already", replica, epoch, old.epoch)
		}
		close(old.stop)
	}
	next := newSession(replica, epoch)
	s.sessions[replica] = next
	s.logger.Info("a follower fetches", "follower", replica, "brokerEpoch", epoch)
	return next, nil
}

// end forgets a session.
func (s *Server) end(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range session.partitions {
		s.unwatch(session, p)
	}
	if s.sessions[session.replica] == session {
		delete(s.sessions, session.replica)
	}
}

func (s *Server) unwatch(session *session, p *followed) {
	p.gone = true
	kept := slices.DeleteFunc(s.watchers[p.id], func(w watcher) bool { return w.session == session })
	if len(kept) == 0 {
		delete(s.watchers, p.id)
	} else {
		s.watchers[p.id] = kept
	}
}
