package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// Limits that no deployment has had a reason to change.
const (
	// segmentBytesMax and segmentBytesMin bound the size at which a segment is closed; retention removes whole segments,
	// so it is a sixteenth of what is kept.
	segmentBytesMax = 16 << 20
	segmentBytesMin = 64 << 10
	segmentsKept    = 16
	// frameBytesMax bounds one entry; the active controller makes none above 1 MiB.
	frameBytesMax = 8 << 20
	// writeBytes is how much is gathered for one write.
	writeBytes = 256 << 10
	// readersMax bounds the pages that are read at one time, each with its buffer.
	readersMax = 4
	// pieceBytes is what a piece counts in a page beside its entry.
	pieceBytes = 128
	// gapsTriedMax bounds the gaps that the filler remembers having tried.
	gapsTriedMax = 64
)

// Config configures a history.
type Config struct {
	// Dir is the folder of the files; it is made when it is not there. Required.
	Dir string
	// RetentionTime and RetentionBytes bound what is kept, whichever is reached first, by whole segments. Both above 0. Required.
	RetentionTime  time.Duration
	RetentionBytes int64
	// SegmentBytes is the size at which a segment is closed. Default: a sixteenth of RetentionBytes, within 64 KiB and 16 MiB.
	SegmentBytes int64
	// QueueEntriesMax and QueueBytesMax bound what waits to be written. Defaults 16384 and 16 MiB.
	QueueEntriesMax, QueueBytesMax int
	// PageBytes ends a page: what a read takes from the files before it gives its place to others and hands that over. A page
	// holds one entry at least. Default 256 KiB.
	PageBytes int
	// RetryInterval is the pause after a failed write. Default 30 s.
	RetryInterval time.Duration
	// RetentionInterval is the time between two looks for segments that are too old. Default 1 min.
	RetentionInterval time.Duration
	// FillIntervalMin and FillIntervalMax bound the pause between two tries to fill a gap, which doubles. Defaults 5 s, 10 min.
	FillIntervalMin, FillIntervalMax time.Duration
	// FillBytesPerSecond bounds the rate at which gaps are filled. Default 8 MiB.
	FillBytesPerSecond int
	// Position is where the node's state machine stands. Required.
	Position func() Mark
	// Sources are asked for what is missing, in this order. Nil: none.
	Sources func() []Source

	Env    *env.Env
	Logger *slog.Logger
}

// Mark is the end of an entry: its last metadata offset and the chain there.
type Mark struct {
	Offset image.MetadataOffset
	Chain  image.Chain
}

// begin is the mark before the first entry.
var begin = Mark{Offset: image.NoOffset}

// Source is something that may have the entries of a gap.
type Source struct {
	// Name is told in the log.
	Name string
	// Read hands over the pieces that it has between two offsets, in order.
	Read func(ctx context.Context, from, end image.MetadataOffset, take func(Piece) error) error
}

// Piece is what a read hands over: an entry, or a gap.
type Piece struct {
	Entry *fsm.Entry
	Gap   *Gap
}

// Gap is a range of metadata offsets whose entries are not there, both ends included.
type Gap struct {
	From, To image.MetadataOffset
	Reason   Reason
}

// String names the range and the reason.
func (g Gap) String() string { return fmt.Sprintf("%d..%d (%s)", g.From, g.To, g.Reason) }

// Reason is why entries are missing.
type Reason uint8

// The reasons. Their numbers are in the files.
const (
	// ReasonNone: nothing is missing.
	ReasonNone Reason = iota
	// ReasonSnapshot: a snapshot took the place of the entries.
	ReasonSnapshot
	// ReasonQueue: they came faster than they could be written.
	ReasonQueue
	// ReasonDisk: they could not be written.
	ReasonDisk
	// ReasonDamage: their bytes in the file are damaged.
	ReasonDamage
	// ReasonOther: the files that were there belonged to another log.
	ReasonOther
	// ReasonCompacted: the log that was read begins later.
	ReasonCompacted
	// ReasonRetention: they were removed as too old.
	ReasonRetention
	// ReasonLineage: nothing is missing; a recovery skipped the offsets when it began a new lineage.
	ReasonLineage
)

// String is the reason in words.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "nothing is missing"
	case ReasonSnapshot:
		return "a snapshot was installed"
	case ReasonQueue:
		return "the queue was full"
	case ReasonDisk:
		return "the disk failed or was full"
	case ReasonDamage:
		return "a file is damaged"
	case ReasonOther:
		return "the files were of another log"
	case ReasonCompacted:
		return "the log begins later"
	case ReasonRetention:
		return "removed by retention"
	case ReasonLineage:
		return "a recovery began a new lineage and skipped the offsets"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Validate fills in defaults and names the field at fault.
func (c *Config) Validate() error {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = min(max(c.RetentionBytes/segmentsKept, segmentBytesMin), segmentBytesMax)
	}
	setDefault(&c.QueueEntriesMax, 16384)
	setDefault(&c.QueueBytesMax, 16<<20)
	setDefault(&c.PageBytes, 256<<10)
	setDefault(&c.RetryInterval, 30*time.Second)
	setDefault(&c.RetentionInterval, time.Minute)
	setDefault(&c.FillIntervalMin, 5*time.Second)
	setDefault(&c.FillIntervalMax, 10*time.Minute)
	setDefault(&c.FillBytesPerSecond, 8<<20)
	switch {
	case c.Dir == "":
		return errors.New("history: Dir is empty")
	case c.RetentionTime <= 0 || c.RetentionBytes <= 0:
		return fmt.Errorf("history: RetentionTime %v and RetentionBytes %d must be above 0", c.RetentionTime, c.RetentionBytes)
	case c.Position == nil || c.Env == nil || c.Logger == nil:
		return errors.New("history: Position, Env and Logger must be set")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
