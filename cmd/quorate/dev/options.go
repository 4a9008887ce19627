package dev

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits and defaults of a cluster on one machine.
const (
	// PortBaseDefault is the first Kafka port; GRPC, RAFT and HTTP begin 100, 200 and 300 above.
	PortBaseDefault = 9092
	controllersMax  = 9
	brokersMax      = 50
	nodesDefault    = 3
	firstController = 1001
	firstBroker     = 1
	portsApart      = 100
	// PortBaseMax is the highest first port: above it begin four kinds of ports.
	PortBaseMax = portMax - 4*portsApart
	portMax     = 65535
	host        = "127.0.0.1"
)

// Options are the command line of quorate dev.
type Options struct {
	// Controllers and Brokers count the nodes; 0 and -1 stand for what the directory holds, or three each.
	Controllers, Brokers int
	// Dir keeps the cluster; empty: a temporary directory that is removed at the end.
	Dir string
	// PortBase is the first Kafka port; 0 takes free ports. It counts when the directory is formatted.
	PortBase int
	// PortsNamed: PortBase is not the default but was asked for, so a directory with other ports is refused.
	PortsNamed bool
	// Set are key=value pairs for every node.
	Set []string
	// Restart starts a node again that has died.
	Restart bool
	// Stdout takes the lines that describe the cluster, Stderr what goes wrong.
	Stdout, Stderr io.Writer
	// Environ is the environment that nodes get.
	Environ []string
}

// ownKeys are set by the supervisor, a value a node.
var ownKeys = []string{
	"process.roles", "node.id", "log.dirs", "listeners", "advertised.listeners", "controller.quorum.bootstrap.servers",
}

// Validate names the flag at fault.
func (o Options) Validate() error {
	if o.Controllers < 0 || o.Controllers > controllersMax {
		return fmt.Errorf("--controllers is %d, outside 1 to %d", o.Controllers, controllersMax)
	}
	if o.Brokers < -1 || o.Brokers > brokersMax {
		return fmt.Errorf("--brokers is %d, outside 0 to %d", o.Brokers, brokersMax)
	}
	if o.PortBase < 0 || o.PortBase > PortBaseMax {
		return fmt.Errorf("--port-base is %d, outside 0 to %d", o.PortBase, PortBaseMax)
	}
	for _, s := range o.Set {
		key, _, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("--set %s: want key=value", s)
		}
		if slices.Contains(ownKeys, strings.TrimSpace(key)) {
			return fmt.Errorf("--set %s: dev gives each node its own %s", s, strings.TrimSpace(key))
		}
	}
	return nil
}
