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
	// ErrRemoved says that this server was removed from the quorum: no member takes a connection of it.
	ErrRemoved = errors.New("raftnode: this server was removed from the quorum")
	// ErrLogLost says that a member's log is gone while its votes are there.
	ErrLogLost = errors.New("raftnode: the raft log is gone")
	// ErrVotesLost says that a member's term and vote are gone while its log is there: it could vote twice in a term.
	ErrVotesLost = errors.New("raftnode: the raft votes are gone")
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

	stopped      chan struct{} // closed when no future will resolve any more
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
		stopped:    make(chan struct{}),
	}
}

// Open opens the stores and the listener, loads the newest snapshot into the FSM and joins the quorum. It may be called
// once. On an error nothing is left open.
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
	n.stores, err = openStores(n.cfg, &n.metrics)
	if err != nil {
		return err
	}
	undo = append(undo, func() { n.stores.close() })
	if n.snapshots, err = openSnapshots(n.cfg, n.stores.guard, &n.metrics); err != nil {
		return fmt.Errorf("raftnode: snapshots in %s: %w", n.cfg.Dir, err)
	}
	n.snapshots.installed = func(index, term uint64) error { return n.parts.installed(n, index, term) }
	if err = n.checkLogThere(); err != nil {
		return err
	}
	if err = n.cutAtOpen(); err != nil {
		return fmt.Errorf("raftnode: compare log and snapshot in %s: %w", n.cfg.Dir, err)
	}
	n.configuration = &configurationReader{log: n.stores.log, snapshots: n.snapshots}
	if err = n.openTransport(ctx); err != nil {
		return err
	}
	undo = append(undo, func() { n.transport.Close() })
	go n.leadership.run(&n.metrics)
	undo = append(undo, n.leadership.close)
	r, err := n.startRaft()
	if err != nil {
		return err
	}
	n.raft.Store(r)
	close(n.layer.loaded)
	return nil
}

// checkLogThere refuses a node of which one store is gone and not the other: what it acknowledged or voted under this
// identity is forgotten, and it would go on as if it had never been. Raft writes its term before its first entry, so
// entries without a term say as much as a term without entries.
func (n *Node) checkLogThere() error {
	term, err := n.stores.stable.GetUint64(keyCurrentTerm)
	if err != nil {
		term = 0 // never written
	}
	last, err := n.stores.log.LastIndex()
	if err != nil {
		return err
	}
	list, err := n.snapshots.List()
	if err != nil {
		return err
	}
	began := last > 0 || len(list) > 0
	switch {
	case began == (term > 0):
		return nil // never ran, or whole
	case began:
		return fmt.Errorf("%w: %s has entries up to %d and no term; put %s back, or take the member out with "+
			"`quorate quorum remove`, format the directory anew and add it with `quorate quorum add`", ErrVotesLost, n.cfg.Dir, last, stableName)
	case len(n.snapshots.unreadable) > 0:
		return n.snapshots.unreadable[0]
	}
	return fmt.Errorf("%w: %s has term %d but neither log entries nor a snapshot; put the log back, or take the member out with "+
		"`quorate quorum remove`, format the directory anew and add it with `quorate quorum add`", ErrLogLost, n.cfg.Dir, term)
}

func (n *Node) openTransport(ctx context.Context) error {
	self := peerAddress{hostPort: n.cfg.AdvertisedAddress, id: n.cfg.ID}
	n.layer = &streamLayer{
		loaded:    make(chan struct{}),
		clusterID: n.cfg.ClusterID, self: self, network: n.cfg.Env.Network, tls: n.cfg.TLS,
		handshakeTimeout: n.cfg.RPCTimeout, judge: n.parts.judge, isRemoved: n.isRemoved,
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
	damaged := func() uint64 { return n.metrics.SnapshotsDamaged.Load() }
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raftnode: %s cannot be loaded: %v", n.cfg.Dir, p)
		}
		if err != nil && len(n.snapshots.unreadable) > 0 {
			err = fmt.Errorf("%w; %w", n.snapshots.unreadable[0], err)
		}
		if err != nil && damaged() > 0 {
			err = fmt.Errorf("%w; %d snapshots are damaged in %s: remove this node from the quorum, format it anew and add it again",
				err, damaged(), n.snapshots.dir)
		}
	}()
	return raft.NewRaft(n.cfg.raftConfig(n.leadership.notices), markOwnSnapshots(n.cfg.FSM), n.stores.log, n.parts.stable(n.stores.stable),
		n.snapshots, n.parts.transport(n.transport))
}

// Run takes a snapshot whenever Config.SnapshotBytes were logged since the last one, until the context ends. The library
// counts entries itself.
func (n *Node) Run(ctx context.Context) {
	ticker := time.NewTicker(snapshotCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.stopped:
			return
		case <-ticker.C:
		}
		if n.metrics.LogBytes.Load()-n.snapshots.bytesCovered.Load() < n.cfg.SnapshotBytes {
			continue
		}
		if err := n.Snapshot(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("metadata snapshot failed", "error", err)
		}
	}
}

// Close stops the node: raft first, then connections, then stores. It does not hand leadership over, see
// TransferLeadership; submitters must have stopped. With ErrShutdownLate the stores stay open, and the process must end.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotOpen
	}
	done := make(chan error, 1)
	future := r.Shutdown()
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

func (n *Node) hasStopped() bool {
	select {
	case <-n.stopped:
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
