package log

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// epochFile is Kafka's name of the file that holds the leader epochs of one log.
const epochFile = "leader-epoch-checkpoint"

// EpochEntry says that a leader epoch began at an offset.
type EpochEntry struct {
	Epoch       image.LeaderEpoch
	StartOffset int64
}

// EpochEnd is where a leader epoch ends: the offset of the first record of the next one, or the log end offset.
type EpochEnd struct {
	Epoch     image.LeaderEpoch
	EndOffset int64
}

// epochCache is the leader epochs of a log, strictly ascending in epoch and start offset. Any goroutine may ask;
// the log changes it under its writer lock. (Kafka: LeaderEpochFileCache.)
type epochCache struct {
	env *env.Env
	dir string

	mu      sync.RWMutex
	entries []EpochEntry
}

// latest is the newest entry.
func (c *epochCache) latest() (EpochEntry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.entries) == 0 {
		return EpochEntry{}, false
	}
	return c.entries[len(c.entries)-1], true
}

func (c *epochCache) all() []EpochEntry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.entries)
}

// assigned is what entries become when an epoch starts at an offset, and whether they change.
func assigned(entries []EpochEntry, e EpochEntry) ([]EpochEntry, bool, error) {
	if e.Epoch < 0 || e.StartOffset < 0 {
		return entries, false, fmt.Errorf("log: leader epoch %d at offset %d: neither may be negative", e.Epoch, e.StartOffset)
	}
	if n := len(entries); n > 0 && entries[n-1].Epoch == e.Epoch && e.StartOffset >= entries[n-1].StartOffset {
		return entries, false, nil
	}
	kept := make([]EpochEntry, 0, len(entries)+1)
	for _, old := range entries {
		if old.Epoch < e.Epoch && old.StartOffset < e.StartOffset {
			kept = append(kept, old)
		}
	}
	return append(kept, e), true, nil
}

// assign enters that an epoch starts at an offset; when it returns the entry is on disk.
func (c *epochCache) assign(epoch image.LeaderEpoch, start int64) error {
	entries, changed, err := assigned(c.all(), EpochEntry{epoch, start})
	if err != nil || !changed {
		return err
	}
	c.env.At("log.epoch.before-assign")
	if err := c.replace(entries); err != nil {
		return err
	}
	c.env.At("log.epoch.assigned")
	return nil
}

// replace writes the entries and then takes them over.
func (c *epochCache) replace(entries []EpochEntry) error {
	if err := c.store(entries); err != nil {
		return err
	}
	c.mu.Lock()
	c.entries = entries
	c.mu.Unlock()
	return nil
}

func (c *epochCache) store(entries []EpochEntry) error {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = strconv.Itoa(int(e.Epoch)) + " " + strconv.FormatInt(e.StartOffset, 10)
	}
	return writeCheckpoint(c.env.FS, filepath.Join(c.dir, epochFile), lines)
}

// end answers where an epoch ends, in a log that ends at logEnd. ok is false when that cannot be told: the epoch is
// unknown and no newer one is known either, or it is negative, or nothing is known.
func (c *epochCache) end(epoch image.LeaderEpoch, logEnd int64) (EpochEnd, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := len(c.entries)
	if epoch < 0 || n == 0 {
		return EpochEnd{}, false
	}
	if c.entries[n-1].Epoch == epoch {
		return EpochEnd{epoch, logEnd}, true
	}
	higher := slices.IndexFunc(c.entries, func(e EpochEntry) bool { return e.Epoch > epoch })
	switch higher {
	case -1:
		return EpochEnd{}, false
	case 0:
		return EpochEnd{epoch, c.entries[0].StartOffset}, true
	default:
		return EpochEnd{c.entries[higher-1].Epoch, c.entries[higher].StartOffset}, true
	}
}

// truncateFromEnd drops the entries that start at or after an offset.
func (c *epochCache) truncateFromEnd(offset int64) error {
	entries := c.all()
	kept := slices.DeleteFunc(slices.Clone(entries), func(e EpochEntry) bool { return e.StartOffset >= offset })
	if len(kept) == len(entries) {
		return nil
	}
	return c.replace(kept)
}

// truncateFromStart drops the entries that end at or before an offset; the one that covers it starts there then.
func (c *epochCache) truncateFromStart(offset int64) error {
	entries := c.all()
	kept := cutFromStart(entries, offset)
	if slices.Equal(kept, entries) {
		return nil
	}
	return c.replace(kept)
}

func cutFromStart(entries []EpochEntry, offset int64) []EpochEntry {
	covering := -1
	for i, e := range entries {
		if e.StartOffset <= offset {
			covering = i
		}
	}
	if covering < 0 {
		return entries
	}
	kept := slices.Clone(entries[covering:])
	kept[0].StartOffset = offset
	return kept
}

func (c *epochCache) clear() error {
	if _, ok := c.latest(); !ok {
		return nil
	}
	return c.replace(nil)
}

// lastRecordEpoch is the epoch of the record before the log end. When all records have been removed, their epoch begins
// at the log end like one without records; it is the first that is known then.
func lastRecordEpoch(entries []EpochEntry, end int64) (epoch image.LeaderEpoch, ok bool) {
	if end == 0 {
		return 0, false
	}
	for i, e := range slices.Backward(entries) {
		if e.StartOffset < end || i == 0 {
			return e.Epoch, true
		}
	}
	return 0, false
}

// readEpochs reads the file of a log; a missing file holds nothing.
func readEpochs(fs env.FS, dir string) ([]EpochEntry, error) {
	path := filepath.Join(dir, epochFile)
	lines, err := readCheckpoint(fs, path)
	if err != nil {
		return nil, err
	}
	var entries []EpochEntry
	for _, fields := range lines {
		if len(fields) != 2 {
			return nil, malformed(path, "a line has %d fields instead of 2", len(fields))
		}
		epoch, err1 := strconv.ParseInt(fields[0], 10, 32)
		start, err2 := strconv.ParseInt(fields[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, malformed(path, "no leader epoch and start offset: %q %q", fields[0], fields[1])
		}
		e := EpochEntry{image.LeaderEpoch(epoch), start}
		if n := len(entries); n > 0 && (entries[n-1].Epoch >= e.Epoch || entries[n-1].StartOffset >= e.StartOffset) {
			return nil, malformed(path, "epoch %d at %d does not follow epoch %d at %d", e.Epoch, e.StartOffset, entries[n-1].Epoch, entries[n-1].StartOffset)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
