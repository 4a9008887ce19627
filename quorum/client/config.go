package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// Limits of the search for the active controller.
const (
	// ProbeTimeout is how long one controller may take to say who is active.
	ProbeTimeout = 500 * time.Millisecond
	// graceMin is how long a round waits for the rest once a majority has answered and the active controller is not
	// among them; it doubles each round, up to ProbeTimeout.
	graceMin = 100 * time.Millisecond
	// roundWaitMin and roundWaitMax bound the wait between two rounds that found nobody.
	roundWaitMin = 25 * time.Millisecond
	roundWaitMax = 250 * time.Millisecond
	// watchAfter is how long a request may wait before the client asks whether its controller is still the active one.
	watchAfter = ProbeTimeout
	// watchInterval is the time between two such questions.
	watchInterval = 200 * time.Millisecond
	// requestTimeoutDefault ends a request whose context has no deadline.
	requestTimeoutDefault = 30 * time.Second
	// controllersMax bounds the addresses that answers can teach.
	controllersMax = 32
	// connectionsMax bounds the open connections; the one used longest ago is closed first.
	connectionsMax = 1024
)

// Config tells where to begin.
type Config struct {
	// Network makes the connections.
	Network env.Network
	// Controllers are GRPC addresses, host:port, of controllers. Answers teach further ones. At least one.
	Controllers []string
	// ClusterID is the cluster to talk to; answers from another are ignored. Empty: whichever answers.
	ClusterID string
	// TLS secures the connections; nil: plain.
	TLS *tls.Config
	// Logger receives one line a change of the active controller. Nil: none.
	Logger *slog.Logger
}

// Validate names the field at fault.
func (c Config) Validate() error {
	if c.Network == nil {
		return errors.New("client: Network is not set")
	}
	if len(c.Controllers) == 0 {
		return errors.New("client: Controllers is empty; name at least one host:port")
	}
	if len(c.Controllers) > controllersMax {
		return fmt.Errorf("client: Controllers has %d addresses, limit %d", len(c.Controllers), controllersMax)
	}
	for _, a := range c.Controllers {
		host, port, err := net.SplitHostPort(a)
		if err != nil || port == "" || strings.ContainsAny(host, " \t") {
			return fmt.Errorf("client: Controllers: %q is not host:port", a)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("client: Controllers: %q: port %q is outside 1 to 65535", a, port)
		}
	}
	return nil
}
