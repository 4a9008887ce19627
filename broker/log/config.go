package log

import (
	"fmt"
	"math"
	"time"
)

// LogConfig is what one partition log follows. It may be changed while the log is open ([Log.SetConfig]).
type LogConfig struct {
	// SegmentBytesMax is the size in bytes at which a new segment begins (segment.bytes). Default 1 GiB.
	SegmentBytesMax int32
	// SegmentAgeMax is the time after its first record at which a new segment begins (segment.ms). Default 7 days.
	SegmentAgeMax time.Duration
	// IndexIntervalBytes is how many bytes of records lie between two index entries, at least
	// (index.interval.bytes). Default 4096.
	IndexIntervalBytes int32
	// IndexBytesMax is the size in bytes of an index at which a new segment begins (segment.index.bytes). Default 10 MiB.
	IndexBytesMax int32
	// MessageBytesMax is the largest record batch in bytes that a client may send (max.message.bytes).
	// Default 1 MiB + 12; at most SegmentBytesMax.
	MessageBytesMax int32
	// RetentionAgeMax is how long a segment is kept after its newest record (retention.ms); negative: for ever. Default 7 days.
	RetentionAgeMax time.Duration
	// RetentionBytesMax is how many bytes of segments are kept (retention.bytes); negative: no limit. Default -1.
	RetentionBytesMax int64
	// FileDeleteDelay is the time between the removal of a segment by retention and that of its files
	// (file.delete.delay.ms). Default 60 s.
	FileDeleteDelay time.Duration
	// ProducerAgeMax is how long an idle producer is remembered (producer.id.expiration.ms). Default 24 h.
	ProducerAgeMax time.Duration
	// LogAppendTime makes the broker's time that of every record (message.timestamp.type). Default false: the client's.
	LogAppendTime bool
}

// DefaultLogConfig has Kafka's defaults.
func DefaultLogConfig() LogConfig {
	return LogConfig{
		SegmentBytesMax:    1 << 30,
		SegmentAgeMax:      7 * 24 * time.Hour,
		IndexIntervalBytes: 4096,
		IndexBytesMax:      10 << 20,
		MessageBytesMax:    1<<20 + 12,
		RetentionAgeMax:    7 * 24 * time.Hour,
		RetentionBytesMax:  -1,
		FileDeleteDelay:    time.Minute,
		ProducerAgeMax:     24 * time.Hour,
	}
}

// Validate names the field that is out of bounds, the limit and the value.
func (c LogConfig) Validate() error {
	switch {
	case c.SegmentBytesMax < HeaderBytes:
		return fmt.Errorf("log: SegmentBytesMax is %d, must be at least %d", c.SegmentBytesMax, HeaderBytes)
	case c.SegmentAgeMax < time.Millisecond:
		return fmt.Errorf("log: SegmentAgeMax is %v, must be at least 1ms", c.SegmentAgeMax)
	case c.IndexIntervalBytes < 0:
		return fmt.Errorf("log: IndexIntervalBytes is %d, must be at least 0", c.IndexIntervalBytes)
	case c.IndexBytesMax < timeEntryBytes:
		return fmt.Errorf("log: IndexBytesMax is %d, must be at least %d", c.IndexBytesMax, timeEntryBytes)
	case c.MessageBytesMax < HeaderBytes:
		return fmt.Errorf("log: MessageBytesMax is %d, must be at least %d", c.MessageBytesMax, HeaderBytes)
	case c.FileDeleteDelay < 0:
		return fmt.Errorf("log: FileDeleteDelay is %v, must be at least 0", c.FileDeleteDelay)
	case c.ProducerAgeMax < time.Millisecond:
		return fmt.Errorf("log: ProducerAgeMax is %v, must be at least 1ms", c.ProducerAgeMax)
	}
	return nil
}

// Config is what a [Manager] follows.
type Config struct {
	// Dir is the log directory (log.dirs). It must exist; the caller holds its lock.
	Dir string
	// Log is the configuration of logs that are opened without their own.
	Log LogConfig
	// OpenFilesMax bounds the open files of all logs together. More are open only while more are in use at once.
	// Default 4096.
	OpenFilesMax int
	// LoadsMax is how many logs are loaded or closed at the same time (num.recovery.threads.per.data.dir). Default 4.
	LoadsMax int
	// HighWatermarkInterval is the time between two writes of the high watermark checkpoint
	// (replica.high.watermark.checkpoint.interval.ms). Default 5 s.
	HighWatermarkInterval time.Duration
	// RecoveryPointInterval is the time between two writes of the recovery point and log start checkpoints
	// (log.flush.offset.checkpoint.interval.ms). Default 60 s.
	RecoveryPointInterval time.Duration
	// RetentionInterval is the time between two retention checks (log.retention.check.interval.ms). Default 5 min.
	RetentionInterval time.Duration
	// ProducerSweepInterval is the time between two searches for expired producers
	// (producer.id.expiration.check.interval.ms). Default 10 min.
	ProducerSweepInterval time.Duration
	// StrayDelay is how long a directory that was set aside is kept before it is removed. Negative: for ever. Default -1:
	// whoever sets directories aside chooses.
	StrayDelay time.Duration
	// Decompress reads compressed records for lookups by time. May be nil: such a lookup is as exact as a batch then.
	Decompress Decompress
	// OnFailure is told of each log that goes offline, once, from the goroutine that met the failure. The log's
	// locks may be held: it must not block nor call the log. May be nil.
	OnFailure func(name Name, err error)
	// OnRemoved is told of each renamed directory that [Manager.Run] has removed or failed to remove. May be nil.
	OnRemoved func(Removal)
}

// DefaultConfig has Kafka's defaults, for a log directory.
func DefaultConfig(dir string) Config {
	return Config{
		Dir:                   dir,
		Log:                   DefaultLogConfig(),
		OpenFilesMax:          4096,
		LoadsMax:              4,
		HighWatermarkInterval: 5 * time.Second,
		RecoveryPointInterval: time.Minute,
		RetentionInterval:     5 * time.Minute,
		ProducerSweepInterval: 10 * time.Minute,
		StrayDelay:            -1,
	}
}

// Validate names the field that is out of bounds, the limit and the value.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("log: Dir is empty")
	case c.OpenFilesMax < 1 || c.OpenFilesMax > math.MaxInt32:
		return fmt.Errorf("log: OpenFilesMax is %d, must be at least 1", c.OpenFilesMax)
	case c.LoadsMax < 1:
		return fmt.Errorf("log: LoadsMax is %d, must be at least 1", c.LoadsMax)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"HighWatermarkInterval", c.HighWatermarkInterval},
		{"RecoveryPointInterval", c.RecoveryPointInterval},
		{"RetentionInterval", c.RetentionInterval},
		{"ProducerSweepInterval", c.ProducerSweepInterval},
	} {
		if f.value < time.Millisecond {
			return fmt.Errorf("log: %s is %v, must be at least 1ms", f.name, f.value)
		}
	}
	return c.Log.Validate()
}
