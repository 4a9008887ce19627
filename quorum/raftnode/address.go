package raftnode

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

// ErrPlainAddress is the answer of Dial to an address that does not name the server it is meant for. The transport falls
// back to such an address when the provider has none, and nothing may be sent to whoever listens there.
var ErrPlainAddress = errors.New("raftnode: raft address does not name a server id")

// peerAddress is an address together with the server it is meant for. Its text, "host:port/NODE:DIRECTORYID", is what
// the library holds as a peer's address: in its headers, in its vote records and as the leader's.
type peerAddress struct {
	hostPort string
	id       ServerID
}

func (a peerAddress) String() string { return a.hostPort + "/" + a.id.String() }

// Network implements net.Addr.
func (a peerAddress) Network() string { return "tcp" }

func parsePeerAddress(s string) (peerAddress, error) {
	hostPort, id, found := strings.Cut(s, "/")
	if !found {
		return peerAddress{}, fmt.Errorf("%w: %q", ErrPlainAddress, s)
	}
	if _, _, err := net.SplitHostPort(hostPort); err != nil {
		return peerAddress{}, fmt.Errorf("raftnode: raft address %q: %w", s, err)
	}
	server, err := ParseServerID(id)
	return peerAddress{hostPort: hostPort, id: server}, err
}

// forgottenMax bounds how many servers that left the configuration are remembered.
const forgottenMax = 64

// addressProvider gives the composite address of a server id. It answers from the latest configuration, and for a
// server that has just been removed from what it knew, so that the removed one still hears of it.
type addressProvider struct {
	self   peerAddress
	latest func() raft.Configuration

	mu    sync.Mutex
	known map[raft.ServerID]string // host:port
}

func newAddressProvider(self peerAddress, latest func() raft.Configuration) *addressProvider {
	return &addressProvider{self: self, latest: latest, known: make(map[raft.ServerID]string)}
}

// ServerAddr implements raft.ServerAddressProvider.
func (p *addressProvider) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == p.self.id.Raft() {
		return raft.ServerAddress(p.self.String()), nil
	}
	server, err := ParseServerID(string(id))
	if err != nil {
		return "", err
	}
	hostPort, found := p.lookup(id)
	if !found {
		return "", fmt.Errorf("raftnode: server %s is not in the raft configuration", id)
	}
	return raft.ServerAddress(peerAddress{hostPort, server}.String()), nil
}

func (p *addressProvider) lookup(id raft.ServerID) (string, bool) {
	servers := p.latest().Servers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		if s.ID == id {
			if len(p.known) >= forgottenMax+len(servers) {
				clear(p.known)
			}
			p.known[id] = string(s.Address)
			return string(s.Address), true
		}
	}
	hostPort, found := p.known[id]
	return hostPort, found
}
