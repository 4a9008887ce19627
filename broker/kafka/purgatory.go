package kafka

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// waiter is a request that waits for partitions or for its deadline. The purgatory's goroutine alone calls check and
// expire; it calls check until it returns true, or else expire, once.
type waiter struct {
	keys     []image.PartitionID // distinct
	deadline time.Time
	// ctx ends with the connection; then nobody is there to be told.
	ctx context.Context
	// check looks at one of the keys again. It returns true when it has answered the request.
	check func(image.PartitionID) bool
	// expire answers the request at its deadline.
	expire func()
	// hurry makes the waiter expire as soon as the server drains.
	hurry bool

	// The rest belongs to the purgatory's goroutine.
	state waiterState
	pos   []int // place in the list of each key
	heap  int   // place in the heap
}

type waiterState int

const (
	waiterNew waiterState = iota
	waiterListed
	waiterDone
)

// listed is a waiter in the list of its key number k.
type listed struct {
	w *waiter
	k int
}

// purgatory holds waiters by partition and by deadline. No goroutine is parked for a waiter: one loop owns the lists,
// so that each waiter is completed exactly once, and others reach it through an inbox.
type purgatory struct {
	clock env.Clock
	wake  chan struct{} // capacity 1

	mu    sync.Mutex
	inbox inbox
	// watched counts the waiters of a partition, so that a change nobody waits for wakes nobody.
	watched map[image.PartitionID]int

	// Owned by the loop.
	lists    map[image.PartitionID][]listed
	due      dueHeap
	draining bool
	spare    map[image.PartitionID]struct{} // the next inbox's set, empty
}

// inbox is what others have asked of the loop since it last looked.
type inbox struct {
	added    []*waiter
	canceled []*waiter
	changed  map[image.PartitionID]struct{} // each once, however often it changed
	drain    bool
}

func newPurgatory(clock env.Clock) *purgatory {
	return &purgatory{
		clock:   clock,
		wake:    make(chan struct{}, 1),
		inbox:   inbox{changed: map[image.PartitionID]struct{}{}},
		spare:   map[image.PartitionID]struct{}{},
		watched: map[image.PartitionID]int{},
		lists:   map[image.PartitionID][]listed{},
	}
}

// add hands a waiter over. Its keys are checked once more after it is listed, so no change is missed between the
// caller's own look and this call.
func (p *purgatory) add(w *waiter) {
	p.mu.Lock()
	for _, k := range w.keys {
		p.watched[k]++
	}
	p.inbox.added = append(p.inbox.added, w)
	p.mu.Unlock()
	p.ring()
}

// notify has the waiters of a partition checked.
func (p *purgatory) notify(id image.PartitionID) {
	p.mu.Lock()
	watched := p.watched[id] > 0
	if watched {
		p.inbox.changed[id] = struct{}{}
	}
	p.mu.Unlock()
	if watched {
		p.ring()
	}
}

// cancel forgets a waiter whose connection has ended.
func (p *purgatory) cancel(w *waiter) {
	p.mu.Lock()
	p.inbox.canceled = append(p.inbox.canceled, w)
	p.mu.Unlock()
	p.ring()
}

// drain makes waiters in a hurry expire now, and later ones at once.
func (p *purgatory) drain() {
	p.mu.Lock()
	p.inbox.drain = true
	p.mu.Unlock()
	p.ring()
}

func (p *purgatory) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run is the loop. What is left when the context ends is forgotten.
func (p *purgatory) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(p.untilDue())
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			p.work()
		case <-timer.C:
		}
		p.expireDue(p.clock.Now())
	}
}

// untilDue is the time until the next deadline.
func (p *purgatory) untilDue() time.Duration {
	if len(p.due) == 0 {
		return time.Hour
	}
	return max(p.due[0].deadline.Sub(p.clock.Now()), 0)
}

func (p *purgatory) work() {
	p.mu.Lock()
	in := p.inbox
	p.inbox = inbox{changed: p.spare}
	p.mu.Unlock()
	if in.drain && !p.draining {
		p.draining = true
		for _, w := range append(dueHeap(nil), p.due...) {
			if w.hurry {
				p.end(w)
				w.expire()
			}
		}
	}
	for _, w := range in.canceled {
		p.end(w)
	}
	for id := range in.changed {
		p.recheck(id)
	}
	for _, w := range in.added {
		p.list(w)
	}
	clear(in.changed)
	p.spare = in.changed
}

// list takes a waiter in, unless it is decided already.
func (p *purgatory) list(w *waiter) {
	if w.ctx.Err() != nil || w.state == waiterDone {
		w.state = waiterDone
		p.unwatch(w)
		return
	}
	w.state = waiterListed
	w.pos = make([]int, len(w.keys))
	for k, id := range w.keys {
		w.pos[k] = len(p.lists[id])
		p.lists[id] = append(p.lists[id], listed{w, k})
	}
	heap.Push(&p.due, w)
	for _, id := range w.keys {
		if w.check(id) {
			p.end(w)
			return
		}
	}
	if w.hurry && p.draining {
		p.end(w)
		w.expire()
	}
}

// recheck looks at all waiters of a partition, from the back: the end of one moves only those behind it.
func (p *purgatory) recheck(id image.PartitionID) {
	for i := len(p.lists[id]) - 1; i >= 0; i-- {
		if w := p.lists[id][i].w; w.check(id) {
			p.end(w)
		}
	}
}

// end takes a waiter out of everything.
func (p *purgatory) end(w *waiter) {
	if w.state != waiterListed {
		w.state = waiterDone
		return
	}
	w.state = waiterDone
	for k, id := range w.keys {
		list := p.lists[id]
		last := len(list) - 1
		moved := list[last]
		list[w.pos[k]] = moved
		moved.w.pos[moved.k] = w.pos[k]
		list[last] = listed{}
		if p.lists[id] = list[:last]; last == 0 {
			delete(p.lists, id)
		}
	}
	heap.Remove(&p.due, w.heap)
	p.unwatch(w)
}

func (p *purgatory) unwatch(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range w.keys {
		if p.watched[id]--; p.watched[id] <= 0 {
			delete(p.watched, id)
		}
	}
}

func (p *purgatory) expireDue(now time.Time) {
	for len(p.due) > 0 && !p.due[0].deadline.After(now) {
		w := p.due[0]
		p.end(w)
		w.expire()
	}
}

// dueHeap orders waiters by deadline.
type dueHeap []*waiter

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

func (h *dueHeap) Push(x any) {
	w := x.(*waiter)
	w.heap = len(*h)
	*h = append(*h, w)
}

func (h *dueHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}
