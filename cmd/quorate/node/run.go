package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/quorate/quorate/quorum/env"
)

// Bounds of a node's end.
const (
	// orphanStopMax is how long a node may take to stop after its supervisor has died.
	orphanStopMax = 2 * time.Second
	// stopSlack is what a node may take above a controlled shutdown before it is ended as it is.
	stopSlack = 10 * time.Second
)

// errSupervisorGone is why a node stops when the process that started it has died.
var errSupervisorGone = errors.New("node: the supervisor is gone")

// side is what a role runs.
type side interface {
	Run(ctx context.Context) error
	// Ready tells whether the side serves, and if not, why.
	Ready() (ok bool, reason string)
	Register(prometheus.Registerer) error
}

// RunOptions are what a node needs besides its configuration.
type RunOptions struct {
	Config *Config
	Env    *env.Env
	Logger *slog.Logger
	// Version is told in the first log line.
	Version string
	// Parent is the value of ParentVariable; empty: no supervisor.
	Parent string
	// Stderr takes the reason of an end that is not a return.
	Stderr io.Writer
	// Explain gives that reason with its code, as the command prints the error of a return; nil: the error as it is.
	Explain func(error) error
	// Exit ends the process at once. It is called when going on could harm the cluster, or when a stop takes too long.
	Exit func(code int)

	// makeSides makes what the roles run; nil: the real ones.
	makeSides func(Identity) ([]side, error)
}

// Run runs a node until its context ends, then stops it in order. A broker of the same process stops before the controller.
func Run(ctx context.Context, o RunOptions) (err error) {
	id, err := CheckIdentity(o.Env.FS, o.Config, "")
	if err != nil {
		return &DirectoryError{err}
	}
	watch, err := watchParent(o.Parent)
	if err != nil {
		return err
	}
	defer watch.stop()
	lock, err := AcquireLock(o.Env, o.Config.DataDir)
	if err != nil {
		return &DirectoryError{err}
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := FinishRecovery(o.Env, o.Config.DataDir); err != nil {
		return &DirectoryError{err}
	}
	o.Logger.Info("starting", "version", o.Version, "nodeId", int(id.NodeID), "roles", o.Config.roles(), "listeners", o.Config.addresses(),
		"dataDir", o.Config.DataDir, "clusterId", id.ClusterID, "directoryId", id.DirectoryID.String(), "pid", os.Getpid())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	defer func() { cancel(nil); <-stopped }()
	go func() {
		defer close(stopped)
		select {
		case <-watch.gone: // never, without a supervisor
			cancel(errSupervisorGone)
		case <-ctx.Done():
		}
	}()
	err = o.serve(ctx, id)
	if err != nil {
		o.Logger.Error("ended", "error", err)
	} else {
		o.Logger.Info("stopped")
	}
	return err
}

// part is a side that runs.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set when done is closed
}

// begin runs f on a goroutine of its own, under a context that only stop ends.
func begin(ctx context.Context, f func(context.Context) error, ended chan<- struct{}) *part {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if p.err = f(own); p.err == nil && own.Err() == nil {
			p.err = errors.New("node: a part of the node ended by itself")
		}
		ended <- struct{}{}
	}()
	return p
}

func (p *part) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// serve runs the sides and the HTTP listener until the context ends or one of them does, and stops them in order:
// the broker, the controller, HTTP.
func (o RunOptions) serve(ctx context.Context, id Identity) error {
	if o.makeSides == nil {
		o.makeSides = o.sides
	}
	sides, err := o.makeSides(id)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, s := range sides {
		if err := s.Register(registry); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	bad := new(unserved)
	registry.MustRegister(bad.collector())
	var listener net.Listener // before anything begins: a taken port leaves the data directory as it was
	if l, ok := o.Config.Listener(HTTPListener); ok {
		if listener, err = o.Env.Network.Listen(ctx, Address(l)); err != nil {
			return fmt.Errorf("listen for HTTP on %s: %w; free the port or correct listeners", Address(l), err)
		}
	}
	ended := make(chan struct{}, len(sides)+1) // room for all: nobody waits for a reader
	var parts []*part
	for _, s := range sides {
		parts = append(parts, begin(ctx, s.Run, ended))
	}
	if listener != nil {
		parts = append(parts, begin(ctx, func(ctx context.Context) error {
			return serveHTTP(ctx, listener, httpHandler(readiness(sides), registry, o.Config.PprofEnabled), bad, o.Logger)
		}, ended))
	}
	select {
	case <-ctx.Done():
		o.Logger.Info("stopping", "reason", context.Cause(ctx))
	case <-ended:
	}
	bound := time.AfterFunc(o.stopMax(ctx), func() {
		o.Logger.Error("not stopped in time, ending as it is", "limit", o.stopMax(ctx))
		o.Exit(1)
	})
	defer bound.Stop()
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// stopMax is how long a stop may take.
func (o RunOptions) stopMax(ctx context.Context) time.Duration {
	if context.Cause(ctx) == errSupervisorGone {
		return orphanStopMax
	}
	return o.Config.ControlledShutdownMax + stopSlack
}

// readiness joins what the sides say.
func readiness(sides []side) Readiness {
	return func() (why, notice string) {
		for _, s := range sides {
			if ok, reason := s.Ready(); !ok {
				return reason, ""
			}
			if n, ok := s.(interface{ Notice() string }); ok {
				notice = cmp.Or(notice, n.Notice())
			}
		}
		return "", notice
	}
}

// roles and addresses are for the first log line.
func (c *Config) roles() string {
	var out []string
	for _, r := range c.Roles {
		out = append(out, string(r))
	}
	return strings.Join(out, ",")
}

func (c *Config) addresses() string {
	var out []string
	for _, l := range c.AdvertisedListeners {
		out = append(out, l.Name+"://"+Address(l))
	}
	return strings.Join(out, ",")
}
