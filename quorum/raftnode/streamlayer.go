package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

const (
	// handshakesOpenMax bounds connections that have not ended their handshake. A new one pushes the oldest out, so that
	// slow ones never keep a member out.
	handshakesOpenMax = 32
	// acceptedMax bounds connections behind a handshake. A member holds a handful; a new one pushes the oldest out, since
	// after a partition the old ones may be dead without anybody having told us.
	acceptedMax = 256
	// acceptRetry is the pause after a failed accept.
	acceptRetry = 50 * time.Millisecond
)

// streamLayer implements raft.StreamLayer: connections that begin with a handshake.
type streamLayer struct {
	clusterID        string
	self             peerAddress
	network          env.Network
	tls              *tls.Config
	handshakeTimeout time.Duration
	judge            func(h hello, clusterID string, own ServerID) verdict
	// isRemoved tells whether a sender was removed from the quorum; nil: none was.
	isRemoved func(ServerID) bool
	refusals  *refusalLog
	metrics   *Metrics

	listener net.Listener
	ready    chan net.Conn
	closed   chan struct{}
	stop     context.CancelFunc
	ctx      context.Context
	wg       sync.WaitGroup

	mu       sync.Mutex
	isClosed bool
	pending  connSet // in handshake
	accepted connSet
	dialed   connSet

	// loaded is closed when the node knows what its snapshot says; no sender is judged before. Nil: it is known.
	loaded chan struct{}
	// gate is closed when this server may take part: no connection is given to the library before. Nil: it may.
	gate chan struct{}
	// lineage is that of the own log, [NoLineage] for an empty one. Nil: that.
	lineage func() int32
	// superseded is why this server has no say any more, nil as long as it has. onSuperseded is told what makes it so.
	superseded   func() *Superseded
	onSuperseded func(Superseded)
}

// listen opens the listener and begins to accept.
func (l *streamLayer) listen(ctx context.Context, address string) error {
	listener, err := l.network.Listen(ctx, address)
	if err != nil {
		return err
	}
	l.listener = listener
	l.ready = make(chan net.Conn)
	l.closed = make(chan struct{})
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.wg.Go(l.acceptLoop)
	return nil
}

// Addr is the advertised address with the own server id: what headers and vote records name.
func (l *streamLayer) Addr() net.Addr { return l.self }

// Accept gives the next connection that has passed its handshake.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and every connection in either direction, and waits for the layer's goroutines.
func (l *streamLayer) Close() error {
	l.mu.Lock()
	if l.isClosed {
		l.mu.Unlock()
		return nil
	}
	l.isClosed = true
	close(l.closed)
	l.stop()
	l.mu.Unlock()
	err := l.listener.Close()
	l.sever()
	l.wg.Wait()
	return err
}

// sever closes every connection, so that nothing waits for an answer any more.
func (l *streamLayer) sever() {
	l.mu.Lock()
	var open []*trackedConn
	for _, set := range []*connSet{&l.pending, &l.accepted, &l.dialed} {
		open = append(open, set.all()...)
	}
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// dropSenders closes the accepted connections of some senders.
func (l *streamLayer) dropSenders(drop func(ServerID) bool) {
	l.mu.Lock()
	open := l.accepted.all()
	l.mu.Unlock()
	for _, c := range open {
		if from, err := ParseServerID(c.from); err == nil && drop(from) {
			c.Close()
		}
	}
}

func (l *streamLayer) acceptLoop() {
	for {
		raw, err := l.listener.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return
			case <-time.After(acceptRetry):
			}
			if !errors.Is(err, net.ErrClosed) {
				l.refusals.warn("accept", "accepting raft connections fails", "error", err)
			}
			continue
		}
		if !l.admit(raw) {
			return
		}
	}
}

// admit starts the handshake of a connection, on a goroutine of its own.
func (l *streamLayer) admit(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		raw.Close()
		return false
	}
	c := &trackedConn{Conn: raw, raw: raw}
	if oldest := l.pending.add(c, handshakesOpenMax); oldest != nil {
		oldest.pushedOut.Store(true)
		oldest.Close()
	}
	l.wg.Go(func() { l.greet(c) })
	return true
}

