package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// read takes requests until the connection ends. It returns the reason to close at once, or "" when the server is
// draining and what is pending shall still be answered.
func (c *conn) read() string {
	br := bufio.NewReaderSize(c.stream, readBufferBytes)
	for {
		var size [4]byte
		if reason, ok := c.readSize(br, &size); !ok {
			return reason
		}
		n, reason := c.checkSize(size)
		if reason != "" {
			return reason
		}
		r, reason := c.readRequest(br, n)
		if reason == "" {
			reason = c.awaitSerial(r)
		}
		if reason != "" {
			if c.s.isDraining() {
				return ""
			}
			return reason
		}
	}
}

// readSize waits for the next request's first bytes. Ok is false if there is none.
func (c *conn) readSize(br *bufio.Reader, size *[4]byte) (reason string, ok bool) {
	for br.Buffered() < len(size) {
		wait := c.s.cfg.StallMax
		idle := br.Buffered() == 0
		now := c.s.clock.Now()
		if idle {
			wait = c.s.cfg.IdleMax - now.Sub(time.Unix(0, c.active.Load()))
			wait = max(wait, time.Millisecond)
		}
		c.nc.SetReadDeadline(now.Add(wait))
		if c.s.isDraining() {
			return "", false
		}
		_, err := br.Peek(br.Buffered() + 1)
		switch {
		case err == nil:
		case c.s.isDraining():
			return "", false
		case idle && errors.Is(err, os.ErrDeadlineExceeded) && !c.isIdle():
			// Something is pending, or was a moment ago.
			if c.pending.Load() > 0 {
				c.active.Store(c.s.clock.Now().UnixNano())
			}
		case idle && errors.Is(err, os.ErrDeadlineExceeded):
			return reasonIdle, false
		default:
			return reasonOf(err), false
		}
	}
	if c.s.isDraining() {
		return "", false
	}
	_, err := io.ReadFull(br, size[:])
	return reasonOf(err), err == nil
}

func (c *conn) isIdle() bool {
	return c.pending.Load() == 0 && c.s.clock.Now().Sub(time.Unix(0, c.active.Load())) >= c.s.cfg.IdleMax
}

// checkSize refuses a size before anything is allocated for it.
func (c *conn) checkSize(b [4]byte) (int, string) {
	size := int32(binary.BigEndian.Uint32(b[:]))
	if size >= headerFixed && int(size) <= c.s.cfg.RequestBytesMax {
		return int(size), ""
	}
	if p := foreignProtocol(b); p != "" {
		c.complain(reasonForeign, slog.String("speaks", p), slog.Bool("tlsHere", c.s.cfg.TLS != nil))
		return 0, reasonForeign
	}
	c.complain(reasonSize, slog.Int("size", int(size)), slog.Int("requestBytesMax", c.s.cfg.RequestBytesMax))
	return 0, reasonSize
}

// readRequest reads one request of n bytes and starts it. It returns the reason to close, or "". The buffer and the space that was
// reserved for it are free again when it returns, long before the request is answered perhaps.
func (c *conn) readRequest(br *bufio.Reader, n int) (r *request, reason string) {
	frame, in, err := c.readFrame(br, n)
	if err != nil {
		return nil, c.unfinished(in, err, n, len(frame))
	}
	defer in.release()
	// The handler has let go of the frame when it returns: decoding copies all but records, and those are appended.
	defer c.s.buffers.put(frame)
	h, err := parseFixed(frame)
	if err != nil {
		return nil, c.malformed(h, err)
	}
	e := c.s.table.find(h.key)
	if e == nil {
		return nil, c.unserved(h, reasonUnknownKey)
	}
	if h.version < e.min || h.version > e.max {
		if h.key == int16(kmsg.ApiVersions) {
			r = &request{header: h, entry: e, body: kmsg.NewPtrApiVersionsRequest()}
			return r, c.start(r, answerTooNew)
		}
		return nil, c.unserved(h, reasonVersion)
	}
	if n > c.s.cfg.ControlBytesMax && !e.bulk {
		c.complain(reasonSize, slog.String("api", e.name), slog.Int("size", n), slog.Int("controlBytesMax", c.s.cfg.ControlBytesMax))
		return nil, reasonSize
	}
	body := e.newRequest()
	body.SetVersion(h.version)
	rest, err := h.parseRest(frame, body.IsFlexible())
	if err == nil {
		err = decode(body, rest)
	}
	if err != nil {
		return nil, c.malformed(h, err)
	}
	r = &request{header: h, entry: e, body: body}
	return r, c.start(r, e.handle)
}

