package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Answer is what one controller said of itself.
type Answer struct {
	Address string
	// Status is nil if there was no answer; Err says why.
	Status *controllerpb.NodeStatusResponse
	Err    error
}

// active is the answering node's word that it is active itself.
func (a Answer) active() (Controller, bool) {
	named := a.Status.GetActiveController()
	if named == nil || named.GetNodeId() != a.Status.GetNodeId() {
		return Controller{}, false
	}
	return Controller{ID: named.GetNodeId(), Address: a.Address, ControllerEpoch: named.GetControllerEpoch(), Lineage: named.GetLineage()}, true
}

// addresses lists the controllers that an answer names.
func (a Answer) addresses() []string {
	var out []string
	if named := a.Status.GetActiveController(); named.GetAddress() != "" {
		out = append(out, named.GetAddress())
	}
	for _, m := range a.Status.GetMembers() {
		if m.GetGrpcAddress() != "" {
			out = append(out, m.GetGrpcAddress())
		}
	}
	return out
}

// Statuses asks every known controller, and those that answers name, for itself. It returns when each has answered or
// [ProbeTimeout] is over; the answers are in the order of [Client.Known].
func (c *Client) Statuses(ctx context.Context) []Answer {
	s := c.sweep(ctx, func(*sweep) bool { return false }, ProbeTimeout)
	order := c.Known()
	slices.SortStableFunc(s.answers, func(a, b Answer) int {
		return slices.Index(order, a.Address) - slices.Index(order, b.Address)
	})
	return s.answers
}

// sweep is one round of questions.
type sweep struct {
	answers []Answer
	asked   []string
	heard   int // answers that are none of the errors
}

// majority tells whether more than half of those asked have answered.
func (s *sweep) majority() bool { return 2*s.heard > len(s.asked) }

// newest is the highest rank that any answer names. A controller that knows of a newer lineage and of nobody active in it goes
// before one that is active in an older one.
func (s *sweep) newest() rank {
	var newest rank
	for _, a := range s.answers {
		newest = newest.orHigher(rankOf(a.Status.GetActiveController())).orHigher(rank{lineage: lineageOf(a.Status)})
	}
	return newest
}

// claimant is the controller that says it is active under the newest rank, and none below floor.
func (s *sweep) claimant(floor rank) (Controller, bool) {
	newest := s.newest().orHigher(floor)
	for _, a := range s.answers {
		if active, ok := a.active(); ok && active.rank() == newest {
			return active, true
		}
	}
	return Controller{}, false
}

// why says in one line what the answers were, in the order of the questions.
func (s *sweep) why() string {
	var parts []string
	for _, address := range s.asked {
		i := slices.IndexFunc(s.answers, func(a Answer) bool { return a.Address == address })
		switch {
		case i < 0:
			parts = append(parts, address+" does not answer")
		case s.answers[i].Err != nil:
			parts = append(parts, address+" "+silence(s.answers[i].Err))
		case s.answers[i].Status.GetStateReason() != "":
			parts = append(parts, address+" says: "+s.answers[i].Status.GetStateReason())
		case s.answers[i].Status.GetActiveController() == nil:
			parts = append(parts, fmt.Sprintf("%s is %s and knows none", address, s.answers[i].Status.GetState()))
		default:
			parts = append(parts, fmt.Sprintf("%s names node %d", address, s.answers[i].Status.GetActiveController().GetNodeId()))
		}
	}
	return strings.Join(parts, "; ")
}

// sweep asks all known controllers at once. It ends when enough holds, when all have answered, when a majority has answered and
// grace has passed since, or after [ProbeTimeout].
func (c *Client) sweep(ctx context.Context, enough func(*sweep) bool, grace time.Duration) *sweep {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	s := &sweep{}
	results := make(chan Answer)
	pending := 0
	ask := func(addresses []string) {
		for _, a := range addresses {
			if len(s.asked) < controllersMax && !slices.Contains(s.asked, a) {
				s.asked = append(s.asked, a)
				pending++
				go func() { results <- c.ask(ctx, a) }()
			}
		}
	}
	defer func() {
		cancel()
		for ; pending > 0; pending-- {
			<-results // whoever was asked ends with the context
		}
	}()
	ask(c.Known())
	var over <-chan time.Time
	for pending > 0 {
		select {
		case a := <-results:
			pending--
			s.answers = append(s.answers, a)
			if a.Err == nil {
				s.heard++
				ask(c.learnFrom(a))
			}
		case <-over:
			s.noteSilent("did not answer in time")
			return s
		}
		if enough(s) {
			return s
		}
		if over == nil && s.majority() {
			t := time.NewTimer(grace)
			defer t.Stop()
			over = t.C
		}
	}
	return s
}

// noteSilent notes those that have not answered when a sweep ends early.
func (s *sweep) noteSilent(why string) {
	for _, address := range s.asked {
		if !slices.ContainsFunc(s.answers, func(a Answer) bool { return a.Address == address }) {
			s.answers = append(s.answers, Answer{Address: address, Err: errors.New(why)})
		}
	}
}

// learnFrom keeps the addresses that an answer names, and returns them.
func (c *Client) learnFrom(a Answer) []string {
	addresses := a.addresses()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(addresses...)
	return addresses
}

// ask asks one controller for itself.
func (c *Client) ask(ctx context.Context, address string) Answer {
	cc, err := c.conns.get(address)
	if err != nil {
		return Answer{Address: address, Err: err}
	}
	cc.ResetConnectBackoff() // a node that has come back is heard at once
	status, err := controllerpb.NewReaderApiClient(cc).NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
	if err != nil {
		return Answer{Address: address, Err: err}
	}
	if c.cfg.ClusterID != "" && status.GetClusterId() != c.cfg.ClusterID {
		err := foreignError{fmt.Sprintf("belongs to cluster %s, not to %s", status.GetClusterId(), c.cfg.ClusterID)}
		c.logger.Warn("answer from another cluster", "address", address, "clusterId", status.GetClusterId())
		return Answer{Address: address, Err: err}
	}
	c.see(lineageOf(status))
	return Answer{Address: address, Status: status}
}

// round is one search for the active controller, shared by all that wait for it.
type round struct {
	done  chan struct{}
	found Controller
	err   error
}

// locate joins the search under way or begins one, and waits for it. rounds is the number of rounds that found nobody.
func (c *Client) locate(ctx context.Context, rounds int) (Controller, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return Controller{}, ErrClosed
	}
	r := c.round
	if r == nil {
		r = &round{done: make(chan struct{})}
		c.round = r
		grace := min(graceMin<<min(rounds, 8), ProbeTimeout)
		c.wg.Go(func() { c.search(r, grace) })
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.found, r.err
	case <-ctx.Done():
		return Controller{}, fmt.Errorf("%w: %w", ErrNoController, context.Cause(ctx))
	}
}

// search is the body of a round.
func (c *Client) search(r *round, grace time.Duration) {
	c.mu.Lock()
	floor := c.epoch.orHigher(rank{lineage: c.newest.Load()})
	c.mu.Unlock()
	s := c.sweep(c.ctx, func(s *sweep) bool {
		_, found := s.claimant(floor)
		return found && (s.majority() || len(s.answers) == len(s.asked))
	}, grace)
	found, ok := s.claimant(floor)
	if ok {
		r.found = found
		c.follow(found)
	} else {
		r.err = fmt.Errorf("%w: %s", ErrNoController, s.why())
	}
	c.mu.Lock()
	c.round = nil
	c.mu.Unlock()
	close(r.done)
}

// sleep waits, and tells whether the context still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
