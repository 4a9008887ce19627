package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/quorum/env"
)

// clusterFile describes the cluster in its directory.
const clusterFile = "cluster.json"

// Cluster is the content of cluster.json.
type Cluster struct {
	ClusterID string `json:"clusterId"`
	// Kafka are the brokers' bootstrap addresses, Controllers the controllers' GRPC addresses.
	Kafka       []string `json:"kafka"`
	Controllers []string `json:"controllers"`
	Nodes       []Node   `json:"nodes"`
}

// Node is one node of a cluster.
type Node struct {
	ID    int      `json:"id"`
	Roles []string `json:"roles"`
	// Pid is the process that dev started last.
	Pid  int      `json:"pid"`
	Argv []string `json:"argv"`
	// Config is the node's properties file, DataDir its data directory, Log what it printed.
	Config    string    `json:"config"`
	DataDir   string    `json:"dataDir"`
	Log       string    `json:"log"`
	Addresses Addresses `json:"addresses"`
	// DirectoryID is the id that the data directory is formatted with.
	DirectoryID string `json:"directoryId"`
}

// Addresses are host:port of a node's listeners; empty: it has none.
type Addresses struct {
	Kafka string `json:"kafka"`
	GRPC  string `json:"grpc"`
	Raft  string `json:"raft"`
	HTTP  string `json:"http"`
}

func (n Node) role() string { return n.Roles[0] }

func (n Node) isBroker() bool { return slices.Contains(n.Roles, string(node.Broker)) }

// all lists the addresses that a node binds.
func (a Addresses) all() []string {
	return slices.DeleteFunc([]string{a.Kafka, a.GRPC, a.Raft, a.HTTP}, func(s string) bool { return s == "" })
}

// ReadCluster reads DIR/cluster.json. The error wraps fs.ErrNotExist if there is none.
func ReadCluster(files env.FS, dir string) (*Cluster, error) {
	name := filepath.Join(dir, clusterFile)
	data, err := env.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	c := new(Cluster)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func (c *Cluster) write(e *env.Env, dir string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	e.At("dev.cluster-file")
	return env.WriteFileAtomic(e.FS, filepath.Join(dir, clusterFile), append(data, '\n'), 0o644)
}

// plan lays out a new cluster: ids, directories and, in the order given, ports.
func plan(dir string, controllers, brokers int, ports func(kind, index int) (string, error)) (*Cluster, error) {
	c := &Cluster{ClusterID: node.RandomUUID().String(), Kafka: []string{}, Controllers: []string{}}
	var failed error
	port := func(kind, index int) string {
		address, err := ports(kind, index)
		failed = errors.Join(failed, err)
		return address
	}
	for i := range controllers + brokers {
		role, id := node.Controller, firstController+i
		if i >= controllers {
			role, id = node.Broker, firstBroker+i-controllers
		}
		home := filepath.Join(dir, string(role)+"-"+strconv.Itoa(id))
		n := Node{
			ID: id, Roles: []string{string(role)}, Argv: []string{},
			Config: filepath.Join(home, "server.properties"), DataDir: filepath.Join(home, "data"), Log: filepath.Join(home, "server.log"),
			Addresses:   Addresses{GRPC: port(kindGRPC, i), HTTP: port(kindHTTP, i)},
			DirectoryID: node.RandomUUID().String(),
		}
		if role == node.Controller {
			n.Addresses.Raft = port(kindRaft, i)
			c.Controllers = append(c.Controllers, n.Addresses.GRPC)
		} else {
			n.Addresses.Kafka = port(kindKafka, i-controllers)
			c.Kafka = append(c.Kafka, n.Addresses.Kafka)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c, failed
}

// counts are the numbers of controllers and brokers.
func (c *Cluster) counts() (controllers, brokers int) { return len(c.Controllers), len(c.Kafka) }

// open reads the directory's cluster, or plans one and writes it down.
func open(e *env.Env, o Options, dir string, hold *holder) (*Cluster, error) {
	c, err := ReadCluster(e.FS, dir)
	if err == nil {
		return c, c.agrees(o, dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	controllers, brokers := o.Controllers, o.Brokers
	if controllers == 0 {
		controllers = nodesDefault
	}
	if brokers < 0 {
		brokers = nodesDefault
	}
	ports := func(kind, index int) (string, error) {
		return net.JoinHostPort(host, strconv.Itoa(o.PortBase+kind*portsApart+index)), nil
	}
	if o.PortBase == 0 {
		ports = func(int, int) (string, error) { return hold.free(e) }
	}
	if c, err = plan(dir, controllers, brokers, ports); err != nil {
		return nil, err
	}
	return c, c.write(e, dir)
}

// agrees refuses counts and ports that differ from those the directory was formatted with. Free ports (0) are those it has.
func (c *Cluster) agrees(o Options, dir string) error {
	controllers, brokers := c.counts()
	if o.Controllers != 0 && o.Controllers != controllers || o.Brokers >= 0 && o.Brokers != brokers {
		return node.DirectoryErrorf("%s holds a cluster of %d controllers and %d brokers; leave --controllers and --brokers out, or name another --dir", dir, controllers, brokers)
	}
	first := c.Nodes[0].Addresses.GRPC
	if want := net.JoinHostPort(host, strconv.Itoa(o.PortBase+kindGRPC*portsApart)); o.PortsNamed && o.PortBase != 0 && want != first {
		return node.DirectoryErrorf("%s holds a cluster whose GRPC ports begin at %s, --port-base %d puts them at %s; leave --port-base out, or name another --dir",
			dir, first, o.PortBase, want)
	}
	return nil
}
