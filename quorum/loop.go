package quorum

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// operationsPerTurnMax bounds the requests that one turn of the loop decides. Those that write nothing fill no entry, and
// would end a turn only when the queue is empty.
const operationsPerTurnMax = 1024

// raftLog is Raft as the active controller sees it.
type raftLog interface {
	// Apply hands an entry to Raft, in call order.
	Apply(data []byte) *raftnode.Proposal
	// StartWaiter waits for proposals on a goroutine of its own, for a future may never resolve.
	StartWaiter(max int) *raftnode.Waiter
	LeadershipChanged() <-chan struct{}
	Leadership() raftnode.Leadership
}

// stateMachine is the FSM as the active controller sees it.
type stateMachine interface {
	// Offer gives the image after an entry that is about to be proposed.
	Offer(fsm.Offer)
	// Image is the newest committed image.
	Image() *image.Image
}

// activity is what the rest of the node may know of the active role. It is set last and cleared first (KAFKA-15345).
type activity struct {
	controllerEpoch image.ControllerEpoch
	since           time.Time
	// ended is closed when the role has ended.
	ended chan struct{}
}

// loop is the active controller: one goroutine that owns the pending image and decides in order.
type loop struct {
	cfg     *Config
	env     *env.Env
	logger  *slog.Logger
	metrics *Metrics
	raft    raftLog
	fsm     stateMachine
	rand    *rand.Rand

	queue chan *operation
	// contacts are the heartbeats that have arrived, whatever becomes of them in the queue.
	contacts contacts
	// pauses and resumes begin and end a pause.
	pauses, resumes chan *pause
	// stopped is closed when the loop has ended.
	stopped chan struct{}
	// outOfQuorum is closed when the node is superseded. Nil: it never is.
	outOfQuorum <-chan struct{}
	active      atomic.Pointer[activity]
	// bytesHeld are the bytes of the requests that are not answered yet.
	bytesHeld atomic.Int64
	// waitingNow is how many requests are in waiting, as others may see it.
	waitingNow atomic.Int64
	// soft is the broker liveness as readers may see it.
	soft atomic.Pointer[controller.Liveness]

	// Owned by run.
	waiter     *raftnode.Waiter
	leadership raftnode.Leadership
	claiming   *claimAttempt
	claim      *claim
	orphans    []*orphan
	paused     *pause
	ticks      uint64
	// isOut tells that the node is superseded: it never claims again.
	isOut bool
	// aside is a large decision that is being made; waiting are the requests that came meanwhile.
	aside   *aside
	asides  sync.WaitGroup
	waiting []*operation
	// heartbeatsWaiting are the heartbeats among them, which stand first.
	heartbeatsWaiting int
	// overdue tells that a tick found no room to decide what time brings, timeWent that the last large decision was such a one.
	overdue, timeWent bool
	// refusals are why the loop's own operations were refused last, by cause.
	refusals map[string]string
}

func newLoop(cfg *Config, metrics *Metrics, raft raftLog, machine stateMachine) *loop {
	return &loop{
		cfg: cfg, env: cfg.Env, logger: cfg.Logger, metrics: metrics, raft: raft, fsm: machine,
		rand:    rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		queue:   make(chan *operation, operationsQueuedMax),
		stopped: make(chan struct{}),
		pauses:  make(chan *pause), resumes: make(chan *pause),
		refusals: map[string]string{},
	}
}

// run owns the active role until the context ends. Requests that are still queued then are refused.
func (l *loop) run(ctx context.Context) {
	defer close(l.stopped)
	l.waiter = l.raft.StartWaiter(proposalsAwaitedMax)
	defer func() {
		l.renounce("the node is stopping")
		l.refuseQueued()
		l.asides.Wait()
		l.waiter.Stop()
	}()
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		queue := l.queue
		if l.claim == nil {
			l.refuseQueued()
		}
		if !l.takes() {
			queue = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-l.outOfQuorum:
			l.onOutOfQuorum()
		case <-l.raft.LeadershipChanged():
			l.onLeadership(l.raft.Leadership())
		case p := <-l.pauses:
			l.onPause(p)
		case p := <-l.resumes:
			l.onResume(p)
		case op := <-queue:
			l.beginTurn()
			l.letTimeGo()
			l.onOperation(op)
		case <-l.waited():
			l.beginTurn()
			l.letTimeGo()
			if op, ok := l.nextWaiting(); ok {
				l.onOperation(op)
			}
		case out := <-l.waiter.Outcomes():
			l.onOutcome(out)
		case <-l.asideDone():
			l.beginTurn()
			l.onAside()
		case <-ticker.C:
			l.beginTurn()
			l.onTick()
		}
		l.flush()
		l.settlePause()
	}
}

// onOperation decides what came in and whatever else waits, so that it can share an entry. A turn has an end also when
// callers ask as fast as they are answered: commits, leadership and sessions have their turns too.
func (l *loop) onOperation(op *operation) {
	for decided := 1; ; decided++ {
		l.take(op)
		if decided == operationsPerTurnMax {
			return
		}
		var waited bool
		if op, waited = l.nextWaiting(); waited {
			continue
		}
		if !l.takes() {
			return
		}
		select {
		case op = <-l.queue:
		default:
			return
		}
	}
}

// depth is how many requests wait to be decided, in the queue or behind a large decision. It may be called from any goroutine.
func (l *loop) depth() int { return len(l.queue) + int(l.waitingNow.Load()) }

// refuseQueued answers requests that slipped into the queue while the active role ended.
func (l *loop) refuseQueued() {
	for {
		select {
		case op := <-l.queue:
			op.answer(result{err: ErrNotActive})
		default:
			return
		}
	}
}

// view is what decisions see: the pending image and the soft state of this claim.
func (l *loop) view() controller.View {
	c := l.claim
	return controller.View{
		Image: c.pending, NextOffset: c.pending.Offset() + 1,
		Liveness: c.liveness, Limits: l.cfg.Limits, Defaults: l.cfg.Defaults,
		ClusterID: l.cfg.ClusterID, Now: l.env.Now(), Rand: l.rand, NewID: l.newID,
	}
}

// newID draws a random id.
func (l *loop) newID() image.UUID { return newID(l.rand) }

// newID draws a random id that is not one of the reserved ones.
func newID(r *rand.Rand) image.UUID {
	for {
		var id image.UUID
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // RFC 9562, version 4
		if !id.IsZero() {
			return id
		}
	}
}

func (l *loop) fatal(err error) {
	l.logger.Error("active controller cannot go on", "error", err)
	l.cfg.Fatal(err)
}
