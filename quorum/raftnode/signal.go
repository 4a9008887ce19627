package raftnode

import "sync"

// Signal tells everybody who watches that something is new. The zero value is ready; any goroutine may use it.
type Signal struct {
	mu   sync.Mutex
	next chan struct{}
}

// Watch returns a channel that the next Tell closes. Whoever waits for a condition watches first and looks then, so that
// nothing is missed in between.
func (s *Signal) Watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Tell wakes all who watch. It never waits, and costs nothing while nobody does.
func (s *Signal) Tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
