package raftnode

import (
	"sync"
)

// notifyQueue is the room of raft's notice channel. Its main loop blocks on it, so a goroutine drains it always.
const notifyQueue = 64

// Leadership is what the notices said so far. It is a hint and carries no term: only a claim that was applied proves that
// this node led.
type Leadership struct {
	// Leader tells whether the last notice said that this node leads.
	Leader bool
	// Takeover counts the notices "leader". A higher number is a new take-over, also when no "not leader" was seen in
	// between (nats-server GH-8370, hashicorp/raft GH-384).
	Takeover uint64
}

// leadership drains raft's notices and keeps the newest.
type leadership struct {
	notices chan bool
	stop    chan struct{}
	done    chan struct{}
	changed chan struct{} // room for one

	mu  sync.Mutex
	now Leadership
}

func newLeadership() *leadership {
	return &leadership{
		notices: make(chan bool, notifyQueue),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		changed: make(chan struct{}, 1),
	}
}

func (l *leadership) run(metrics *Metrics) {
	defer close(l.done)
	for {
		select {
		case leader := <-l.notices:
			if leader {
				metrics.Takeovers.Add(1)
			}
			l.take(leader)
		case <-l.stop:
			l.take(false)
			return
		}
	}
}

func (l *leadership) take(leader bool) {
	l.mu.Lock()
	l.now.Leader = leader
	if leader {
		l.now.Takeover++
	}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *leadership) current() Leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *leadership) close() {
	close(l.stop)
	<-l.done
}