// start gives a request its place in the order of answers and calls its handler.
func (c *conn) start(r *request, handle handler) string {
	r.arrived = c.s.clock.Now()
	r.metrics = c.s.metrics
	r.ctx = c.ctx
	r.ready = make(chan struct{})
	r.caller = Caller{Principal: c.principal, ClientID: r.clientID, Peer: c.peer}
	if r.entry.serial {
		r.sent = make(chan struct{})
	}
	c.active.Store(r.arrived.UnixNano())
	c.pending.Add(1)
	select {
	case c.slots <- r:
	case <-c.ctx.Done():
		return reasonDone
	}
	if av, ok := r.body.(*kmsg.ApiVersionsRequest); ok && av.ClientSoftwareName != "" && softwareName.MatchString(av.ClientSoftwareName) {
		c.software = av.ClientSoftwareName + " " + av.ClientSoftwareVersion
	}
	handle(c.s, r)
	return ""
}

// awaitSerial holds the connection until the answer of a serial request has left: such an answer may be large, or
// late, and what comes behind it could not be answered before.
func (c *conn) awaitSerial(r *request) string {
	if r.sent == nil {
		return ""
	}
	select {
	case <-r.sent:
		return ""
	case <-c.ctx.Done():
		return reasonDone
	}
}

// readFrame reads a request of n bytes within StallMax, the wait for buffer space not counted. Space is reserved when
// the first buffer is full, and the buffer grows with what arrives: what a peer announces costs nothing until it sends.
// The caller releases the reservation, which is nil for a small request.
func (c *conn) readFrame(br *bufio.Reader, n int) (buf []byte, in *intake, err error) {
	began := c.s.clock.Now()
	buf = c.s.buffers.get(firstBuffer)
	for len(buf) < n {
		if in == nil && len(buf) == cap(buf) {
			full := c.s.clock.Now()
			if in, err = c.s.frames.reserve(c.ctx, n, func() { c.close(reasonStalled) }); err != nil {
				return buf, nil, errClosed
			}
			began = began.Add(c.s.clock.Now().Sub(full))
		}
		if len(buf) == cap(buf) {
			buf = c.s.buffers.grow(buf, bufferAfter(cap(buf), n))
		}
		end := min(n, cap(buf))
		if br.Buffered() < end-len(buf) {
			c.nc.SetReadDeadline(began.Add(c.s.cfg.StallMax))
			if c.s.isDraining() {
				return buf, in, errClosed
			}
		}
		for len(buf) < end {
			got, err := br.Read(buf[len(buf):end])
			buf = buf[:len(buf)+got]
			if err != nil {
				return buf, in, err
			}
			in.arrived(got)
		}
	}
	in.received()
	return buf, in, nil
}

// unfinished is the reason to close when a request of n bytes did not arrive whole.
func (c *conn) unfinished(in *intake, err error, n, received int) string {
	if in.release() {
		c.complain(reasonStalled, slog.Int("size", n), slog.Int("received", received), slog.Bool("othersWaited", true))
		return reasonStalled
	}
	if errors.Is(err, errClosed) {
		return reasonDone
	}
	c.complain(reasonOf(err), slog.Int("size", n), slog.Int("received", received))
	return reasonOf(err)
}

func (c *conn) malformed(h header, err error) string {
	c.complain(reasonMalformed, slog.Int("key", int(h.key)), slog.Int("version", int(h.version)),
		slog.String("clientId", h.clientID), slog.String("error", err.Error()))
	return reasonMalformed
}

func (c *conn) unserved(h header, reason string) string {
	c.complain(reason, slog.Int("key", int(h.key)), slog.Int("version", int(h.version)))
	return reason
}

// reasonOf names why a read or a write ended.
func reasonOf(err error) string {
	var ne net.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ne) && ne.Timeout():
		return reasonStalled
	default:
		return reasonPeerClosed
	}
}
