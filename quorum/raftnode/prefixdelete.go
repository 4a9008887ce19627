package raftnode

import "github.com/hashicorp/raft"

// deleteChunkEntries is how many entries one transaction deletes. Bolt's writer is blocked for its time, about 8 µs an
// entry, and the main loop's next append with it.
const deleteChunkEntries = 1024

// chunkedDelete splits the deletion of a prefix into ascending chunks: a crash in between leaves a longer log, which is
// as good. A suffix is never split: what a crash left of it would be taken for the log's true end, or leave a hole.
type chunkedDelete struct {
	raft.LogStore
}

// IsMonotonic forwards what the inner store says of itself.
func (c chunkedDelete) IsMonotonic() bool { return isMonotonic(c.LogStore) }

// DeleteRange implements raft.LogStore.
func (c chunkedDelete) DeleteRange(from, to uint64) error {
	first, err := c.FirstIndex()
	if err != nil {
		return err
	}
	last, err := c.LastIndex()
	if err != nil {
		return err
	}
	if from > first || to >= last {
		return c.LogStore.DeleteRange(from, to)
	}
	for from = first; from <= to; from += deleteChunkEntries {
		if err := c.LogStore.DeleteRange(from, min(to, from+deleteChunkEntries-1)); err != nil {
			return err
		}
	}
	return nil
}
