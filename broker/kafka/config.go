package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Config is what a listener is told at its start. Take [DefaultConfig] and change what differs.
type Config struct {
	// ListenerName is the name under which brokers register the address of this listener. Default KAFKA.
	ListenerName string
	// TLS is used on every connection when it is set. Default nil: plain TCP.
	TLS *tls.Config

	// ConnectionsMax bounds the open connections. Default 4096.
	ConnectionsMax int
	// ConnectionsPerAddressMax bounds the open connections of one remote address; at most ConnectionsMax.
	// Default 4096: clients behind one address translator share it.
	ConnectionsPerAddressMax int
	// IdleMax is the quiet after which a connection without a pending request is closed
	// (connections.max.idle.ms). Default 10 min.
	IdleMax time.Duration
	// StallMax is the time within which a peer must send a request that it began whole, go on taking an answer, and
	// finish a TLS handshake. While others wait for buffer space, a peer that sends less than 1 MiB/s has 1 s.
	// Default 30 s.
	StallMax time.Duration
	// ShutdownMax bounds how long a stopping listener waits for pending answers. Default 5 s.
	ShutdownMax time.Duration

	// RequestBytesMax bounds one Produce request (socket.request.max.bytes). Default 100 MiB.
	RequestBytesMax int
	// ControlBytesMax bounds any other request; at most RequestBytesMax. Default 8 MiB.
	ControlBytesMax int
	// PendingMax bounds the requests of one connection that are not yet answered. Default 128.
	PendingMax int
	// BufferedBytesMax bounds the buffers of requests up to 1 MiB that are being received or handled, all connections
	// together, beyond 4 KiB that each may have. Default 128 MiB; at least 2 MiB.
	BufferedBytesMax int64
	// LargeBufferedBytesMax is the same for larger requests; at least RequestBytesMax. Default 256 MiB.
	LargeBufferedBytesMax int64

	// FetchBytesMax bounds the records in one Fetch answer (fetch.max.bytes). Default 55 MiB.
	FetchBytesMax int
	// FetchingBytesMax bounds the records in Fetch answers being written, all connections together; beyond it answers
	// shrink down to one batch. Default 256 MiB; at least FetchBytesMax.
	FetchingBytesMax int64
	// WaitMax bounds what a client may ask a Produce or a Fetch to wait. Default 5 min.
	WaitMax time.Duration

	// ForwardedMax bounds the requests that wait for the active controller at one time, all connections together.
	// Default 256.
	ForwardedMax int
	// ForwardMax bounds what a client may ask a forwarded request to wait. Default 1 min.
	ForwardMax time.Duration
	// EveryBrokerMax bounds how long the answer to a change waits until the other live brokers have applied it too.
	// Default 2 s.
	EveryBrokerMax time.Duration
}

// DefaultConfig has every default.
func DefaultConfig() Config {
	return Config{
		ListenerName:             "KAFKA",
		ConnectionsMax:           4096,
		ConnectionsPerAddressMax: 4096,
		IdleMax:                  10 * time.Minute,
		StallMax:                 30 * time.Second,
		ShutdownMax:              5 * time.Second,
		RequestBytesMax:          100 << 20,
		ControlBytesMax:          8 << 20,
		PendingMax:               128,
		BufferedBytesMax:         128 << 20,
		LargeBufferedBytesMax:    256 << 20,
		FetchBytesMax:            55 << 20,
		FetchingBytesMax:         256 << 20,
		WaitMax:                  5 * time.Minute,
		ForwardedMax:             256,
		ForwardMax:               time.Minute,
		EveryBrokerMax:           2 * time.Second,
	}
}

// Validate names each field at fault with its rule and the value given.
func (c *Config) Validate() error {
	var errs []error
	if c.ListenerName == "" {
		errs = append(errs, errors.New("kafka: ListenerName is empty"))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"IdleMax", c.IdleMax},
		{"StallMax", c.StallMax},
		{"ShutdownMax", c.ShutdownMax},
		{"WaitMax", c.WaitMax},
		{"ForwardMax", c.ForwardMax},
		{"EveryBrokerMax", c.EveryBrokerMax},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("kafka: %s must be more than 0, is %v", f.name, f.value))
		}
	}
	for _, f := range []struct {
		name            string
		value, min, max int64
	}{
		{"ConnectionsMax", int64(c.ConnectionsMax), 1, 1 << 20},
		{"ConnectionsPerAddressMax", int64(c.ConnectionsPerAddressMax), 1, int64(c.ConnectionsMax)},
		{"RequestBytesMax", int64(c.RequestBytesMax), 1024, 1<<31 - 1},
		{"ControlBytesMax", int64(c.ControlBytesMax), 1024, int64(c.RequestBytesMax)},
		{"PendingMax", int64(c.PendingMax), 1, 1 << 16},
		{"BufferedBytesMax", c.BufferedBytesMax, 2 * smallFrame, 1 << 40},
		{"LargeBufferedBytesMax", c.LargeBufferedBytesMax, int64(c.RequestBytesMax), 1 << 40},
		{"FetchBytesMax", int64(c.FetchBytesMax), 1024, 1<<31 - 1},
		{"FetchingBytesMax", c.FetchingBytesMax, int64(c.FetchBytesMax), 1 << 40},
		{"ForwardedMax", int64(c.ForwardedMax), 1, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			errs = append(errs, fmt.Errorf("kafka: %s must be between %d and %d, is %d", f.name, f.min, f.max, f.value))
		}
	}
	return errors.Join(errs...)
}
