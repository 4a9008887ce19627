package fsm

import (
	"errors"
	"fmt"
	"log/slog"
)

// Config is what an FSM needs to know.
type Config struct {
	// ClusterID is written to snapshots; a snapshot of another cluster is refused. Required.
	ClusterID string
	// Logger gets one line an event. Required.
	Logger *slog.Logger
	// OnHalt is called once, on Raft's FSM goroutine, when the FSM stops for good: the process must leave the quorum,
	// keep its files, and ask for an operator. It must not block, and must not call the FSM. Required.
	OnHalt func(error)
	// VerifyEvery is the number of entries after which an offered image is compared with a replay of the entry:
	// 1 compares every one (tests), 0 never. Default 1000.
	VerifyEvery int
	// RingBytesMax bounds the entries kept at hand for streams, in bytes. Default 16 MiB.
	RingBytesMax int
	// OffersMax bounds the images offered and not yet committed. It must not be below the number of entries that the
	// active controller has in flight. Default 128.
	OffersMax int
	// MarkEvery is the number of commands after which the inputs of the verdict are kept, so that the log can be
	// judged again from there. Default 256.
	MarkEvery int
	// MarksMax bounds the marks kept; together with MarkEvery it should cover the trailing log. Default 1024.
	MarksMax int
}

// DefaultConfig returns the defaults; what is required is still missing.
func DefaultConfig() Config {
	return Config{VerifyEvery: 1000, RingBytesMax: 16 << 20, OffersMax: 128, MarkEvery: 256, MarksMax: 1024}
}

// Validate names the field that is wrong.
func (c *Config) Validate() error {
	switch {
	case c.ClusterID == "":
		return errors.New("fsm: Config.ClusterID is empty")
	case c.Logger == nil:
		return errors.New("fsm: Config.Logger is nil")
	case c.OnHalt == nil:
		return errors.New("fsm: Config.OnHalt is nil")
	case c.VerifyEvery < 0:
		return fmt.Errorf("fsm: Config.VerifyEvery is %d, must not be below 0", c.VerifyEvery)
	case c.RingBytesMax < 1:
		return fmt.Errorf("fsm: Config.RingBytesMax is %d, must be at least 1", c.RingBytesMax)
	case c.OffersMax < 1:
		return fmt.Errorf("fsm: Config.OffersMax is %d, must be at least 1", c.OffersMax)
	case c.MarkEvery < 1:
		return fmt.Errorf("fsm: Config.MarkEvery is %d, must be at least 1", c.MarkEvery)
	case c.MarksMax < 1:
		return fmt.Errorf("fsm: Config.MarksMax is %d, must be at least 1", c.MarksMax)
	}
	return nil
}
