package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// errNotOpenYet is the answer to the library as long as this server asks the others whether it is superseded.
var errNotOpenYet = errors.New("raftnode: this controller does not take part yet: it asks the other voters for their lineage first")

// Dial implements raft.StreamLayer. It connects to a composite address, says whom it means, and returns the connection
// only if the listener is that server.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, err := parsePeerAddress(string(address))
	if err != nil {
		return nil, err
	}
	if s := l.isSuperseded(); s != nil { // nobody will take it, and the members are left in peace
		return nil, fmt.Errorf("%w: %s said so", ErrSuperseded, s.By)
	}
	if l.gate != nil {
		select {
		case <-l.gate:
		default:
			return nil, errNotOpenYet
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	conn, raw, said, err := l.connect(ctx, to, speakRaft)
	if err != nil {
		return nil, err
	}
	if said.verdict != accepted {
		raw.Close()
		err := l.refused(said, to)
		l.hear(said, to.id)
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, raw: raw}
	if !l.register(&l.dialed, tracked) {
		return nil, net.ErrClosed
	}
	return tracked, nil
}

// connect dials, says whom it means and what for, and takes the answer. The caller closes raw.
func (l *streamLayer) connect(ctx context.Context, to peerAddress, what purpose) (conn, raw net.Conn, said answer, err error) {
	dialed, err := l.network.Dial(ctx, to.hostPort)
	if err != nil {
		return nil, nil, said, err
	}
	conn = dialed
	if l.tls != nil {
		conn = tls.Client(dialed, l.clientTLS(to.hostPort))
	}
	// The context ends the handshake by closing the connection: deadlines would read a clock.
	stop := context.AfterFunc(ctx, func() { dialed.Close() })
	said, err = l.greetServer(conn, to, what)
	if !stop() && ctx.Err() != nil {
		err = ctx.Err() // the connection was closed for it; its own error would say that only
	}
	if err != nil {
		dialed.Close()
		l.metrics.DialsFailed.Add(1)
		return nil, nil, said, fmt.Errorf("raftnode: handshake with %s: %w", to, err)
	}
	return conn, dialed, said, nil
}

func (l *streamLayer) greetServer(conn net.Conn, to peerAddress, what purpose) (answer, error) {
	say, err := hello{
		purpose: what, lineage: l.ownLineage(), clusterID: l.clusterID, from: l.self.id.String(), to: to.id.String(),
	}.encode()
	if err != nil {
		return answer{}, err
	}
	if _, err := conn.Write(say); err != nil {
		return answer{}, err
	}
	return readAnswer(conn)
}

// hear learns from a refusal that this server is superseded, and tells whether it is. A listener of another cluster tells no lineage.
func (l *streamLayer) hear(said answer, to ServerID) bool {
	switch own := l.ownLineage(); {
	case own != NoLineage && said.lineage > own:
		l.onSuperseded(Superseded{Lineage: said.lineage, Own: own, By: "controller " + said.listener, Keep: true})
	case said.verdict == removedSender && said.listener == to.String():
		l.onSuperseded(Superseded{Lineage: own, Own: own, Removed: true, By: "controller " + said.listener, Keep: true})
	default:
		return false
	}
	return true
}

// refused makes the error of a refusal, and logs it.
func (l *streamLayer) refused(said answer, to peerAddress) *HandshakeRefusedError {
	l.metrics.DialsRefused.Add(1)
	listener := "a listener without a valid server id"
	if id, err := ParseServerID(said.listener); err == nil {
		listener = id.String()
	}
	e := &HandshakeRefusedError{Reason: said.verdict.String(), To: to.id.String(), Listener: listener, Address: to.hostPort, Action: action(said.verdict, to.id.String(), listener)}
	switch said.verdict {
	case removedSender:
		e.Action = removedAction(l.self.id.String())
	case olderSender:
		e.Action = supersededAction(l.self.id.String())
	case superseded:
		e.Action = removedAction(listener)
		if said.lineage > l.ownLineage() || said.lineage == NoLineage {
			e.Action = supersededAction(listener)
		}
	}
	l.refusals.warn("out "+said.verdict.String()+e.To+e.Listener, "raft connection was refused", "reason", e.Reason, "to", e.To,
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
