package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var (
	// ErrNotOpen says that the node was not opened.
	ErrNotOpen = errors.New("raftnode: node is not open")
	// ErrStopped says that the node was closed.
	ErrStopped = errors.New("raftnode: node has stopped")
	// ErrShutdownLate says that the library did not stop in time. Its stores are still open: end the process.
	ErrShutdownLate = errors.New("raftnode: raft did not stop in time")
	// ErrSuperseded says that this server has no say any more, see [Superseded].
	ErrSuperseded = errors.New("raftnode: this controller is superseded")
)

// snapshotCheckInterval is how often Run looks whether enough bytes were logged for a snapshot.
const snapshotCheckInterval = time.Second

// Node is a member of the metadata quorum: hashicorp/raft with its stores and its transport.
type Node struct {
	cfg        Config
	metrics    Metrics
	leadership *leadership
	raft       atomic.Pointer[raft.Raft]

	parts parts

	layer     *streamLayer
	transport *transport
	stores    *stores
	snapshots *snapshotStore

	configuration *configurationReader

	hasBegun     atomic.Bool // there are entries or a snapshot, and that is noted
	superseded   atomic.Pointer[Superseded]
	supersededMu sync.Mutex    // held while superseded is set
	outOfQuorum  chan struct{} // closed when superseded is set for the first time
	shutdownOnce sync.Once
	futuresOnce  sync.Once
	shutdown     raft.Future // of the library, see stopRaft

	raftEnded    chan struct{} // closed when no future will resolve any more
	stopped      chan struct{} // closed when the node is closed
	stoppedClean atomic.Bool   // raft has ended, nothing of it runs
	closeOnce    sync.Once
	closeErr     error

	waitersMu   sync.Mutex
	waitersShut bool
	waiters     sync.WaitGroup
}

// parts are those that a negative control replaces by what the library or a naive program would use.
type parts struct {
	judge     func(h hello, clusterID string, own ServerID) verdict
	transport func(*transport) raft.Transport
	stable    func(*voteStore) raft.StableStore
	installed func(n *Node, index, term uint64) error
	lastLog   func(r *raft.Raft, index, term uint64) error
}

func properParts() parts {
	return parts{
		judge:     judge,
		transport: func(t *transport) raft.Transport { return t },
		stable:    func(s *voteStore) raft.StableStore { return s },
		installed: (*Node).cutForInstalled,
		lastLog:   setLastLog,
	}
}

// New makes a node that does nothing yet.
func New(cfg Config) *Node {
	return &Node{
		cfg:        cfg.withDefaults(),
		leadership: newLeadership(),
		parts:      properParts(),
		stopped:    make(chan struct{}), outOfQuorum: make(chan struct{}), raftEnded: make(chan struct{}),
	}
}

// Open opens the stores and the listener, loads the newest snapshot into the FSM, asks the other voters whether this server is
// superseded, for at most a second, and joins the quorum if it is not. It may be called once. On an error nothing is left open.
func (n *Node) Open(ctx context.Context) (err error) {
	if err := n.cfg.Validate(); err != nil {
		return err
	}
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	if err = n.openState(); err != nil {
		return &StateError{err}
	}
	undo = append(undo, func() { n.stores.close() })
	if err = n.openTransport(ctx); err != nil {
		return err
	}
	undo = append(undo, func() { n.transport.Close() })
	go n.leadership.run(&n.metrics)
	undo = append(undo, n.leadership.close)
	r, err := n.startRaft()
	if err != nil {
		return &StateError{err}
	}
	n.raft.Store(r)
	if err := n.recallSuperseded(); err != nil {
		return &StateError{errors.Join(err, n.stopRaft().Error())}
	}
	close(n.layer.loaded)
	n.askVoters(ctx, startAskMax, func(Server) bool { return true })
	close(n.layer.gate)
	return nil
}

// openState opens what is on the disk, after it has been seen to be whole.
func (n *Node) openState() (err error) {
	if err = checkBeforeOpen(n.cfg.Env.FS, n.cfg.Dir, n.cfg.Begun); err != nil {
		return err
	}
	if n.stores, err = openStores(n.cfg, &n.metrics); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.stores.close()
		}
	}()
	if n.snapshots, err = openSnapshots(n.cfg, n.stores.guard, &n.metrics); err != nil {
		return err
	}
	n.hasBegun.Store(n.cfg.Begun)
	n.stores.guard.begin = n.begin
	n.snapshots.installed = func(index, term uint64) error { return n.parts.installed(n, index, term) }
	if err = n.checkOwner(); err != nil {
		return err
	}
	if err = n.checkWhole(); err != nil {
		return err
	}
	if err = n.cutAtOpen(); err != nil {
		return n.ofLog(fmt.Errorf("raftnode: compare log and snapshot in %s: %w", n.cfg.Dir, err))
	}
	n.configuration = &configurationReader{log: n.stores.log, snapshots: n.snapshots}
	return nil
}

