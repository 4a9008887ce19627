package quorum

import (
	"context"
)

// pauseTicksMax is how long a pause may last, in ticks. It is more than a transfer of leadership takes, and less than a
// broker's session.
const pauseTicksMax = 30

// pause keeps the active controller from proposing while leadership is handed over: Raft would refuse what it proposes
// then, and the claim would be lost although leadership stays.
type pause struct {
	since uint64 // tick
	// idle is closed when nothing is with Raft any more, ended when the pause has ended without that.
	idle, ended chan struct{}
	isIdle      bool
}

// pause stops proposing and waits until nothing is with Raft. Requests wait meanwhile. The caller ends it with resume,
// whatever becomes of it; it also ends with the claim, and by itself after a while.
func (l *loop) pause(ctx context.Context) (resume func(), err error) {
	p := &pause{idle: make(chan struct{}), ended: make(chan struct{})}
	select {
	case l.pauses <- p:
	case <-l.stopped:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resume = func() {
		select {
		case l.resumes <- p:
		case <-l.stopped:
		}
	}
	select {
	case <-p.idle:
		return resume, nil
	case <-p.ended:
		return nil, ErrNotActive
	case <-l.stopped:
		return nil, ErrStopped
	case <-ctx.Done():
		resume()
		return nil, ctx.Err()
	}
}

func (l *loop) onPause(p *pause) {
	if l.claim == nil || l.paused != nil {
		close(p.ended)
		return
	}
	p.since = l.ticks
	l.paused = p
}

func (l *loop) onResume(p *pause) {
	if l.paused == p {
		l.endPause()
	}
}

// endPause goes on. Heartbeats were not taken meanwhile, so everyone gets a full new session, as after a gap in the
// controller's own turns.
func (l *loop) endPause() {
	l.paused = nil
	if l.claim != nil {
		l.claim.liveness = l.claim.liveness.Renewed(l.env.Now())
	}
}

// settlePause tells who waits for it that nothing is with Raft any more, or that the claim has ended.
func (l *loop) settlePause() {
	p := l.paused
	switch {
	case p == nil || p.isIdle && l.claim != nil:
	case l.claim == nil:
		l.paused = nil
		if !p.isIdle {
			close(p.ended)
		}
	case len(l.claim.sent) == 0:
		p.isIdle = true
		close(p.idle)
	}
}

// endLongPause goes on when whoever paused has forgotten to.
func (l *loop) endLongPause() {
	if p := l.paused; p != nil && p.isIdle && l.ticks-p.since > pauseTicksMax {
		l.logger.Warn("the active controller proposes again: leadership was not handed over in time")
		l.endPause()
	}
}
