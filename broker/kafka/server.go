package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// Server serves the Kafka protocol on one listener.
type Server struct {
	cfg     Config
	backend Backend
	clock   env.Clock
	log     *slog.Logger
	metrics *metrics

	table     table
	purgatory *purgatory
	frames    *frameBudget
	fetching  fetchBudget
	buffers   bufferPool
	forwards  *forwarder
	creating  autoCreation
	complain  *complaints

	running  atomic.Bool
	base     context.Context // ends after the connections; set by Run
	draining chan struct{}   // closed when no further request is taken

	mu    sync.Mutex
	conns map[*conn]struct{}
	perIP map[string]int
	wg    sync.WaitGroup // connections
}

// NewServer makes a server; it does no work. The configuration has been validated. Metrics may be shared by servers.
func NewServer(cfg Config, backend Backend, clock env.Clock, log *slog.Logger, m *Metrics) *Server {
	s := &Server{
		cfg:      cfg,
		backend:  backend,
		clock:    clock,
		log:      log,
		table:    newTable(),
		frames:   newFrameBudget(cfg.BufferedBytesMax, cfg.LargeBufferedBytesMax, clock),
		draining: make(chan struct{}),
		conns:    map[*conn]struct{}{},
		perIP:    map[string]int{},
	}
	s.fetching.left.Store(cfg.FetchingBytesMax)
	s.metrics = m.forTable(&s.table)
	s.purgatory = newPurgatory(clock)
	s.forwards = newForwarder(cfg.ForwardedMax)
	s.complain = &complaints{log: log, clock: clock}
	return s
}

// Notify tells that a partition has changed in a way that a waiting request may depend on. It never blocks and takes
// no lock but its own, so it may be called under the partition's lock, at any time, also before and after Run.
func (s *Server) Notify(id image.PartitionID) { s.purgatory.notify(id) }

// Run accepts connections until the context ends; then it stops accepting, answers what is pending within
// ShutdownMax, closes every connection and returns nil. It returns an error only if the listener fails before.
// Run closes the listener and waits for every goroutine that it started.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.base = work
	var loops sync.WaitGroup
	loops.Go(func() { s.purgatory.run(work) })
	failed := make(chan error, 1)
	loops.Go(func() { failed <- s.accept(work, ln) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	close(s.draining)
	lerr := ln.Close()
	if errors.Is(lerr, net.ErrClosed) {
		lerr = nil
	}
	s.drain()
	stop()
	s.forwards.wait()
	loops.Wait()
	return errors.Join(err, lerr)
}

// drain lets the connections finish within the bound, then closes them.
func (s *Server) drain() {
	s.mu.Lock()
	for c := range s.conns {
		c.stopReading()
	}
	s.mu.Unlock()
	s.purgatory.drain()

	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(s.cfg.ShutdownMax)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	s.mu.Lock()
	for c := range s.conns {
		c.close(reasonShutdown)
	}
	s.mu.Unlock()
	<-done
}
