package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// acceptPause is the pause after a failed accept that may pass, such as for want of file descriptors.
const acceptPause = 50 * time.Millisecond

// accept takes connections until the listener is closed.
func (s *Server) accept(ctx context.Context, ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		if err != nil {
			select {
			case <-s.draining:
				return nil
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			s.complain.say("kafka accept failed", slog.String("error", err.Error()))
			select {
			case <-time.After(acceptPause):
			case <-s.draining:
				return nil
			}
			continue
		}
		s.admit(ctx, nc)
	}
}

// admit starts a connection, or closes it when there are too many.
func (s *Server) admit(ctx context.Context, nc net.Conn) {
	host := addressOf(nc)
	s.mu.Lock()
	reason := ""
	switch {
	case s.isDraining():
		reason = reasonShutdown
	case len(s.conns) >= s.cfg.ConnectionsMax:
		reason = reasonTooMany
	case s.perIP[host] >= s.cfg.ConnectionsPerAddressMax:
		reason = reasonTooManyOfAddress
	}
	if reason != "" {
		s.mu.Unlock()
		s.metrics.closed(reason)
		s.complain.say("kafka connection refused", slog.String("peer", nc.RemoteAddr().String()), slog.String("reason", reason),
			slog.Int("connectionsMax", s.cfg.ConnectionsMax), slog.Int("connectionsPerAddressMax", s.cfg.ConnectionsPerAddressMax))
		nc.Close()
		return
	}
	c := newConn(ctx, s, nc)
	s.conns[c] = struct{}{}
	s.perIP[host]++
	s.metrics.connections.Set(float64(len(s.conns)))
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		c.run()
		s.forget(c, host)
	}()
}

func (s *Server) forget(c *conn, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perIP[host]--; s.perIP[host] <= 0 {
		delete(s.perIP, host)
	}
	s.metrics.connections.Set(float64(len(s.conns)))
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// addressOf is the peer's address without its port.
func addressOf(nc net.Conn) string {
	addr := nc.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// complaintsPerSecond bounds the log lines about bad peers: a flood of them must not become a flood of lines.
const complaintsPerSecond = 10

// complaints logs what bad peers do.
type complaints struct {
	log   *slog.Logger
	clock env.Clock

	mu         sync.Mutex
	since      time.Time
	said       int
	suppressed int
}

func (c *complaints) say(msg string, attrs ...slog.Attr) {
	c.mu.Lock()
	now := c.clock.Now()
	if now.Sub(c.since) >= time.Second {
		c.since, c.said = now, 0
	}
	if c.said >= complaintsPerSecond {
		c.suppressed++
		c.mu.Unlock()
		return
	}
	c.said++
	if c.suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressedBefore", c.suppressed))
		c.suppressed = 0
	}
	c.mu.Unlock()
	c.log.LogAttrs(context.Background(), slog.LevelWarn, msg, attrs...)
}
