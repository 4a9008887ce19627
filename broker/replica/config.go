package replica

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// ServerConfig holds the leader's limits. Zero values are not defaults: start from [DefaultServerConfig].
type ServerConfig struct {
	// BrokerID is the id of this broker. A request for another one is refused as a whole.
	BrokerID image.BrokerID
	// AnswerBytesMax bounds the records of an answer, except that its first batch may be larger. 10 MiB.
	AnswerBytesMax int
	// EntriesMax bounds the partitions of an answer. 10,000.
	EntriesMax int
	// PartitionsMax bounds the partitions of a session. 200,000.
	PartitionsMax int
	// WaitMax bounds what a request may ask to wait. 10 s.
	WaitMax time.Duration
	// WatermarkDelay is how long an answer without records waits for some to ride along. 10 ms.
	WatermarkDelay time.Duration
	// SweepInterval is the time after which a request counts as a fetch of every partition of the session, as long as no
	// request named them. It must be well below the lag limit. 500 ms.
	SweepInterval time.Duration
}

// DefaultServerConfig returns the settings that production uses.
func DefaultServerConfig(id image.BrokerID) ServerConfig {
	return ServerConfig{
		BrokerID: id, AnswerBytesMax: 10 << 20, EntriesMax: 10_000, PartitionsMax: 200_000,
		WaitMax: 10 * time.Second, WatermarkDelay: 10 * time.Millisecond, SweepInterval: 500 * time.Millisecond,
	}
}

// Validate names the first field that cannot be used.
func (c *ServerConfig) Validate() error {
	return firstError(
		atLeast("BrokerID", int(c.BrokerID), 0), atLeast("AnswerBytesMax", c.AnswerBytesMax, 1),
		atLeast("EntriesMax", c.EntriesMax, 1), atLeast("PartitionsMax", c.PartitionsMax, 1),
		positive("WaitMax", c.WaitMax), positive("WatermarkDelay", c.WatermarkDelay), positive("SweepInterval", c.SweepInterval))
}

// Config holds the follower's settings. Zero values are not defaults: start from [DefaultConfig].
type Config struct {
	// BrokerID is the id of this broker.
	BrokerID image.BrokerID
	// BrokerEpoch gives the epoch of the present registration. Every request carries it.
	BrokerEpoch func() image.BrokerEpoch
	// Wait is how long the leader may hold a request that finds nothing (replica.fetch.wait.max.ms). 500 ms.
	Wait time.Duration
	// AnswerMargin is how much longer than Wait an answer may take before the leader counts as hung. 2 s.
	AnswerMargin time.Duration
	// AnswerBytesMax is the limit of an answer's records (replica.fetch.response.max.bytes). 10 MiB.
	AnswerBytesMax int
	// PartitionBytesMax is the limit of one partition's records in an answer (replica.fetch.max.bytes). 1 MiB.
	PartitionBytesMax int
	// PartitionsPerRequestMax bounds a request; what is left goes with the next one, at once. 10,000.
	PartitionsPerRequestMax int
	// BackoffMin and BackoffMax bound the delay of a partition after an error; it doubles with each in a row. 50 ms, 1 s.
	BackoffMin, BackoffMax time.Duration
	// ReconnectMin and ReconnectMax bound the pause before a new stream; it doubles with each failure in a row. 50 ms, 1 s.
	ReconnectMin, ReconnectMax time.Duration
	// IdleTimeout is how long a stream without partitions is kept. 5 s.
	IdleTimeout time.Duration
}

// DefaultConfig returns the settings that production uses.
func DefaultConfig(id image.BrokerID, epoch func() image.BrokerEpoch) Config {
	return Config{
		BrokerID: id, BrokerEpoch: epoch, Wait: 500 * time.Millisecond, AnswerMargin: 2 * time.Second,
		AnswerBytesMax: 10 << 20, PartitionBytesMax: 1 << 20, PartitionsPerRequestMax: 10_000,
		BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second,
		ReconnectMin: 50 * time.Millisecond, ReconnectMax: time.Second, IdleTimeout: 5 * time.Second,
	}
}

// Validate names the first field that cannot be used.
func (c *Config) Validate() error {
	if c.BrokerEpoch == nil {
		return fmt.Errorf("replica: BrokerEpoch is not set")
	}
	if c.BackoffMax < c.BackoffMin {
		return fmt.Errorf("replica: BackoffMax %v is below BackoffMin %v", c.BackoffMax, c.BackoffMin)
	}
	if c.ReconnectMax < c.ReconnectMin {
		return fmt.Errorf("replica: ReconnectMax %v is below ReconnectMin %v", c.ReconnectMax, c.ReconnectMin)
	}
	return firstError(
		atLeast("BrokerID", int(c.BrokerID), 0), positive("Wait", c.Wait), positive("AnswerMargin", c.AnswerMargin),
		atLeast("AnswerBytesMax", c.AnswerBytesMax, 1), atLeast("PartitionBytesMax", c.PartitionBytesMax, 1),
		atLeast("PartitionsPerRequestMax", c.PartitionsPerRequestMax, 1), positive("BackoffMin", c.BackoffMin),
		positive("ReconnectMin", c.ReconnectMin), positive("IdleTimeout", c.IdleTimeout))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func atLeast(field string, value, least int) error {
	if value < least {
		return fmt.Errorf("replica: %s %d is below %d", field, value, least)
	}
	return nil
}

func positive(field string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("replica: %s %v is not positive", field, d)
	}
	return nil
}
