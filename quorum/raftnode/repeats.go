package raftnode

import (
	"sync"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

const (
	// repeatInterval is how often the same line is logged: a refusal, or a call that fails, recurs with every heartbeat.
	repeatInterval = 10 * time.Second
	// repeatsKnownMax bounds the memory for it.
	repeatsKnownMax = 256
)

// repeats lets a line of each key pass once in an interval.
type repeats struct {
	clock env.Clock

	mu   sync.Mutex
	last map[string]*lineSeen
}

type lineSeen struct {
	at      time.Time
	skipped int
}

func newRepeats(clock env.Clock) *repeats {
	return &repeats{clock: clock, last: make(map[string]*lineSeen)}
}

// allow tells whether a line of the key may pass now, and how many did not since the last one that did.
func (r *repeats) allow(key string) (skipped int, ok bool) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.last[key]
	if seen == nil {
		if len(r.last) >= repeatsKnownMax {
			clear(r.last)
		}
		seen = &lineSeen{at: now.Add(-repeatInterval)}
		r.last[key] = seen
	}
	if now.Sub(seen.at) < repeatInterval {
		seen.skipped++
		return 0, false
	}
	skipped = seen.skipped
	seen.at, seen.skipped = now, 0
	return skipped, true
}
