package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// TestPauseFencesNobody: while leadership is handed over no heartbeat is taken, so no session ends, and afterwards each one
// begins anew.
func TestPauseFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		timeout := l.cfg.Limits.SessionTimeout
		pass := func(d time.Duration) (fenced []image.BrokerID) {
			for end := l.env.Now().Add(d); l.env.Now().Before(end); {
				<-time.After(tickInterval)
				l.beginTurn()
				l.onTick()
			}
			for b := range l.claim.pending.Brokers() {
				if b.Fenced {
					fenced = append(fenced, b.ID)
				}
			}
			return fenced
		}
		p := &pause{idle: make(chan struct{}), ended: make(chan struct{})}
		l.onPause(p)
		if got := pass(2 * timeout); got != nil {
			t.Errorf("fenced during the pause: %v", got)
		}
		l.onResume(p)
		if got := pass(timeout - tickInterval); got != nil {
			t.Errorf("fenced within a session after the pause: %v", got)
		}
		if got := pass(3 * tickInterval); !slices.Equal(got, []image.BrokerID{1, 2}) {
			t.Errorf("fenced a session after the pause: %v, want both", got)
		}
	})
}
