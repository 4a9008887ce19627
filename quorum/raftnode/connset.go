package raftnode

import (
	"net"
	"sync/atomic"
)

// trackedConn tells its set when it is closed. Close does not say goodbye over TLS: that could block on a dead peer, and
// the library's messages need no end mark.
type trackedConn struct {
	net.Conn
	raw       net.Conn // what Conn runs over, or Conn itself
	from      string   // who dialed, as its hello says; empty for a connection of our own
	onClose   func()
	closing   atomic.Bool
	pushedOut atomic.Bool
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	if c.closing.CompareAndSwap(false, true) && c.onClose != nil {
		c.onClose()
	}
	return c.raw.Close()
}

// connSet holds connections in the order in which they came. The owner's lock guards it.
type connSet struct{ conns []*trackedConn }

// add takes a connection in; beyond max it takes the oldest out and returns it.
func (s *connSet) add(c *trackedConn, max int) (oldest *trackedConn) {
	if len(s.conns) >= max {
		oldest = s.conns[0]
		s.remove(oldest)
	}
	s.conns = append(s.conns, c)
	return oldest
}

func (s *connSet) remove(c *trackedConn) {
	for i, other := range s.conns {
		if other == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			return
		}
	}
}

func (s *connSet) all() []*trackedConn { return append([]*trackedConn(nil), s.conns...) }
