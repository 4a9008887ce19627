package node

import (
	"errors"
	"fmt"
)

// validate checks what concerns more than one key.
func (c *Config) validate() error {
	switch {
	case len(c.Roles) == 0:
		return errors.New("process.roles is not set; set it to controller, broker, or controller,broker")
	case c.NodeID < 0:
		return errors.New("node.id is not set; give each node of the cluster a number of its own")
	case c.DataDir == "":
		return errors.New("log.dirs is not set; name the node's data directory")
	}
	if err := c.validateListeners(); err != nil {
		return err
	}
	if c.Has(Broker) && len(c.BootstrapServers) == 0 {
		return errors.New("controller.quorum.bootstrap.servers is not set; a broker needs the GRPC address of at least one controller")
	}
	if c.SessionTimeout <= 2*c.HeartbeatInterval {
		return fmt.Errorf("broker.session.timeout.ms is %d, not more than twice broker.heartbeat.interval.ms (%d): one lost heartbeat would fence a broker",
			c.SessionTimeout.Milliseconds(), c.HeartbeatInterval.Milliseconds())
	}
	return nil
}

func (c *Config) validateListeners() error {
	for _, need := range []struct {
		role Role
		name string
	}{{Controller, GRPCListener}, {Controller, RaftListener}, {Broker, GRPCListener}, {Broker, KafkaListener}} {
		if _, ok := c.Listener(need.name); c.Has(need.role) && !ok {
			return fmt.Errorf("listeners lacks %s, which a %s serves; add %s://host:port", need.name, need.role, need.name)
		}
	}
	for i, a := range c.Listeners {
		for _, b := range c.Listeners[:i] {
			if a.Port == b.Port && (a.Host == b.Host || a.Host == "" || b.Host == "") {
				return fmt.Errorf("listeners: %s and %s share port %d", b.Name, a.Name, a.Port)
			}
		}
	}
	return c.advertise()
}
