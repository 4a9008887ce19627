package node

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
)

var listenerNames = []string{KafkaListener, GRPCListener, RaftListener, HTTPListener}

// setListeners parses NAME://host:port,… as Kafka writes it. Only what is bound may leave the host empty, which
// stands for every interface.
func setListeners(field func(*Config) *[]image.Listener, anyHost bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		ls, err := parseListeners(v, anyHost)
		*field(c) = ls
		return err
	}
}

func parseListeners(v string, anyHost bool) ([]image.Listener, error) {
	var out []image.Listener
	for _, part := range splitList(v) {
		name, address, ok := strings.Cut(part, "://")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME://host:port", part)
		}
		if !slices.Contains(listenerNames, name) {
			return nil, fmt.Errorf("listener %q is none of %s", name, strings.Join(listenerNames, ", "))
		}
		if _, twice := find(out, name); twice {
			return nil, fmt.Errorf("listener %s is named twice", name)
		}
		host, port, err := splitAddress(address)
		if err != nil {
			return nil, err
		}
		if !anyHost && (host == "" || net.ParseIP(host).IsUnspecified()) {
			return nil, fmt.Errorf("%s: others cannot connect to host %q; name one that they can reach", part, host)
		}
		out = append(out, image.Listener{Name: name, Host: host, Port: port})
	}
	return out, nil
}

// splitAddress parses host:port with a port of at least 1.
func splitAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", address)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q: port %q is outside 1 to 65535", address, text)
	}
	return host, uint16(n), nil
}

// Address is host:port of a listener.
func Address(l image.Listener) string {
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// advertise fills in what others are told where the file says nothing: what is bound, if it has a host.
func (c *Config) advertise() error {
	for _, l := range c.Listeners {
		if _, ok := c.Advertised(l.Name); ok {
			continue
		}
		if l.Host == "" || net.ParseIP(l.Host).IsUnspecified() {
			return fmt.Errorf("advertised.listeners: %s listens on every interface, so say which host others reach it at", l.Name)
		}
		c.AdvertisedListeners = append(c.AdvertisedListeners, l)
	}
	for _, l := range c.AdvertisedListeners {
		if _, ok := c.Listener(l.Name); !ok {
			return fmt.Errorf("advertised.listeners: %s is not among listeners", l.Name)
		}
	}
	return nil
}
