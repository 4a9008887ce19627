package kafka

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of a connection's own memory.
const (
	readBufferBytes = 16 << 10
	// flushBytes is the size from which collected answers are written.
	flushBytes = 64 << 10
	// writeStepBytes is what must be taken by the peer within one StallMax.
	writeStepBytes = 256 << 10
	// keptWriteBuffer is the largest write buffer that a connection keeps between answers.
	keptWriteBuffer = 1 << 20
)

// conn is one connection: a reader that starts requests in order, and a writer that sends their answers in order.
type conn struct {
	s *Server
	// nc is the connection as accepted; stream is what is read and written, TLS or the same.
	nc, stream net.Conn
	peer       string
	principal  string
	software   string // client library, as ApiVersions named it
	ctx        context.Context
	cancel     context.CancelFunc
	slots      chan *request

	// pending counts requests taken and not yet answered; active is when it last changed, in clock nanoseconds.
	pending atomic.Int64
	active  atomic.Int64

	closeOnce sync.Once
}

func newConn(ctx context.Context, s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, stream: nc, peer: nc.RemoteAddr().String(), principal: "ANONYMOUS", slots: make(chan *request, s.cfg.PendingMax-1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.active.Store(s.clock.Now().UnixNano())
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.cancel()
	var writers sync.WaitGroup
	reason := c.handshake()
	if reason == "" {
		writers.Go((&writer{c: c}).run)
		reason = c.read()
	}
	if reason != "" {
		c.close(reason)
	}
	close(c.slots)
	writers.Wait() // without a reason it answers what is pending, then closes
	c.close(reasonDone)
}

// handshake sets up TLS. It returns the reason to close, or "".
func (c *conn) handshake() string {
	if c.s.cfg.TLS == nil {
		return ""
	}
	tc := tls.Server(c.nc, c.s.cfg.TLS)
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.StallMax)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		c.complain(reasonHandshake, slog.String("error", err.Error()))
		return reasonHandshake
	}
	if certs := tc.ConnectionState().PeerCertificates; len(certs) > 0 {
		c.principal = "User:" + certs[0].Subject.String()
	}
	c.stream = tc
	return ""
}

// close ends the connection at once. The reason of the first call is counted.
func (c *conn) close(reason string) {
	c.closeOnce.Do(func() {
		c.s.metrics.closed(reason)
		c.cancel()
		c.nc.Close()
	})
}

// stopReading makes the reader return before its next request. The server is draining when it is called.
func (c *conn) stopReading() { c.nc.SetReadDeadline(c.s.clock.Now().Add(-time.Second)) }

// complain logs what a bad peer did.
func (c *conn) complain(reason string, attrs ...slog.Attr) {
	c.s.complain.say("kafka connection closed", append([]slog.Attr{
		slog.String("peer", c.peer), slog.String("client", c.software), slog.String("reason", reason)}, attrs...)...)
}
