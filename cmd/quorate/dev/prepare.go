package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// properties is a node's file: what is its own, and where dev's defaults differ from a server's.
func properties(c *Cluster, n Node) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s=%s\n", key, value) }
	_, brokers := c.counts()
	var listeners []string
	for _, l := range []struct{ name, address string }{
		{node.KafkaListener, n.Addresses.Kafka}, {node.GRPCListener, n.Addresses.GRPC},
		{node.RaftListener, n.Addresses.Raft}, {node.HTTPListener, n.Addresses.HTTP},
	} {
		if l.address != "" {
			listeners = append(listeners, l.name+"://"+l.address)
		}
	}
	line("process.roles", strings.Join(n.Roles, ","))
	line("node.id", fmt.Sprint(n.ID))
	line("log.dirs", escape(n.DataDir))
	line("listeners", strings.Join(listeners, ","))
	line("controller.quorum.bootstrap.servers", strings.Join(c.Controllers, ","))
	if brokers >= 3 {
		line("min.insync.replicas", "2")
	}
	line("default.replication.factor", fmt.Sprint(max(1, min(3, brokers))))
	line("controlled.shutdown.max.wait.ms", "10000")
	return b.String()
}

// escape writes a path so that a properties file gives it back.
func escape(path string) string { return strings.ReplaceAll(path, `\`, `\\`) }

// prepare writes the nodes' files, formats what is not formatted, and settles each node's command line.
func prepare(e *env.Env, o Options, c *Cluster, dir string) error {
	binary, err := copyBinary(e, dir)
	if err != nil {
		return err
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Argv = []string{binary, "server", "--config", n.Config}
		for _, s := range o.Set {
			n.Argv = append(n.Argv, "--set", s)
		}
		if err := prepareNode(e, o, c, *n); err != nil {
			return fmt.Errorf("%s %d: %w", n.role(), n.ID, err)
		}
	}
	return nil
}

func prepareNode(e *env.Env, o Options, c *Cluster, n Node) error {
	if err := e.FS.MkdirAll(filepath.Dir(n.Config), 0o755); err != nil {
		return err
	}
	exists, err := env.Exists(e.FS, n.Config)
	if err != nil {
		return err
	}
	if !exists {
		e.At("dev.node-file")
		if err := env.WriteFileAtomic(e.FS, n.Config, []byte(properties(c, n)), 0o644); err != nil {
			return err
		}
	}
	cfg, _, err := node.Load(e.FS, node.Sources{File: n.Config, Set: o.Set, Environ: nodeEnviron(o.Environ)})
	if err != nil {
		return err
	}
	_, err = node.CheckIdentity(e.FS, cfg, c.ClusterID)
	if _, formatted := node.ReadIdentity(e.FS, cfg.DataDir); !errors.Is(formatted, node.ErrNotFormatted) {
		return err
	}
	options, err := formatOptions(c, n)
	if err != nil {
		return err
	}
	options.Config = cfg
	_, err = node.Format(e, options)
	return err
}

func formatOptions(c *Cluster, n Node) (o node.FormatOptions, err error) {
	if o.ClusterID, err = image.ParseUUID(c.ClusterID); err != nil {
		return o, err
	}
	if o.DirectoryID, err = image.ParseUUID(n.DirectoryID); err != nil || n.isBroker() {
		return o, err
	}
	for _, other := range c.Nodes {
		if other.isBroker() {
			continue
		}
		id, err := image.ParseUUID(other.DirectoryID)
		if err != nil {
			return o, err
		}
		o.InitialControllers = append(o.InitialControllers, node.InitialController{
			NodeID: image.BrokerID(other.ID), RaftAddress: other.Addresses.Raft, DirectoryID: id,
		})
	}
	return o, nil
}

// copyBinary puts a copy of the running program into the directory: go run removes its own when it ends.
func copyBinary(e *env.Env, dir string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "bin", "quorate")
	if same, err := filepath.EvalSymlinks(self); err == nil && same == path {
		return path, nil
	}
	if err := e.FS.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	in, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return "", fmt.Errorf("cannot copy the program into %s: %w", dir, err)
	}
	e.At("dev.binary-copied")
	return path, os.Rename(path+".tmp", path)
}

// nodeEnviron is what nodes see of the supervisor's environment: all but the variables that would give every node one
// identity.
func nodeEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == node.ParentVariable || slices.ContainsFunc(ownKeys, func(k string) bool { return node.VariableOf(k) == name })
	})
}
