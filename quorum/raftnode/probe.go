package raftnode

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

const (
	// startAskMax bounds the question to the other voters that a start waits for. One that is down refuses the connection at once.
	startAskMax = time.Second
	// watchInterval is the time between two questions to the voters that this server is not in touch with, watchAskMax bounds one.
	watchInterval = 2 * time.Second
	watchAskMax   = time.Second
)

// Prober asks servers of a quorum for themselves by the handshake, without speaking Raft.
type Prober struct {
	Env *env.Env
	// TLS as in [Config].
	TLS       *tls.Config
	ClusterID string
	// From is the asking server, Lineage that of its log; [NoLineage] if it has none, or it does not matter.
	From    ServerID
	Lineage int32
}

// Probed is what a server answered.
type Probed struct {
	// Listener is the server that answered, Lineage the newest one that it has heard of, [NoLineage] if it belongs to none or to
	// another cluster.
	Listener string
	Lineage  int32
	// Refused is why it would not speak Raft with the asking server; nil if it would.
	Refused *HandshakeRefusedError

	said answer
}

// Is tells whether the very server answered.
func (p Probed) Is(id ServerID) bool { return p.Listener == id.String() }

// Probe asks the server that is meant to listen at an address. An error says that nobody answered as a controller does, bounded by
// the context. Nothing is sent but the handshake.
func (p Prober) Probe(ctx context.Context, to Server) (Probed, error) {
	if err := to.ID.validate(); err != nil {
		return Probed{}, err
	}
	l := &streamLayer{
		clusterID: p.ClusterID, self: peerAddress{id: p.From}, network: p.Env.Network, tls: p.TLS, metrics: new(Metrics),
		refusals: newRefusalLog(slog.New(slog.DiscardHandler), p.Env.Clock), lineage: func() int32 { return p.Lineage },
	}
	peer := peerAddress{hostPort: to.Address, id: to.ID}
	_, raw, said, err := l.connect(ctx, peer, askOnly)
	if err != nil {
		return Probed{}, err
	}
	raw.Close()
	out := Probed{Listener: said.listener, Lineage: said.lineage, said: said}
	if said.verdict != accepted {
		out.Refused = l.refused(said, peer)
	}
	return out, nil
}

// Probe asks who listens at an address, as a member would, and says that it means the server. The error is a [*HandshakeRefusedError] if
// another answered, or if the server would not speak Raft with this one.
func (n *Node) Probe(id ServerID, address string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(n.layer.ctx, timeout)
	defer cancel()
	said, err := n.prober().Probe(ctx, Server{ID: id, Address: address})
	if err == nil && said.Refused != nil {
		return said.Refused
	}
	return err
}

func (n *Node) prober() Prober {
	return Prober{Env: n.cfg.Env, TLS: n.cfg.TLS, ClusterID: n.cfg.ClusterID, From: n.cfg.ID, Lineage: n.lineage()}
}

// askVoters asks voters of the newest configuration whether this server is superseded, all at once. It returns when all have
// answered or refused the connection, when one has said that it is, or after max.
func (n *Node) askVoters(ctx context.Context, max time.Duration, who func(Server) bool) {
	conf, err := n.GetConfiguration()
	if err != nil || n.Superseded() != nil || !conf.Has(n.cfg.ID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max)
	defer cancel()
	p := n.prober()
	var asked sync.WaitGroup
	for _, s := range conf.Servers {
		if s.ID == n.cfg.ID || !s.Voter || !who(s) {
			continue
		}
		asked.Go(func() {
			if said, err := p.Probe(ctx, s); err == nil && n.layer.hear(said.said, s.ID) {
				cancel()
			}
		})
	}
	asked.Wait()
}

// watchVoters asks, as long as the context lasts, the voters that this server is not in touch with: a server that was paused or cut
// off while the others were given up hears so from whomever it can reach.
func (n *Node) watchVoters(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for n.awaitTick(ctx, ticker) {
		n.askVoters(ctx, watchAskMax, func(s Server) bool { return !n.isInTouch(s.ID) })
	}
}

// isInTouch tells whether Raft has just heard the server: as its leader, or as its follower. Its connections have passed the handshake.
func (n *Node) isInTouch(id ServerID) bool {
	if p, ok := n.Progress(id); ok && p.Contact < watchInterval {
		return true
	}
	leader, _, ok := n.Leader()
	contact, heard := n.LastContact()
	return ok && leader == id && heard && contact < watchInterval
}
