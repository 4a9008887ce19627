package history

import (
	"sync"

	"github.com/quorate/quorate/fsm"
)

// queued is an entry, or the mark of a snapshot that was installed.
type queued struct {
	entry    *fsm.Entry
	restored *restored
}

// restored is where a snapshot stands, and where the log ended that its lineage went on from.
type restored struct{ at, recovered Mark }

// queue holds what waits to be written, entriesMax entries and marks of bytesMax bytes. What finds no room is dropped: whoever
// puts must not wait.
type queue struct {
	mu                   sync.Mutex
	entriesMax, bytesMax int
	list                 []queued
	bytes                int
	lost                 bool // something was dropped since the last take
	// wake has a token when there is something to take.
	wake chan struct{}
}

// putEntries adds entries in order and tells how many were dropped.
func (q *queue) putEntries(entries []*fsm.Entry) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		if len(q.list) >= q.entriesMax || q.bytes+len(e.Bytes) > q.bytesMax {
			q.lost = true
			dropped++
			continue
		}
		q.list = append(q.list, queued{entry: e})
		q.bytes += len(e.Bytes)
	}
	q.signal()
	return dropped
}

// putRestored adds a mark. It takes the place of a mark that stands last, for nothing came between the two. Where there is no
// room it is dropped: what comes after it does not follow what was there before, which shows that something is missing.
func (q *queue) putRestored(r restored) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch last := len(q.list) - 1; {
	case last >= 0 && q.list[last].restored != nil:
		q.list[last].restored = &r
	case len(q.list) >= q.entriesMax:
		q.lost = true
	default:
		q.list = append(q.list, queued{restored: &r})
	}
	q.signal()
}

// putLost notes that something is missing.
func (q *queue) putLost() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (q *queue) take() (list []queued, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, lost = q.list, q.lost
	q.list, q.bytes, q.lost = nil, 0, false
	return list, lost
}
