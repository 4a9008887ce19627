package image

import "cmp"

// arena hands out dense ordinals. Ordinals that were released are handed out again, lowest first, so that neither the
// ordinals nor the pages behind them grow with the number of things that ever were, only with the most that were at once.
type arena struct {
	// free maps the start of each free extent below next to its length. No two of them touch.
	free tree[uint32, uint32]
	// next is the lowest ordinal above which nothing was handed out.
	next uint32
}

func newArena() arena {
	return arena{free: tree[uint32, uint32]{compare: cmp.Compare[uint32]}}
}

// take hands out the ordinal at, if it is free.
func (a *arena) take(gen uint64, at uint32) bool {
	if at == a.next {
		a.next++
		return true
	}
	n, ok := a.free.get(at)
	if !ok {
		return false
	}
	a.free.delete(gen, at)
	if n > 1 {
		a.free.set(gen, at+1, n-1)
	}
	return true
}

// alloc hands out the lowest free ordinal.
func (a *arena) alloc(gen uint64) uint32 {
	at := a.next
	if it, ok := a.free.first(); ok {
		at = it.key
	}
	a.take(gen, at)
	return at
}

// release gives n ordinals back.
func (a *arena) release(gen uint64, start, n uint32) {
	if before, ok := a.free.below(start); ok && before.key+before.val == start {
		a.free.delete(gen, before.key)
		start, n = before.key, before.val+n
	}
	if after, ok := a.free.get(start + n); ok {
		a.free.delete(gen, start+n)
		n += after
	}
	if start+n == a.next {
		a.next = start
		return
	}
	a.free.set(gen, start, n)
}
