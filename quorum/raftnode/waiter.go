package raftnode

import "sync"

// Waiter waits for proposals in their order, on a goroutine of its own, so that nobody else ever blocks on a future.
type Waiter struct {
	node     *Node
	queue    chan *Proposal
	outcomes chan Outcome
	stop     chan struct{}
	once     sync.Once
}

// StartWaiter starts a waiter for at most max proposals at a time. Its goroutine belongs to the node: it ends after
// Stop as soon as the proposal that it waits for has ended, and with the node at the latest; Close waits for it.
func (n *Node) StartWaiter(max int) *Waiter {
	w := &Waiter{node: n, queue: make(chan *Proposal, max), outcomes: make(chan Outcome), stop: make(chan struct{})}
	if !n.goWaiter(w.run) {
		w.Stop()
	}
	return w
}

func (w *Waiter) run() {
	for {
		select {
		case p := <-w.queue:
			out := p.Wait()
			select {
			case w.outcomes <- out:
			case <-w.stop:
				return
			case <-w.node.stopped:
				return
			}
		case <-w.stop:
			return
		case <-w.node.stopped:
			return
		}
	}
}

// Add hands a proposal over. False means that max proposals wait already, or that the waiter was stopped.
func (w *Waiter) Add(p *Proposal) bool {
	select {
	case <-w.stop:
		return false
	default:
	}
	select {
	case w.queue <- p:
		return true
	default:
		return false
	}
}

// Outcomes gives the outcomes in the order of Add. Select on it together with the own stop signal and Node.Stopped: nothing
// may come after Stop or the node's end, and what has not come by then is unknown.
func (w *Waiter) Outcomes() <-chan Outcome { return w.outcomes }

// Stop ends the waiter. It does not wait and may be called repeatedly.
func (w *Waiter) Stop() { w.once.Do(func() { close(w.stop) }) }
