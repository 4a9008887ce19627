package quorum

import (
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/history"
	"github.com/quorate/quorate/quorum/raftnode"
)

// recentImagesMax and recentRecordsMax bound the images kept for reads at an offset, by their number and by the records
// between them: they share all that did not change, so the records are what they cost.
const (
	recentImagesMax  = 1024
	recentRecordsMax = 100_000
)

// machine is the FSM as Raft drives it, and what this node remembers beside it: who claimed last, and the images of
// the newest entries.
type machine struct {
	*fsm.FSM
	claim atomic.Pointer[lastClaim]
	// claimed tells that a claim was applied.
	claimed raftnode.Signal
	// history gets what was applied; nil: none is kept.
	history *history.History

	// mu is held from before an image is published until it is among the recent ones, so that whoever has waited for an
	// offset finds it there.
	mu     sync.Mutex
	recent []*image.Image // ascending by offset
}

// lastClaim names the active controller as the log does.
type lastClaim struct {
	NodeID    image.BrokerID
	Term      uint64
	Listeners []*metadatapb.Listener
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	return m.ApplyBatch([]*raft.Log{l})[0]
}

// ApplyBatch implements raft.BatchingFSM.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.Image().Offset()
	results := m.FSM.ApplyBatch(logs)
	for i, result := range results {
		switch r := result.(type) {
		case fsm.ClaimResult:
			m.noteClaim(logs[i], r)
		case fsm.EntryResult:
			if r.Verdict == fsm.Apply {
				m.noteImage(r.Image)
			}
		}
	}
	m.remember(before, len(logs))
	return results
}

// remember hands the entries after an offset, which are published by now, to the history. It moves pointers.
func (m *machine) remember(after image.MetadataOffset, max int) {
	if m.history == nil {
		return
	}
	entries, ok := m.After(after, max)
	m.history.Offer(entries)
	if !ok {
		m.history.Missed()
	}
}

// Restore implements raft.FSM. The images before it belong to the same history, but what lies between is not known.
func (m *machine) Restore(rc io.ReadCloser) error {
	if err := m.FSM.Restore(rc); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent = append([]*image.Image(nil), m.Image())
	if m.history != nil {
		l := m.Image().Lineage()
		m.history.Restored(m.mark(), history.Mark{Offset: l.RecoveredOffset, Chain: l.RecoveredChain})
	}
	return nil
}

// mark is where the machine stands.
func (m *machine) mark() history.Mark {
	im := m.Image()
	return history.Mark{Offset: im.Offset(), Chain: im.Chain()}
}

func (m *machine) noteClaim(l *raft.Log, r fsm.ClaimResult) {
	c, err := record.DecodeCommand(l.Data)
	if err != nil || c.Claim == nil {
		return // the FSM has just applied it as a claim
	}
	m.claim.Store(&lastClaim{NodeID: image.BrokerID(c.Claim.GetNodeId()), Term: r.Term, Listeners: c.Claim.GetListeners()})
	m.claimed.Tell()
}

// noteImage keeps an image. The caller holds the lock.
func (m *machine) noteImage(im *image.Image) {
	if n := len(m.recent); n > 0 && m.recent[n-1].Offset() >= im.Offset() {
		return // an entry without records
	}
	drop := 0
	for drop < len(m.recent) && (len(m.recent)-drop >= recentImagesMax || im.Offset()-m.recent[drop].Offset() > recentRecordsMax) {
		drop++
	}
	if drop > 0 {
		m.recent = slices.Delete(m.recent, 0, drop)
	}
	m.recent = append(m.recent, im)
}

// imageAtOnce is imageAt for who must not wait while entries are applied: it finds nothing then.
func (m *machine) imageAtOnce(offset image.MetadataOffset) (im *image.Image, ok bool) {
	if im := m.Image(); im.Offset() == offset {
		return im, true
	}
	if !m.mu.TryLock() {
		return nil, false
	}
	defer m.mu.Unlock()
	im, _, ok = m.find(offset)
	return im, ok
}

// imageAt returns the image that stands at exactly the offset, if it is kept, and the oldest offset that is.
func (m *machine) imageAt(offset image.MetadataOffset) (im *image.Image, oldest image.MetadataOffset, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(offset)
}

// find is imageAt for a caller that holds the lock.
func (m *machine) find(offset image.MetadataOffset) (im *image.Image, oldest image.MetadataOffset, ok bool) {
	if len(m.recent) == 0 {
		im := m.Image()
		return im, im.Offset(), im.Offset() == offset
	}
	i := sort.Search(len(m.recent), func(i int) bool { return m.recent[i].Offset() >= offset })
	oldest = m.recent[0].Offset()
	if i == len(m.recent) || m.recent[i].Offset() != offset {
		return nil, oldest, false
	}
	return m.recent[i], oldest, true
}
