package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/quorate/quorate/cmd/quorate/node"
)

// Times of a stop. A stage that is late does not hold up the next; what is left at the end is killed.
const (
	stopMax         = 30 * time.Second
	stopMargin      = time.Second
	stopBrokersMax  = 20 * time.Second
	stopStandbysMax = 25 * time.Second
	stopPoll        = 20 * time.Millisecond
	killWait        = 5 * time.Second
)

// stop ends every node of the cluster: brokers, standbys, the active controller.
func (s *supervisor) stop() error {
	begin := time.Now()
	var brokers, standbys, active []Node
	for _, n := range s.cluster.Nodes {
		if n.isBroker() {
			brokers = append(brokers, n)
		}
	}
	s.end(brokers, begin.Add(stopBrokersMax))
	leader := s.activeController()
	for _, n := range s.cluster.Nodes {
		switch {
		case n.isBroker():
		case n.ID == leader:
			active = append(active, n)
		default:
			standbys = append(standbys, n)
		}
	}
	s.end(standbys, begin.Add(stopStandbysMax))
	s.end(active, begin.Add(stopMax-stopMargin))
	s.wait(s.cluster.Nodes, begin.Add(stopMax-stopMargin))
	return s.kill()
}

// end signals nodes and waits for them until a deadline.
func (s *supervisor) end(nodes []Node, deadline time.Time) {
	for _, n := range nodes {
		for _, pid := range s.pids(n) {
			_ = syscall.Kill(pid, syscall.SIGTERM) // who is gone already need not hear it
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	s.wait(nodes, deadline)
}

func (s *supervisor) wait(nodes []Node, deadline time.Time) {
	for time.Now().Before(deadline) {
		if !slices.ContainsFunc(nodes, func(n Node) bool { return len(s.pids(n)) > 0 }) {
			return
		}
		time.Sleep(stopPoll)
	}
}

// kill ends what is left, and says what it was.
func (s *supervisor) kill() error {
	var errs []error
	for _, n := range s.cluster.Nodes {
		for _, pid := range s.pids(n) {
			errs = append(errs, fmt.Errorf("%s %d (pid %d) did not stop within %v and was killed", n.role(), n.ID, pid, stopMax))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if len(errs) > 0 {
		s.wait(s.cluster.Nodes, time.Now().Add(killWait))
	}
	return errors.Join(errs...)
}

// pids are the processes of a node: the one that the supervisor started, and one started by hand that holds the data directory.
func (s *supervisor) pids(n Node) []int {
	var out []int
	if p := s.processes[n.ID]; p != nil && p.alive() {
		out = append(out, p.pid())
	}
	if pid, err := node.RunningPid(s.env.FS, n.DataDir); err == nil && pid > 0 && !slices.Contains(out, pid) {
		out = append(out, pid)
	}
	return out
}

// activeController asks the controllers which of them is active; 0 if none is.
func (s *supervisor) activeController() int {
	best, epoch := 0, uint64(0)
	for _, a := range s.client.Statuses(context.Background()) {
		if named := a.Status.GetActiveController(); named.GetControllerEpoch() >= epoch && named != nil {
			best, epoch = int(named.GetNodeId()), named.GetControllerEpoch()
		}
	}
	return best
}
