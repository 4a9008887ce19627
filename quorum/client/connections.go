package client

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// ConnectionsMax bounds the open connections of a gRPC listener. A cluster's own are a handful a node.
const ConnectionsMax = 4096

// preface is what every HTTP/2 client begins with (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Connections counts and bounds the connections of gRPC listeners. The zero value is ready; any goroutine may read it.
type Connections struct {
	open atomic.Int64
	// refused were closed at once, because ConnectionsMax were open; foreign never spoke HTTP/2: garbage, another
	// protocol, silence.
	refused, foreign atomic.Int64
}

// Open is the number of open connections.
func (c *Connections) Open() float64 { return float64(c.open.Load()) }

// Refused and Foreign are how many were closed because too many were open, and because they did not speak HTTP/2.
func (c *Connections) Refused() float64 { return float64(c.refused.Load()) }
func (c *Connections) Foreign() float64 { return float64(c.foreign.Load()) }

// Collectors expose the numbers to Prometheus.
func (c *Connections) Collectors() []prometheus.Collector {
	closed := func(reason string, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_grpc_connections_closed_total", Help: "Connections closed by the listener, by reason.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, read)
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_grpc_connections", Help: "Open connections of the GRPC listener."}, c.Open),
		closed("too many connections", c.Refused), closed("another protocol", c.Foreign),
	}
}

// Count wraps a listener that a gRPC server with [ServerOptions] of the same tlsConfig serves. Behind TLS what a
// connection speaks is not seen.
func (c *Connections) Count(l net.Listener, tlsConfig *tls.Config) net.Listener {
	return &countedListener{Listener: l, counts: c, sealed: tlsConfig != nil}
}

type countedListener struct {
	net.Listener
	counts *Connections
	sealed bool
}

// Accept closes what is too much, at once: a caller that waits is worse off than one that goes elsewhere.
func (l *countedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.counts.open.Add(1) <= ConnectionsMax {
			return &countedConn{Conn: conn, counts: l.counts, sealed: l.sealed}, nil
		}
		l.counts.open.Add(-1)
		l.counts.refused.Add(1)
		conn.Close()
	}
}

// countedConn watches the first bytes that its server reads.
type countedConn struct {
	net.Conn
	counts *Connections
	sealed bool
	// seen is how much of the preface has come; wrong is set when something else came.
	seen   atomic.Int32
	wrong  atomic.Bool
	closed sync.Once
}

// Read is called by one goroutine at a time.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if at := int(c.seen.Load()); at < len(preface) && !c.wrong.Load() {
		part := p[:min(n, len(preface)-at)]
		if string(part) != preface[at:at+len(part)] {
			c.wrong.Store(true)
		}
		c.seen.Add(int32(len(part)))
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.closed.Do(func() {
		c.counts.open.Add(-1)
		if !c.sealed && (c.wrong.Load() || int(c.seen.Load()) < len(preface)) {
			c.counts.foreign.Add(1)
		}
	})
	return c.Conn.Close()
}
