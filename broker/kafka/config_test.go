package kafka

import (
	"strings"
	"testing"
)

func TestConfigValidateNamesTheField(t *testing.T) {
	ok := DefaultConfig()
	if err := ok.Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for field, change := range map[string]func(*Config){
		"ListenerName":             func(c *Config) { c.ListenerName = "" },
		"ConnectionsMax":           func(c *Config) { c.ConnectionsMax = 0 },
		"ConnectionsPerAddressMax": func(c *Config) { c.ConnectionsPerAddressMax = c.ConnectionsMax + 1 },
		"IdleMax":                  func(c *Config) { c.IdleMax = 0 },
		"StallMax":                 func(c *Config) { c.StallMax = -1 },
		"ShutdownMax":              func(c *Config) { c.ShutdownMax = 0 },
		"RequestBytesMax":          func(c *Config) { c.RequestBytesMax = 100 },
		"ControlBytesMax":          func(c *Config) { c.ControlBytesMax = c.RequestBytesMax + 1 },
		"PendingMax":               func(c *Config) { c.PendingMax = 0 },
		"BufferedBytesMax":         func(c *Config) { c.BufferedBytesMax = smallFrame },
		"LargeBufferedBytesMax":    func(c *Config) { c.LargeBufferedBytesMax = int64(c.RequestBytesMax) - 1 },
		"FetchBytesMax":            func(c *Config) { c.FetchBytesMax = 0 },
		"FetchingBytesMax":         func(c *Config) { c.FetchingBytesMax = int64(c.FetchBytesMax) - 1 },
		"WaitMax":                  func(c *Config) { c.WaitMax = 0 },
		"ForwardedMax":             func(c *Config) { c.ForwardedMax = 0 },
		"ForwardMax":               func(c *Config) { c.ForwardMax = 0 },
		"EveryBrokerMax":           func(c *Config) { c.EveryBrokerMax = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "kafka: "+field+" ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestFetchBudgetGrantsWhatIsLeft(t *testing.T) {
	var b fetchBudget
	b.left.Store(100)
	if got := b.take(60); got != 60 {
		t.Errorf("took %d of 60", got)
	}
	if got := b.take(60); got != 40 {
		t.Errorf("took %d, 40 were left", got)
	}
	if got := b.take(1); got != 0 {
		t.Errorf("took %d of nothing", got)
	}
	b.give(100)
	if got := b.take(200); got != 100 {
		t.Errorf("took %d after all was given back", got)
	}
}

func TestBufferPoolClasses(t *testing.T) {
	var p bufferPool
	for _, size := range []int{1, 4 << 10, 4<<10 + 1, 1 << 20, 1<<20 + 1, 100 << 20} {
		b := p.get(size)
		if len(b) != 0 || cap(b) < size || size <= smallFrame && cap(b) > smallFrame {
			t.Errorf("buffer for %d bytes has length %d and capacity %d", size, len(b), cap(b))
		}
		p.put(b)
	}
}
