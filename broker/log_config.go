package broker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

// logSettings are the topic configs that a log follows, in Kafka's names, and how each is taken over.
var logSettings = []struct {
	key string
	set func(*log.LogConfig, string) error
}{
	{"segment.bytes", number(func(c *log.LogConfig, n int64) { c.SegmentBytesMax = int32(n) }, log.HeaderBytes, math.MaxInt32)},
	{"segment.ms", millis(func(c *log.LogConfig, d time.Duration) { c.SegmentAgeMax = d }, 1)},
	{"segment.index.bytes", number(func(c *log.LogConfig, n int64) { c.IndexBytesMax = int32(n) }, 12, math.MaxInt32)},
	{"index.interval.bytes", number(func(c *log.LogConfig, n int64) { c.IndexIntervalBytes = int32(n) }, 0, math.MaxInt32)},
	{"max.message.bytes", number(func(c *log.LogConfig, n int64) { c.MessageBytesMax = int32(n) }, log.HeaderBytes, math.MaxInt32)},
	{"retention.ms", millis(func(c *log.LogConfig, d time.Duration) { c.RetentionAgeMax = d }, -1)},
	{"retention.bytes", number(func(c *log.LogConfig, n int64) { c.RetentionBytesMax = n }, -1, math.MaxInt64)},
	{"file.delete.delay.ms", millis(func(c *log.LogConfig, d time.Duration) { c.FileDeleteDelay = d }, 0)},
	{"message.timestamp.type", func(c *log.LogConfig, v string) error {
		c.LogAppendTime = strings.TrimSpace(v) == "LogAppendTime"
		return nil
	}},
}

// logConfig is what the log of a topic follows: the topic's values, then the cluster's, then those of base. The
// controller has checked the values; one that cannot be read all the same is named, and base's is used.
func logConfig(im *image.Image, topic string, base log.LogConfig) (log.LogConfig, []error) {
	c := base
	var errs []error
	for _, s := range logSettings {
		v, source := im.EffectiveConfig(topic, s.key, nil)
		if source == image.ConfigSourceNone {
			continue
		}
		if err := s.set(&c, v); err != nil {
			errs = append(errs, fmt.Errorf("broker: topic %s: %s: %w", topic, s.key, err))
		}
	}
	if err := c.Validate(); err != nil {
		return base, append(errs, fmt.Errorf("broker: topic %s: %w", topic, err))
	}
	return c, errs
}

// number reads a whole number. The controller's bounds may be wider than the log's: what lies outside is brought inside.
func number(set func(*log.LogConfig, int64), least, most int64) func(*log.LogConfig, string) error {
	return func(c *log.LogConfig, v string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		set(c, min(max(n, least), most))
		return nil
	}
}

// millis reads a number of milliseconds; more than a duration can hold counts as the longest one.
func millis(set func(*log.LogConfig, time.Duration), least int64) func(*log.LogConfig, string) error {
	return number(func(c *log.LogConfig, n int64) {
		set(c, time.Duration(min(n, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond)
	}, least, math.MaxInt64)
}