func (n *Node) openTransport(ctx context.Context) error {
	self := peerAddress{hostPort: n.cfg.AdvertisedAddress, id: n.cfg.ID}
	n.layer = &streamLayer{
		loaded: make(chan struct{}), gate: make(chan struct{}),
		clusterID: n.cfg.ClusterID, self: self, network: n.cfg.Env.Network, tls: n.cfg.TLS,
		handshakeTimeout: n.cfg.RPCTimeout, judge: n.parts.judge, isRemoved: n.isRemoved,
		lineage: n.lineage, superseded: n.superseded.Load, onSuperseded: n.Supersede,
		refusals: newRefusalLog(n.cfg.Logger, n.cfg.Env.Clock), metrics: &n.metrics,
	}
	if err := n.layer.listen(ctx, n.cfg.ListenAddress); err != nil {
		return fmt.Errorf("raftnode: RAFT listener on %s: %w; free the port or correct listeners", n.cfg.ListenAddress, err)
	}
	provider := newAddressProvider(self, func() raft.Configuration {
		if r := n.raft.Load(); r != nil {
			return r.GetConfiguration().Configuration()
		}
		return raft.Configuration{}
	})
	n.transport = newTransport(n.layer, provider, n.cfg.Env.Clock, n.cfg.RPCTimeout, n.cfg.ElectionTimeout, n.goWaiter, newHCLog(n.cfg.Logger, n.cfg.Env.Clock))
	return nil
}

// startRaft starts the library. It panics when the log does not reach back to the newest snapshot that could be loaded,
// which is a state of the disk and not a bug, and so an error here.
func (n *Node) startRaft() (r *raft.Raft, err error) {
	defer func() {
		refused := n.snapshots.refused
		if p := recover(); p != nil {
			err = fmt.Errorf("raftnode: %s cannot be loaded: %v", n.cfg.Dir, p)
			if len(refused) == 0 {
				err = n.ofLog(err)
			}
		}
		if err != nil && len(refused) > 0 {
			err = fmt.Errorf("%w; %d snapshots are damaged in %s (%w): remove this node from the quorum, format it anew and add it again",
				err, len(refused), n.snapshots.dir, joined(refused))
		}
		if err == nil {
			n.snapshots.begin()
		}
	}()
	return raft.NewRaft(n.cfg.raftConfig(n.leadership.notices), markOwnSnapshots(n.cfg.FSM), coveredLog{n.stores.log, n.snapshots.covered.Load}, n.parts.stable(n.stores.stable),
		n.snapshots, n.parts.transport(n.transport))
}

// joined puts errors into one line.
func joined(list []error) error {
	out := list[0]
	for _, err := range list[1:] {
		out = fmt.Errorf("%w; %w", out, err)
	}
	return out
}

// Run takes a snapshot whenever Config.SnapshotBytes were logged since the last one, until the context ends. The library
// counts entries itself. Meanwhile it asks voters out of touch for their lineage.
func (n *Node) Run(ctx context.Context) {
	var watch sync.WaitGroup
	watch.Go(func() { n.watchVoters(ctx) })
	defer watch.Wait()
	ticker := time.NewTicker(snapshotCheckInterval)
	defer ticker.Stop()
	for n.awaitTick(ctx, ticker) {
		if n.stores.guard.logged.Load()-n.snapshots.bytesCovered.Load() < n.cfg.SnapshotBytes {
			continue
		}
		if err := n.Snapshot(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("metadata snapshot failed", "error", err)
		}
	}
}

// awaitTick waits for the next tick, and tells whether there is one: the server has not stopped, and still has a say.
func (n *Node) awaitTick(ctx context.Context, ticker *time.Ticker) bool {
	select {
	case <-ctx.Done():
	case <-n.stopped:
	case <-n.outOfQuorum:
	case <-ticker.C:
		return true
	}
	return false
}

// Close stops the node: raft first, then connections, then stores. It does not hand leadership over, see
// TransferLeadership; submitters must have stopped. With ErrShutdownLate the stores stay open, and the process must end.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	if n.raft.Load() == nil {
		return ErrNotOpen
	}
	done := make(chan error, 1)
	future := n.stopRaft()
	n.layer.sever() // else raft waits for calls in flight, up to RPCTimeout each
	go func() { done <- future.Error() }()
	timer := time.NewTimer(n.cfg.ShutdownTimeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
		n.stoppedClean.Store(true)
	case <-timer.C:
		err = fmt.Errorf("%w: %v", ErrShutdownLate, n.cfg.ShutdownTimeout)
	}
	close(n.stopped)
	n.endFutures()
	n.endWaiters()
	n.leadership.close()
	if errors.Is(err, ErrShutdownLate) {
		return err
	}
	n.transport.CloseStreams()
	return errors.Join(err, n.transport.Close(), n.layer.Close(), n.stores.close())
}

// running is the library; it panics if the node was never opened, which is a bug of the caller.
func (n *Node) running() *raft.Raft {
	r := n.raft.Load()
	if r == nil {
		panic(ErrNotOpen)
	}
	return r
}

// endFutures lets nobody wait any more for what the library has been asked.
func (n *Node) endFutures() { n.futuresOnce.Do(func() { close(n.raftEnded) }) }

func (n *Node) hasRaftEnded() bool {
	select {
	case <-n.raftEnded:
		return true
	default:
		return false
	}
}

// goWaiter runs f on a goroutine that Close waits for. False means that the node has stopped.
func (n *Node) goWaiter(f func()) bool {
	n.waitersMu.Lock()
	defer n.waitersMu.Unlock()
	if n.waitersShut {
		return false
	}
	n.waiters.Go(f)
	return true
}

func (n *Node) endWaiters() {
	n.waitersMu.Lock()
	n.waitersShut = true
	n.waitersMu.Unlock()
	n.waiters.Wait()
}
