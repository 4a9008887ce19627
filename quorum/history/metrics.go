package history

import "sync/atomic"

// Metrics counts what a history does. Fields may be read at any time.
type Metrics struct {
	// Entries and BytesWritten count what was appended, EntriesFilled what was fetched into gaps.
	Entries, BytesWritten, EntriesFilled atomic.Int64
	// Dropped counts entries for which the queue had no room, Gaps the gaps recorded, GapsFilled those closed again.
	Dropped, Gaps, GapsFilled atomic.Int64
	// WriteErrors counts failed writes, Damaged places in files that could not be read, Diverged files of another log.
	WriteErrors, Damaged, Diverged atomic.Int64
	// SegmentsRemoved counts what retention removed.
	SegmentsRemoved atomic.Int64
}
