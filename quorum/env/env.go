package env

import (
	"context"
	"net"
	"time"
)

// Env is what one node sees of the world.
type Env struct {
	Network Network
	FS      FS
	Clock   Clock
	// Hook is called at named points of the node's work, so that a test can place a fault there.
	// It is nil in production.
	Hook func(point string)
}

// Network makes the node's listeners and connections.
type Network interface {
	// Listen opens a listener on a TCP address host:port.
	Listen(ctx context.Context, address string) (net.Listener, error)
	// Dial connects to a TCP address host:port.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Clock tells the time. Durations are taken between two values that hold a monotonic reading.
type Clock interface {
	Now() time.Time
}

// At tells the hook, if there is one, that the node has come to the named point.
func (e *Env) At(point string) {
	if e.Hook != nil {
		e.Hook(point)
	}
}

// Now is the clock's time.
func (e *Env) Now() time.Time { return e.Clock.Now() }

// OS is the world as the operating system offers it. Outgoing connections are bound to localAddress (an IP
// address without a port) unless it is empty.
func OS(localAddress string) *Env {
	return &Env{Network: osNetwork{local: localAddress}, FS: osFS{}, Clock: osClock{}, Hook: processHook()}
}

type osClock struct{}

func (osClock) Now() time.Time { return time.Now() }

type osNetwork struct{ local string }

func (n osNetwork) Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

func (n osNetwork) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	if n.local != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(n.local)}
	}
	return d.DialContext(ctx, "tcp", address)
}
