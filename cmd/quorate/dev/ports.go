package dev

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"

	"github.com/quorate/quorate/quorum/env"
)

// Kinds of ports, in the order of their hundreds.
const (
	kindKafka = iota
	kindGRPC
	kindRaft
	kindHTTP
)

// Bounds of the search for free ports.
const (
	freePortMin     = 10000
	freePortTries   = 2000
	ephemeralFile   = "/proc/sys/net/ipv4/ip_local_port_range"
	ephemeralLow    = 32768
	ephemeralHigh   = 60999
	freePortsAtEnd  = 1000
	defaultPortsEnd = PortBaseDefault + 4*portsApart
)

// holder keeps ports open so that nobody else gets them until the nodes start.
type holder struct{ listeners []net.Listener }

// free finds a free port outside the range that the system takes for outgoing connections, and holds it.
func (h *holder) free(e *env.Env) (string, error) {
	low, high := ephemeralRange()
	for range freePortTries {
		port := freePortMin + rand.IntN(portMax-freePortMin)
		if port >= low && port <= high || port < defaultPortsEnd {
			continue
		}
		address := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := e.Network.Listen(context.Background(), address)
		if err == nil {
			h.listeners = append(h.listeners, l)
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port found outside %d to %d; name a --port-base", low, high)
}

func (h *holder) release() error {
	var errs []error
	for _, l := range h.listeners {
		errs = append(errs, l.Close())
	}
	h.listeners = nil
	return errors.Join(errs...)
}

// ephemeralRange is the range of ports for outgoing connections, Linux's default if the system does not say. A range that
// leaves nothing is taken as its default too.
func ephemeralRange() (low, high int) {
	data, err := os.ReadFile(ephemeralFile)
	if err == nil {
		_, err = fmt.Sscan(string(data), &low, &high)
	}
	if err != nil || low-freePortMin < freePortsAtEnd && portMax-high < freePortsAtEnd {
		return ephemeralLow, ephemeralHigh
	}
	return low, high
}

// checkPorts refuses addresses that someone else has bound.
func checkPorts(e *env.Env, c *Cluster) error {
	for _, n := range c.Nodes {
		for _, address := range n.Addresses.all() {
			l, err := e.Network.Listen(context.Background(), address)
			if err != nil {
				return fmt.Errorf("%s, a port of %s %d, is taken (%w); stop what uses it, or use another --port-base (0: free ports), with a new --dir if this one holds a cluster",
					address, n.role(), n.ID, err)
			}
			if err := l.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
