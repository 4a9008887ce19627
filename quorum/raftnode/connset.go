package raftnode

import (
	"net"
	"sync/atomic"
)

// trackedConn tells its set when it is closed.
type trackedConn struct {
	net.Conn
	onClose   func()
	closing   atomic.Bool
	pushedOut atomic.Bool
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	if c.closing.CompareAndSwap(false, true) && c.onClose != nil {
		c.onClose()
	}
	return c.Conn.Close()
}

// connSet holds connections in the order in which they came. The owner's lock guards it.
type connSet struct{ conns []net.Conn }

// add takes a connection in; beyond max it takes the oldest out and returns it.
func (s *connSet) add(c net.Conn, max int) (oldest net.Conn) {
	if len(s.conns) >= max {
		oldest = s.conns[0]
		s.remove(oldest)
	}
	s.conns = append(s.conns, c)
	return oldest
}

func (s *connSet) remove(c net.Conn) {
	for i, other := range s.conns {
		if other == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			return
		}
	}
}

func (s *connSet) all() []net.Conn { return append([]net.Conn(nil), s.conns...) }
