package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// watchdogTick is the watchdog's own measure of time.
const watchdogTick = 100 * time.Millisecond

var (
	// ErrStoreHangs says that a call of a store did not return within Config.StoreTimeout. The write may still land, so the
	// node cannot go on as if it had failed.
	ErrStoreHangs = errors.New("raftnode: a store hangs")
	// ErrStoreFailed says that a store could not be written.
	ErrStoreFailed = errors.New("raftnode: a store failed")
)

// watchdog ends the process when a call of a store fails or hangs. A leader whose disk hangs goes on to send heartbeats
// from other goroutines, so nobody else would ever be elected (hashicorp/raft GH-503, GH-666).
//
// Time is counted in its own ticks, and a late tick counts as one: after SIGSTOP and SIGCONT in the middle of a write
// a deadline would be long past, although the disk had no time at all.
type watchdog struct {
	limit int // ticks
	fatal func(error)
	once  sync.Once

	mu     sync.Mutex
	active map[*watched]struct{}

	stop chan struct{}
	done chan struct{}
}

type watched struct {
	call  StoreCall
	ticks int
}

func newWatchdog(timeout time.Duration, fatal func(error)) *watchdog {
	return &watchdog{
		limit:  int((timeout + watchdogTick - 1) / watchdogTick),
		fatal:  fatal,
		active: make(map[*watched]struct{}),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// run counts ticks until close. A production ticker drops ticks that nobody took, which is what late ticks need.
func (w *watchdog) run(ticks <-chan time.Time) {
	defer close(w.done)
	for {
		select {
		case <-ticks:
			w.tick()
		case <-w.stop:
			return
		}
	}
}

func (w *watchdog) start() {
	ticker := time.NewTicker(watchdogTick)
	go func() {
		defer ticker.Stop()
		w.run(ticker.C)
	}()
}

func (w *watchdog) close() {
	close(w.stop)
	<-w.done
}

func (w *watchdog) tick() {
	w.mu.Lock()
	var hung *watched
	for op := range w.active {
		op.ticks++
		if op.ticks > w.limit && (hung == nil || op.ticks > hung.ticks) {
			hung = op
		}
	}
	w.mu.Unlock()
	if hung != nil {
		w.fail(fmt.Errorf("%w: %s has not returned for %v; see what the kernel says of the disk, replace it if need be, and start the node again", ErrStoreHangs, hung.call, time.Duration(w.limit)*watchdogTick))
	}
}

// begin and end bracket a call.
func (w *watchdog) begin(call StoreCall) *watched {
	op := &watched{call: call}
	w.mu.Lock()
	w.active[op] = struct{}{}
	w.mu.Unlock()
	return op
}

func (w *watchdog) end(op *watched) {
	w.mu.Lock()
	delete(w.active, op)
	w.mu.Unlock()
}

// fail ends the process, once.
func (w *watchdog) fail(err error) { w.once.Do(func() { w.fatal(err) }) }
