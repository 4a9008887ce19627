package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// configurationReader finds the newest configuration in the log, committed or not, with the index of its entry. The
// library's GetConfiguration gives index 0 always, and without the index a change is no compare-and-set.
//
// The scan is remembered up to an entry. While the log holds that entry with the same term, everything before it is
// unchanged, and only what follows is read.
type configurationReader struct {
	log       raft.LogStore
	snapshots raft.SnapshotStore

	mu          sync.Mutex
	newest      raft.Configuration
	index       uint64 // of newest
	upTo, terms uint64 // last entry scanned, its term
}

func (c *configurationReader) read() (raft.Configuration, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, err := c.log.FirstIndex()
	if err != nil {
		return raft.Configuration{}, 0, err
	}
	last, err := c.log.LastIndex()
	if err != nil {
		return raft.Configuration{}, 0, err
	}
	var entry raft.Log
	if c.upTo == 0 || c.log.GetLog(c.upTo, &entry) != nil || entry.Term != c.terms {
		if err := c.restart(); err != nil {
			return raft.Configuration{}, 0, err
		}
	}
	for i := max(first, c.index+1, c.upTo+1); first > 0 && i <= last; i++ {
		if err := c.log.GetLog(i, &entry); err != nil {
			c.upTo = 0
			return raft.Configuration{}, 0, err
		}
		if entry.Type == raft.LogConfiguration {
			c.newest, c.index = raft.DecodeConfiguration(entry.Data), entry.Index
		}
		c.upTo, c.terms = entry.Index, entry.Term
	}
	return c.newest.Clone(), c.index, nil
}

// restart begins with the newest snapshot's configuration.
func (c *configurationReader) restart() error {
	c.newest, c.index, c.upTo, c.terms = raft.Configuration{}, 0, 0, 0
	taken, err := c.snapshots.List()
	if err == nil && len(taken) > 0 {
		c.newest, c.index = taken[0].Configuration, taken[0].ConfigurationIndex
	}
	return err
}
