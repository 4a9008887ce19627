package raftnode

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// StoreCall names a call of a store.
type StoreCall string

// The calls of stores.
const (
	CallStoreLogs      StoreCall = "log.StoreLogs"
	CallDeleteRange    StoreCall = "log.DeleteRange" // each chunk of a prefix is one
	CallGetLog         StoreCall = "log.GetLog"      // what the cache did not have
	CallLogIndexes     StoreCall = "log.Indexes"
	CallStableSet      StoreCall = "stable.Set"
	CallStableVote     StoreCall = "stable.SetVote"
	CallStableGet      StoreCall = "stable.Get"
	CallSnapshotCreate StoreCall = "snapshot.Create"
	CallSnapshotWrite  StoreCall = "snapshot.Write"
	CallSnapshotClose  StoreCall = "snapshot.Close"
	CallSnapshotOpen   StoreCall = "snapshot.Open"
)

// Hook points told through Env.At, around the writes that a crash may split.
const (
	PointLogWrite      = "raftnode/log write begins"
	PointLogWritten    = "raftnode/log write ended"
	PointLogDelete     = "raftnode/log delete begins"
	PointTermWrite     = "raftnode/stable write begins"
	PointVoteWrite     = "raftnode/vote write begins"
	PointVoteWritten   = "raftnode/vote write ended"
	PointSnapshotBegin = "raftnode/snapshot begins"
	PointSnapshotClose = "raftnode/snapshot close begins"
	PointSnapshotDone  = "raftnode/snapshot close ended"
)

// guard stands around each call of a store: hook points, faults of a test, the watchdog, latency.
type guard struct {
	env     *env.Env
	dog     *watchdog
	fault   func(StoreCall) error
	observe func(StoreCall, time.Duration, error)
	// begin is called when entries or a snapshot are on the disk, before anybody is told so. Nil: nothing to do.
	begin func() error
	// logged are the bytes written to the log since the start.
	logged atomic.Uint64
}

// read runs a call whose error is the caller's business; the watchdog looks at its time only.
func (g *guard) read(call StoreCall, f func() error) error {
	op := g.dog.begin(call)
	defer g.dog.end(op)
	return g.untimed(call, f)
}

// untimed runs a call that may take as long as it takes: a snapshot of any size.
func (g *guard) untimed(call StoreCall, f func() error) error {
	start := g.env.Now()
	var err error
	if g.fault != nil {
		err = g.fault(call)
	}
	if err == nil {
		err = f()
	}
	if g.observe != nil {
		g.observe(call, g.env.Now().Sub(start), err)
	}
	return err
}

// write runs a call whose error ends the process.
func (g *guard) write(call StoreCall, f func() error) error {
	err := g.read(call, f)
	if err != nil {
		g.dog.fail(fmt.Errorf("%w: %s: %w; free or replace the disk and start the node again", ErrStoreFailed, call, err))
	}
	return err
}

// guardedLog puts the guard around a LogStore. Errors of reads pass unwrapped: raft compares them with ==.
type guardedLog struct {
	inner   raft.LogStore
	guard   *guard
	metrics *Metrics
}

// IsMonotonic forwards what the inner store says of itself.
func (l *guardedLog) IsMonotonic() bool { return isMonotonic(l.inner) }

func (l *guardedLog) FirstIndex() (index uint64, err error) {
	err = l.guard.read(CallLogIndexes, func() error { index, err = l.inner.FirstIndex(); return err })
	return index, err
}

func (l *guardedLog) LastIndex() (index uint64, err error) {
	err = l.guard.read(CallLogIndexes, func() error { index, err = l.inner.LastIndex(); return err })
	return index, err
}

func (l *guardedLog) GetLog(index uint64, log *raft.Log) error {
	return l.guard.read(CallGetLog, func() error { return l.inner.GetLog(index, log) })
}

func (l *guardedLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

func (l *guardedLog) StoreLogs(logs []*raft.Log) error {
	l.guard.env.At(PointLogWrite)
	err := l.guard.write(CallStoreLogs, func() error {
		if err := l.inner.StoreLogs(logs); err != nil || l.guard.begin == nil {
			return err
		}
		return l.guard.begin()
	})
	if err != nil {
		return err
	}
	l.guard.env.At(PointLogWritten)
	bytes := 0
	for _, log := range logs {
		bytes += len(log.Data)
	}
	l.metrics.LogEntries.Add(uint64(len(logs)))
	l.metrics.LogBytes.Add(uint64(bytes))
	l.guard.logged.Add(uint64(bytes))
	return nil
}

func (l *guardedLog) DeleteRange(min, max uint64) error {
	l.guard.env.At(PointLogDelete)
	return l.guard.write(CallDeleteRange, func() error { return l.inner.DeleteRange(min, max) })
}

func isMonotonic(store raft.LogStore) bool {
	m, ok := store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
