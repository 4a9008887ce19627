package raftnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// Dial implements raft.StreamLayer. It connects to a composite address, says whom it means, and returns the connection
// only if the listener is that server.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, err := parsePeerAddress(string(address))
	if err != nil {
		return nil, err
	}
	if by := l.removedBy.Load(); by != nil { // nobody will take it, and the members are left in peace
		return nil, fmt.Errorf("%w: %s said so", ErrRemoved, by)
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	raw, err := l.network.Dial(ctx, to.hostPort)
	if err != nil {
		return nil, err
	}
	conn := net.Conn(raw)
	if l.tls != nil {
		conn = tls.Client(raw, l.clientTLS(to.hostPort))
	}
	// The context ends the handshake by closing the connection: deadlines would read a clock.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	v, listener, err := l.greetServer(conn, to)
	if !stop() && ctx.Err() != nil {
		err = ctx.Err() // the connection was closed for it; its own error would say that only
	}
	if err != nil {
		raw.Close()
		l.metrics.DialsFailed.Add(1)
		return nil, fmt.Errorf("raftnode: handshake with %s: %w", address, err)
	}
	if v != accepted {
		raw.Close()
		return nil, l.refused(v, to, listener)
	}
	tracked := &trackedConn{Conn: conn, raw: raw}
	if !l.register(&l.dialed, tracked) {
		return nil, net.ErrClosed
	}
	return tracked, nil
}

func (l *streamLayer) greetServer(conn net.Conn, to peerAddress) (verdict, string, error) {
	say, err := hello{clusterID: l.clusterID, from: l.self.id.String(), to: to.id.String()}.encode()
	if err != nil {
		return malformed, "", err
	}
	if _, err := conn.Write(say); err != nil {
		return malformed, "", err
	}
	return readAnswer(conn)
}

func (l *streamLayer) refused(v verdict, to peerAddress, listener string) error {
	l.metrics.DialsRefused.Add(1)
	if id, err := ParseServerID(listener); err == nil {
		listener = id.String()
	} else {
		listener = "a listener without a valid server id"
	}
	e := &RefusedError{Reason: v.String(), To: to.id.String(), Listener: listener, Address: to.hostPort, Action: action(v, to.id.String(), listener)}
	if v == removedSender {
		e.Action = removedAction(l.self.id.String())
		l.removedBy.CompareAndSwap(nil, &to.id)
	}
	l.refusals.warn("out "+v.String()+e.To+e.Listener, "raft connection was refused", "reason", e.Reason, "to", e.To,
		"listener", e.Listener, "address", e.Address, "action", e.Action)
	return e
}

// clientTLS fills the name that the server's certificate must bear.
func (l *streamLayer) clientTLS(hostPort string) *tls.Config {
	if l.tls.ServerName != "" || l.tls.InsecureSkipVerify {
		return l.tls
	}
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return l.tls
	}
	c := l.tls.Clone()
	c.ServerName = host
	return c
}
