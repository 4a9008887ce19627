package alterpartition

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// Config says who asks and how patiently. Zero durations and limits are not defaults: start from [DefaultConfig].
type Config struct {
	// BrokerID is the id of this broker.
	BrokerID image.BrokerID
	// BrokerEpoch gives the epoch of the present registration. It is asked when a request is built.
	BrokerEpoch func() image.BrokerEpoch
	// RequestTimeout is how long a request may take before the same items are sent to the controller that is active
	// then. 2 s.
	RequestTimeout time.Duration
	// RetryBackoff is the pause after a request that failed as a whole, and before one that only repeats. 50 ms.
	RetryBackoff time.Duration
	// ProofDelay is how long after a sending without an answer the refusal INELIGIBLE_REPLICA of what is sent again is not
	// taken as proof: a copy on a slow connection could still be applied. At least RequestTimeout; 4 s.
	ProofDelay time.Duration
	// ItemsPerRequestMax bounds a request. 10,000.
	ItemsPerRequestMax int
	// ItemsMax bounds the queue. It is never reached by partitions that submit one item each, unless there are more of
	// them. 1,000,000.
	ItemsMax int
}

// DefaultConfig returns the settings that production uses.
func DefaultConfig(id image.BrokerID, epoch func() image.BrokerEpoch) Config {
	return Config{
		BrokerID: id, BrokerEpoch: epoch,
		RequestTimeout: 2 * time.Second, RetryBackoff: 50 * time.Millisecond, ProofDelay: 4 * time.Second,
		ItemsPerRequestMax: 10_000, ItemsMax: 1_000_000,
	}
}

// Validate names the first field that cannot be used.
func (c *Config) Validate() error {
	switch {
	case c.BrokerID < 0:
		return fmt.Errorf("alterpartition: BrokerID %d is negative", c.BrokerID)
	case c.BrokerEpoch == nil:
		return fmt.Errorf("alterpartition: BrokerEpoch is not set")
	case c.RequestTimeout <= 0:
		return fmt.Errorf("alterpartition: RequestTimeout %v is not positive", c.RequestTimeout)
	case c.RetryBackoff <= 0:
		return fmt.Errorf("alterpartition: RetryBackoff %v is not positive", c.RetryBackoff)
	case c.ProofDelay < c.RequestTimeout:
		return fmt.Errorf("alterpartition: ProofDelay %v is below RequestTimeout %v", c.ProofDelay, c.RequestTimeout)
	case c.ItemsPerRequestMax <= 0:
		return fmt.Errorf("alterpartition: ItemsPerRequestMax %d is not positive", c.ItemsPerRequestMax)
	case c.ItemsMax < c.ItemsPerRequestMax:
		return fmt.Errorf("alterpartition: ItemsMax %d is below ItemsPerRequestMax %d", c.ItemsMax, c.ItemsPerRequestMax)
	}
	return nil
}
