package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
)

// Limits of starting nodes again.
const (
	restartWaitMin = 500 * time.Millisecond
	restartWaitMax = 10 * time.Second
	restartHealthy = 30 * time.Second // a node that lived so long starts again without a longer wait
	watchPoll      = 100 * time.Millisecond
	// leftoverWait is how long nodes of an earlier supervisor that has died may take to end.
	leftoverWait = 10 * time.Second
)

type supervisor struct {
	options   Options
	env       *env.Env
	dir       string
	cluster   *Cluster
	client    *client.Client
	processes map[int]*process
	restarts  map[int]restart
}

// restart is when a dead node is started again.
type restart struct {
	at   time.Time
	wait time.Duration
}

// Run runs a cluster until the context ends, and stops it. The error says what went wrong; the cluster is stopped then too.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	dir, remove, err := directory(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s := &supervisor{options: o, env: env.OS(""), dir: dir, processes: map[int]*process{}, restarts: map[int]restart{}}
	if err := s.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.client.Close()) }()
	err = s.serve(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(o.Stderr, "stopping brokers, standbys, the active controller; a second Ctrl-C does not wait for it")
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // told to stop while starting
	}
	return errors.Join(err, s.stop())
}

// directory is the absolute directory of the cluster, and what removes it at the end if it is temporary.
func directory(name string) (dir string, remove func() error, err error) {
	if name == "" {
		dir, err = os.MkdirTemp("", "quorate-dev-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(name); err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	return dir, func() error { return nil }, err
}

// open reads or plans the cluster and prepares its nodes.
func (s *supervisor) open() (err error) {
	hold := new(holder)
	defer func() { err = errors.Join(err, hold.release()) }()
	known, err := env.Exists(s.env.FS, filepath.Join(s.dir, clusterFile))
	if err != nil {
		return err
	}
	if s.cluster, err = open(s.env, s.options, s.dir, hold); err != nil {
		return err
	}
	if err := s.awaitLeftovers(); err != nil {
		return err
	}
	if len(hold.listeners) == 0 {
		if err := checkPorts(s.env, s.cluster); err != nil {
			if !known { // nothing is formatted yet: the next start may choose other ports
				err = errors.Join(err, s.env.FS.Remove(filepath.Join(s.dir, clusterFile)))
			}
			return err
		}
	}
	if err := prepare(s.env, s.options, s.cluster, s.dir); err != nil {
		return err
	}
	s.client, err = client.New(client.Config{Network: s.env.Network, Controllers: s.cluster.Controllers, ClusterID: s.cluster.ClusterID})
	return err
}

// awaitLeftovers waits for nodes of an earlier supervisor to end, and names one that does not.
func (s *supervisor) awaitLeftovers() error {
	deadline := time.Now().Add(leftoverWait)
	for _, n := range s.cluster.Nodes {
		for {
			pid, err := node.RunningPid(s.env.FS, n.DataDir)
			if err != nil || pid == 0 {
				break
			}
			if time.Now().After(deadline) {
				return node.DirectoryErrorf("%s %d of %s is running already (pid %d); stop it, or name another --dir", n.role(), n.ID, s.dir, pid)
			}
			time.Sleep(watchPoll)
		}
	}
	return nil
}

// serve starts the nodes, tells when they are ready, and watches them.
func (s *supervisor) serve(ctx context.Context) error {
	for i := range s.cluster.Nodes {
		if err := s.start(i); err != nil {
			return err
		}
	}
	if err := s.cluster.write(s.env, s.dir); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.describe(s.options.Stdout)
	return s.watch(ctx)
}

func (s *supervisor) start(i int) error {
	n := &s.cluster.Nodes[i]
	p, err := start(*n, s.options.Environ)
	if err != nil {
		return err
	}
	n.Pid = p.pid()
	s.processes[n.ID] = p
	return nil
}

// dead is a started node that has ended.
func (s *supervisor) dead() *process {
	for _, n := range s.cluster.Nodes {
		if p := s.processes[n.ID]; p != nil && !p.alive() {
			return p
		}
	}
	return nil
}

// watch reports nodes that die, and starts them again if it was asked to.
func (s *supervisor) watch(ctx context.Context) error {
	reported := map[int]*process{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPoll):
		}
		for i, n := range s.cluster.Nodes {
			p := s.processes[n.ID]
			if p.alive() {
				continue
			}
			if reported[n.ID] != p {
				reported[n.ID] = p
				fmt.Fprintln(s.options.Stderr, p.why()+s.advice(n))
				s.schedule(n.ID)
			}
			if err := s.again(i); err != nil {
				fmt.Fprintln(s.options.Stderr, err)
			}
		}
	}
}

// advice says how a node that has died comes back.
func (s *supervisor) advice(n Node) string {
	if s.options.Restart {
		return ""
	}
	return fmt.Sprintf("; its log is %s; start it again with: %s", n.Log, strings.Join(n.Argv, " "))
}

// schedule sets when a node that has just died is started again.
func (s *supervisor) schedule(id int) {
	r := s.restarts[id]
	if r.wait == 0 || time.Since(r.at) > restartHealthy {
		r.wait = restartWaitMin
	} else {
		r.wait = min(2*r.wait, restartWaitMax)
	}
	r.at = time.Now().Add(r.wait)
	s.restarts[id] = r
}

// again starts a dead node whose time has come, unless someone else has.
func (s *supervisor) again(i int) error {
	n := s.cluster.Nodes[i]
	if !s.options.Restart || time.Now().Before(s.restarts[n.ID].at) {
		return nil
	}
	if pid, err := node.RunningPid(s.env.FS, n.DataDir); err != nil || pid != 0 {
		return err
	}
	if err := s.start(i); err != nil {
		return err
	}
	fmt.Fprintf(s.options.Stderr, "%s %d started again (pid %d)\n", n.role(), n.ID, s.processes[n.ID].pid())
	return s.cluster.write(s.env, s.dir)
}

// describe prints a line a node, then the line that begins with ready.
func (s *supervisor) describe(w io.Writer) {
	for _, n := range s.cluster.Nodes {
		line := fmt.Sprintf("%s %d pid=%d", n.role(), n.ID, n.Pid)
		for _, a := range []struct{ name, address string }{
			{"kafka", n.Addresses.Kafka}, {"grpc", n.Addresses.GRPC}, {"raft", n.Addresses.Raft}, {"http", n.Addresses.HTTP},
		} {
			if a.address != "" {
				line += " " + a.name + "=" + a.address
			}
		}
		fmt.Fprintf(w, "%s dataDir=%s\n", line, n.DataDir)
	}
	ready := "ready kafka=" + strings.Join(s.cluster.Kafka, ",") + " controllers=" + strings.Join(s.cluster.Controllers, ",")
	if s.cluster.Controllers[0] != fmt.Sprintf("%s:%d", host, PortBaseDefault+portsApart) {
		ready += " export QUORATE_CONTROLLERS=" + strings.Join(s.cluster.Controllers, ",")
	}
	fmt.Fprintln(w, ready)
}
