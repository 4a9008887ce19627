package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

// Config is what a broker is told at its start. The zero value is not usable: take [DefaultConfig] and fill in
// the identity and the addresses.
type Config struct {
	// ClusterID is the cluster that the data directory was formatted for.
	ClusterID string
	// ID is the broker's id (node.id).
	ID image.BrokerID
	// DirectoryID was drawn when the data directory was formatted.
	DirectoryID image.UUID
	// LogDir holds the partition logs (log.dirs). It exists and is locked by the caller.
	LogDir string
	// Rack is the broker's place (broker.rack); nil for none.
	Rack *string

	// KafkaAddress and GRPCAddress are host:port of the two listeners (listeners). An attached broker opens no GRPC
	// listener: see [Broker.RegisterServices].
	KafkaAddress, GRPCAddress string
	Attached                  bool
	// TLS is used by the GRPC listener and by every connection that the broker opens; nil for plain text. The KAFKA
	// listener has its own, in Kafka.
	TLS *tls.Config
	// Listeners are the addresses that others are told (advertised.listeners): KAFKA and GRPC at least.
	Listeners []image.Listener
	// Controllers are host:port of the controllers' GRPC listeners (controller.quorum.bootstrap.servers).
	// Controllers that the image names are used as well.
	Controllers []string

	// HeartbeatInterval is the time between two heartbeats of a running broker (broker.heartbeat.interval.ms).
	// Default 2 s; less than half of SessionTimeout.
	HeartbeatInterval time.Duration
	// SessionTimeout is the time without a heartbeat after which the controller fences the broker
	// (broker.session.timeout.ms). A heartbeat's deadline is a third of it. Default 9 s.
	SessionTimeout time.Duration
	// ControlledShutdown hands leaderships over before the broker stops (controlled.shutdown.enable). Default true.
	ControlledShutdown bool
	// ControlledShutdownMaxWait bounds that (controlled.shutdown.max.wait.ms). Default 30 s.
	ControlledShutdownMaxWait time.Duration

	// LagTimeMax is the time without being caught up after which a follower leaves the ISR
	// (replica.lag.time.max.ms); it is checked every half of it. Default 30 s.
	LagTimeMax time.Duration
	// Log is what the logs of topics without a value of their own follow (segment.bytes, retention.ms, retention.bytes,
	// file.delete.delay.ms …). A cluster-wide value in the metadata log goes before it.
	Log log.LogConfig
	// Logs bounds what all logs share. Its Dir, Log and callbacks are set by the broker.
	Logs log.Config
	// StrayDelay is how long a directory that the metadata does not know is kept aside before it is removed. Default 7 days.
	StrayDelay time.Duration
	// Kafka bounds the KAFKA listener.
	Kafka kafka.Config
	// Settings knows the values that are not in the metadata log, for DescribeConfigs. Nil: none.
	Settings kafka.Configs
}

// DefaultConfig has every default and no identity.
func DefaultConfig() Config {
	return Config{
		ID:                        image.NoBroker,
		HeartbeatInterval:         2 * time.Second,
		SessionTimeout:            9 * time.Second,
		ControlledShutdown:        true,
		ControlledShutdownMaxWait: 30 * time.Second,
		LagTimeMax:                30 * time.Second,
		Log:                       log.DefaultLogConfig(),
		Logs:                      log.DefaultConfig(""),
		StrayDelay:                7 * 24 * time.Hour,
		Kafka:                     kafka.DefaultConfig(),
	}
}

// Validate names each field at fault with its rule and the value given.
func (c *Config) Validate() error {
	return errors.Join(c.validateIdentity(), c.validateAddresses(), c.validateTimes(), c.validateLimits())
}

func (c *Config) validateIdentity() error {
	var errs []error
	if c.ClusterID == "" {
		errs = append(errs, errors.New("broker: ClusterID is empty; format the data directory first"))
	}
	if c.ID < 0 {
		errs = append(errs, fmt.Errorf("broker: ID must be at least 0, is %d; set node.id", c.ID))
	}
	if c.DirectoryID.IsZero() {
		errs = append(errs, errors.New("broker: DirectoryID is empty; format the data directory first"))
	}
	if c.LogDir == "" {
		errs = append(errs, errors.New("broker: LogDir is empty; set log.dirs"))
	}
	return errors.Join(errs...)
}

func (c *Config) validateAddresses() error {
	var errs []error
	if c.KafkaAddress == "" {
		errs = append(errs, errors.New("broker: KafkaAddress is empty; name KAFKA in listeners"))
	}
	if c.GRPCAddress == "" && !c.Attached {
		errs = append(errs, errors.New("broker: GRPCAddress is empty; name GRPC in listeners"))
	}
	for _, name := range []string{listenerKafka, listenerGRPC} {
		if _, ok := findListener(c.Listeners, name); !ok {
			errs = append(errs, fmt.Errorf("broker: Listeners lacks %s; name it in advertised.listeners", name))
		}
	}
	if len(c.Controllers) == 0 {
		errs = append(errs, errors.New("broker: Controllers is empty; set controller.quorum.bootstrap.servers"))
	}
	return errors.Join(errs...)
}

func (c *Config) validateTimes() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"HeartbeatInterval", c.HeartbeatInterval},
		{"SessionTimeout", c.SessionTimeout},
		{"ControlledShutdownMaxWait", c.ControlledShutdownMaxWait},
		{"LagTimeMax", c.LagTimeMax},
		{"StrayDelay", c.StrayDelay},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("broker: %s must be more than 0, is %v", f.name, f.value))
		}
	}
	if c.HeartbeatInterval > 0 && c.SessionTimeout <= 2*c.HeartbeatInterval {
		errs = append(errs, fmt.Errorf(
			"broker: SessionTimeout must be more than twice HeartbeatInterval (%v), is %v", c.HeartbeatInterval, c.SessionTimeout))
	}
	return errors.Join(errs...)
}

func (c *Config) validateLimits() error {
	logs := c.Logs
	logs.Dir = c.LogDir
	return errors.Join(c.Log.Validate(), logs.Validate(), c.Kafka.Validate())
}

// Names of the listeners that brokers serve.
const (
	listenerKafka = "KAFKA"
	listenerGRPC  = "GRPC"
)

func findListener(ls []image.Listener, name string) (image.Listener, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return image.Listener{}, false
}