// greet runs the listener's side of the handshake and hands the connection to Accept.
func (l *streamLayer) greet(raw *trackedConn) {
	conn := net.Conn(raw)
	if l.tls != nil {
		conn = tls.Server(raw, l.tls)
	}
	timer := time.AfterFunc(l.handshakeTimeout, func() { raw.Close() }) // a deadline would read a clock
	h, v, err := l.receive(conn)
	if !timer.Stop() {
		v = tooSlow
	}
	if err != nil && raw.pushedOut.Load() {
		v = tooMany
	}
	l.mu.Lock()
	l.pending.remove(raw)
	l.mu.Unlock()
	l.metrics.Handshakes[v].Add(1)
	if v != accepted {
		raw.Close()
		l.logRefusal(raw, h, v, err)
		return
	}
	if h.purpose == askOnly {
		raw.Close()
		return
	}
	tracked := &trackedConn{Conn: conn, raw: raw.raw, from: h.from}
	if !l.register(&l.accepted, tracked) {
		return
	}
	if !l.awaitGate() {
		tracked.Close()
		return
	}
	select {
	case l.ready <- tracked:
	case <-l.closed:
		tracked.Close()
	}
}

// receive reads the hello, judges it and answers.
func (l *streamLayer) receive(conn net.Conn) (hello, verdict, error) {
	h, err := readHello(conn)
	if err != nil {
		return h, malformed, err
	}
	if l.loaded != nil { // who was removed, and what is committed, is known when the snapshot has been loaded
		select {
		case <-l.loaded:
		case <-time.After(l.handshakeTimeout): // also if the connection was pushed out meanwhile
			return h, malformed, net.ErrClosed
		case <-l.closed:
			return h, malformed, net.ErrClosed
		}
	}
	v, lineage := l.judgeAll(h)
	if v == malformed {
		return h, v, errMalformed
	}
	if _, err := conn.Write(answer{v, lineage, l.self.id.String()}.encode()); err != nil {
		return h, malformed, err
	}
	if own := l.ownLineage(); v == superseded && h.lineage > own {
		l.onSuperseded(Superseded{Lineage: h.lineage, Own: own, By: "controller " + h.from, Keep: true})
	}
	return h, v, nil
}

// judgeAll is the listener's whole decision, and the lineage that it tells.
func (l *streamLayer) judgeAll(h hello) (verdict, int32) {
	v, own := l.judge(h, l.clusterID, l.self.id), l.ownLineage()
	if v == malformed || v == wrongCluster {
		return v, NoLineage
	}
	newest := l.isSuperseded().toldLineage(own)
	if v != accepted {
		return v, newest
	}
	if v = judgeLineage(h, newest); v != accepted {
		return v, newest
	}
	if from, err := ParseServerID(h.from); err == nil && l.isRemoved != nil && l.isRemoved(from) {
		return removedSender, newest
	}
	if l.isSuperseded() != nil {
		return superseded, newest
	}
	return accepted, newest
}

func (l *streamLayer) ownLineage() int32 {
	if l.lineage == nil {
		return NoLineage
	}
	return l.lineage()
}

func (l *streamLayer) isSuperseded() *Superseded {
	if l.superseded == nil {
		return nil
	}
	return l.superseded()
}

// awaitGate waits until this server may take part. False: the layer was closed before.
func (l *streamLayer) awaitGate() bool {
	if l.gate == nil {
		return true
	}
	select {
	case <-l.gate:
		return true
	default:
	}
	select {
	case <-l.gate:
		return true
	case <-l.closed:
		return false
	}
}

func (l *streamLayer) logRefusal(raw net.Conn, h hello, v verdict, err error) {
	if err == nil {
		l.refusals.warn("in "+v.String()+h.from, "raft connection refused", "reason", v.String(), "from", h.from,
			"addressed", h.to, "this", l.self.id.String(), "remote", raw.RemoteAddr().String(), "action", l.actionFor(h, v))
		return
	}
	if errors.Is(err, io.EOF) && h == (hello{}) {
		return // a port check: connected and said nothing
	}
	l.refusals.warn("in "+v.String(), "raft connection closed in its handshake", "reason", v.String(),
		"remote", raw.RemoteAddr().String(), "error", err)
}

// actionFor is what an operator has to do about a refusal of this listener.
func (l *streamLayer) actionFor(h hello, v verdict) string {
	switch v {
	case removedSender:
		return removedAction(h.from)
	case olderSender:
		return supersededAction(h.from)
	case superseded:
		return supersededAction(l.self.id.String())
	}
	return action(v, h.to, l.self.id.String())
}

// register keeps a connection in a set until it is closed. False means that the layer is closed, and so is the connection.
func (l *streamLayer) register(set *connSet, c *trackedConn) bool {
	c.onClose = func() {
		l.mu.Lock()
		set.remove(c)
		l.mu.Unlock()
	}
	l.mu.Lock()
	if l.isClosed {
		l.mu.Unlock()
		c.raw.Close()
		return false
	}
	oldest := set.add(c, acceptedMax)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return true
}
