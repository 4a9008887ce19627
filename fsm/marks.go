package fsm

import (
	"sort"
	"sync"

	"github.com/quorate/quorate/fsm/image"
)

// marks are copies of the state, ascending by index. From the newest mark at or before an offset the log can be
// judged again.
type marks struct {
	mu    sync.Mutex
	every int
	max   int
	since int
	list  []State
	// loaded tells that the last mark comes from a snapshot.
	loaded bool
}

func (m *marks) init(every, max int) {
	m.every, m.max = every, max
	m.list = []State{InitialState()}
}

// note keeps every n-th state.
func (m *marks) note(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since++; m.since < m.every {
		return
	}
	m.since = 0
	if len(m.list) >= m.max {
		m.list = append(m.list[:0], m.list[1:]...)
	}
	m.list = append(m.list, s)
}

// reset starts again at a state that was loaded.
func (m *marks) reset(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.since, m.loaded = []State{s}, 0, true
}

// next tells that the command after the last mark, if that was loaded, stands at index. What lies between are no
// commands, and may be missing in the log.
func (m *marks) next(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		m.list[len(m.list)-1].Index = index - 1
		m.loaded = false
	}
}

// before returns the newest mark whose offset is not after offset.
func (m *marks) before(offset image.MetadataOffset) (State, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.list), func(i int) bool { return m.list[i].Offset > offset })
	if i == 0 {
		return State{}, false
	}
	return m.list[i-1], true
}
