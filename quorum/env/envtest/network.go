package envtest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

const (
	backlogMax   = 128       // connections that wait to be accepted
	chunkBytes   = 64 << 10  // largest piece that is moved at once
	chunksMax    = 16        // pieces under way in one direction before the writer is held up
	everyHost    = "*"       // in rules: every host
	firstFree    = 40000     // first port given out for port 0
	networkLabel = "envtest" // what net.Addr says of the kind of network
)

type direction struct{ from, to string }

type rule struct {
	cut        bool
	delay      time.Duration
	closeAfter int // bytes after which a connection is closed; 0 for never
}

// Network is a network in memory between named hosts. Every node has a host of its own, whatever its addresses are.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	down      map[string]bool
	rules     map[direction]rule
	changed   chan struct{} // closed at each change of rules, then made anew
	links     map[*link]struct{}
	nextPort  int
	wg        sync.WaitGroup
}

// NewNetwork makes a network without hosts, cuts and delays.
func NewNetwork() *Network {
	return &Network{
		listeners: make(map[string]*listener),
		down:      make(map[string]bool),
		rules:     make(map[direction]rule),
		changed:   make(chan struct{}),
		links:     make(map[*link]struct{}),
		nextPort:  firstFree,
	}
}

// Host is the network as the named host sees it.
func (n *Network) Host(name string) env.Network { return &host{network: n, name: name} }

// Cut holds up everything that goes from one host to another, and nothing the other way. "*" names every host.
func (n *Network) Cut(from, to string) { n.change(from, to, func(r *rule) { r.cut = true }) }

// Heal undoes Cut; what was held up arrives.
func (n *Network) Heal(from, to string) { n.change(from, to, func(r *rule) { r.cut = false }) }

// Partition cuts both directions.
func (n *Network) Partition(a, b string) { n.Cut(a, b); n.Cut(b, a) }

// Isolate cuts a host off from all others.
func (n *Network) Isolate(name string) { n.Partition(name, everyHost) }

// HealAll takes every cut, delay and planned close away.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.rules)
	n.wakeLocked()
}

// Delay makes everything from one host to another take this much longer.
func (n *Network) Delay(from, to string, d time.Duration) {
	n.change(from, to, func(r *rule) { r.delay = d })
}

// CloseAfter closes one connection after this many more bytes have passed from one host to another, in the middle of a
// frame if it falls so. Bytes are counted for each connection; the first to get there is hit, once.
func (n *Network) CloseAfter(from, to string, bytes int) {
	n.change(from, to, func(r *rule) { r.closeAfter = bytes })
}

// Sever closes the connections that exist between two hosts. "*" names every host.
func (n *Network) Sever(a, b string) {
	for _, l := range n.linksOf(a, b) {
		l.kill()
	}
}

// Down makes a host vanish, as kill -9 does: its listeners and connections are closed, connections to it are refused.
func (n *Network) Down(name string) {
	n.mu.Lock()
	n.down[name] = true
	var gone []*listener
	for _, l := range n.listeners {
		if l.host == name {
			gone = append(gone, l)
		}
	}
	n.mu.Unlock()
	for _, l := range gone {
		l.Close()
	}
	n.Sever(name, everyHost)
}

// Up lets a host listen and dial again.
func (n *Network) Up(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.down, name)
	n.wakeLocked()
}

// Close closes all connections and listeners and waits for the goroutines.
func (n *Network) Close() {
	n.mu.Lock()
	var gone []*listener
	for _, l := range n.listeners {
		gone = append(gone, l)
	}
	n.mu.Unlock()
	for _, l := range gone {
		l.Close()
	}
	n.Sever(everyHost, everyHost)
	n.wg.Wait()
}

func (n *Network) change(from, to string, f func(*rule)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := direction{from, to}
	r := n.rules[key]
	f(&r)
	n.rules[key] = r
	n.wakeLocked()
}

func (n *Network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// ruleFor joins the rules that hold for a direction, and tells when to ask again.
func (n *Network) ruleFor(d direction) (rule, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all rule
	for _, key := range []direction{d, {d.from, everyHost}, {everyHost, d.to}, {everyHost, everyHost}} {
		r := n.rules[key]
		all.cut = all.cut || r.cut
		all.delay = max(all.delay, r.delay)
		if all.closeAfter == 0 {
			all.closeAfter = r.closeAfter
		}
	}
	return all, n.changed
}

// takeClose takes a planned close away for good: it hits one connection.
func (n *Network) takeClose(d direction) {
	for _, key := range []direction{d, {d.from, everyHost}, {everyHost, d.to}, {everyHost, everyHost}} {
		n.change(key.from, key.to, func(r *rule) { r.closeAfter = 0 })
	}
}

func (n *Network) linksOf(a, b string) []*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	is := func(pattern, name string) bool { return pattern == everyHost || pattern == name }
	var found []*link
	for l := range n.links {
		if (is(a, l.dialer) && is(b, l.listener)) || (is(b, l.dialer) && is(a, l.listener)) {
			found = append(found, l)
		}
	}
	return found
}

type host struct {
	network *Network
	name    string
}

// Listen implements env.Network. Port 0 takes a free port.
func (h *host) Listen(_ context.Context, address string) (net.Listener, error) {
	hostPart, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[h.name] {
		return nil, fmt.Errorf("listen %s: host %s is down", address, h.name)
	}
	if port == "0" {
		address = net.JoinHostPort(hostPart, strconv.Itoa(n.nextPort))
		n.nextPort++
	}
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("listen %s: %w", address, syscall.EADDRINUSE)
	}
	l := &listener{network: n, host: h.name, address: address, backlog: make(chan net.Conn, backlogMax), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

// Dial implements env.Network. Across a cut it waits, like TCP, until the cut is healed or the context ends.
func (h *host) Dial(ctx context.Context, address string) (net.Conn, error) {
	n := h.network
	for {
		n.mu.Lock()
		l, selfDown, changed := n.listeners[address], n.down[h.name], n.changed
		n.mu.Unlock()
		if l == nil || selfDown {
			return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
		}
		there, _ := n.ruleFor(direction{h.name, l.host})
		back, _ := n.ruleFor(direction{l.host, h.name})
		if !there.cut && !back.cut {
			if err := wait(ctx, there.delay+back.delay); err != nil {
				return nil, fmt.Errorf("dial %s: %w", address, err)
			}
			return l.connect(ctx, h.name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type listener struct {
	network *Network
	host    string
	address string
	backlog chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) connect(ctx context.Context, from string) (net.Conn, error) {
	dialed, accepted, link := l.network.connect(from, l)
	select {
	case <-l.closed:
	default:
		select {
		case l.backlog <- accepted:
			return dialed, nil
		case <-l.closed:
		case <-ctx.Done():
		}
	}
	link.kill()
	return nil, fmt.Errorf("dial %s: %w", l.address, syscall.ECONNREFUSED)
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.address)
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.backlog:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr(l.address) }

type addr string

func (addr) Network() string  { return networkLabel }
func (a addr) String() string { return string(a) }
