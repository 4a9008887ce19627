package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// entryOverhead is what an entry weighs beside its bytes.
const entryOverhead = 128

// logCache keeps the newest entries in memory, as a window without gaps that ends at the log's last entry. Replication
// reads each entry back once per follower, and metadata streams read the tail.
//
// It differs from raft.LogCache in that it is bounded in bytes, and in that it copies the entry: the library's entry
// lies inside its future and would keep the FSM's response, a whole image, from being freed.
type logCache struct {
	inner    raft.LogStore
	metrics  *Metrics
	bytesMax int

	mu    sync.RWMutex
	ring  []raft.Log // entry with index i lies at i % len(ring)
	first uint64     // of the window; the window is empty if first > last
	last  uint64
	bytes int
}

func newLogCache(inner raft.LogStore, entriesMax, bytesMax int, metrics *Metrics) *logCache {
	return &logCache{inner: inner, metrics: metrics, bytesMax: bytesMax, ring: make([]raft.Log, entriesMax), first: 1}
}

// IsMonotonic forwards what the inner store says of itself.
func (c *logCache) IsMonotonic() bool { return isMonotonic(c.inner) }

// FirstIndex implements raft.LogStore.
func (c *logCache) FirstIndex() (uint64, error) { return c.inner.FirstIndex() }

// LastIndex implements raft.LogStore.
func (c *logCache) LastIndex() (uint64, error) { return c.inner.LastIndex() }

// GetLog implements raft.LogStore. The entry shares its bytes with the cache: they must not be changed.
func (c *logCache) GetLog(index uint64, log *raft.Log) error {
	c.mu.RLock()
	hit := index >= c.first && index <= c.last
	if hit {
		*log = c.ring[index%uint64(len(c.ring))]
	}
	c.mu.RUnlock()
	if hit {
		c.metrics.CacheHits.Add(1)
		return nil
	}
	c.metrics.CacheMisses.Add(1)
	// The store decodes into what is there, and writes into bytes of equal length: a caller that reads entry after entry
	// into one variable would have it write into the cache.
	*log = raft.Log{}
	return c.inner.GetLog(index, log)
}

// StoreLog implements raft.LogStore.
func (c *logCache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (c *logCache) StoreLogs(logs []*raft.Log) error {
	if err := c.inner.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range logs {
		c.add(log)
	}
	return nil
}

func (c *logCache) add(log *raft.Log) {
	if log.Index != c.last+1 || c.first > c.last {
		c.drop(c.last)
		c.first = log.Index
	}
	if log.Index-c.first >= uint64(len(c.ring)) {
		c.drop(c.first)
	}
	c.ring[log.Index%uint64(len(c.ring))] = *log
	c.last = log.Index
	c.bytes += weight(log)
	for c.bytes > c.bytesMax && c.first <= c.last {
		c.drop(c.first)
	}
}

// drop takes the entries up to an index out of the window.
func (c *logCache) drop(to uint64) {
	for ; c.first <= to && c.first <= c.last; c.first++ {
		slot := &c.ring[c.first%uint64(len(c.ring))]
		c.bytes -= weight(slot)
		*slot = raft.Log{}
	}
}

func weight(log *raft.Log) int { return len(log.Data) + len(log.Extensions) + entryOverhead }

// DeleteRange implements raft.LogStore. What is deleted leaves the window first, so that nobody reads it afterwards.
func (c *logCache) DeleteRange(min, max uint64) error {
	c.mu.Lock()
	if min <= c.first {
		c.drop(max)
	} else if min <= c.last { // a suffix: what stays is behind it and may be dropped, the log begins anew there
		c.drop(c.last)
	}
	c.mu.Unlock()
	return c.inner.DeleteRange(min, max)
}
