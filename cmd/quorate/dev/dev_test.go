package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/quorum/env"
)

func defaults() Options { return Options{Brokers: -1, PortBase: PortBaseDefault} }

// The ports are those that the commands' default and the reference name.
func TestPlannedPorts(t *testing.T) {
	c, err := open(env.OS(""), defaults(), t.TempDir(), new(holder))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Nodes {
		a := n.Addresses
		got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %d kafka=%s grpc=%s raft=%s http=%s", n.role(), n.ID, a.Kafka, a.GRPC, a.Raft, a.HTTP), host+":", ""))
	}
	want := `controller 1001 kafka= grpc=9192 raft=9292 http=9392
controller 1002 kafka= grpc=9193 raft=9293 http=9393
controller 1003 kafka= grpc=9194 raft=9294 http=9394
broker 1 kafka=9092 grpc=9195 raft= http=9395
broker 2 kafka=9093 grpc=9196 raft= http=9396
broker 3 kafka=9094 grpc=9197 raft= http=9397`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("%s\nwant\n%s", s, want)
	}
}

func TestPlanIsKept(t *testing.T) {
	dir := t.TempDir()
	o := defaults()
	o.PortBase, o.Controllers, o.Brokers = 0, 1, 2
	hold := new(holder)
	first, err := open(env.OS(""), o, dir, hold)
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.release(); err != nil {
		t.Fatal(err)
	}
	again, err := open(env.OS(""), defaults(), dir, new(holder))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("%v\n%v", first, again)
	}
	o.Brokers = 3
	if _, err := open(env.OS(""), o, dir, new(holder)); err == nil || !strings.Contains(err.Error(), "holds a cluster of 1 controllers and 2 brokers") {
		t.Errorf("other counts: %v", err)
	}
	o.Brokers, o.PortsNamed = 2, true
	if _, err := open(env.OS(""), o, dir, new(holder)); err != nil {
		t.Errorf("free ports of a directory that has some: %v", err)
	}
	o.PortBase = PortBaseDefault
	if _, err := open(env.OS(""), o, dir, new(holder)); err == nil || !strings.Contains(err.Error(), "leave --port-base out") {
		t.Errorf("other ports: %v", err)
	}
}

// Free ports lie outside the range for outgoing connections, or a dead node's port could be gone when it comes back.
func TestFreePortsAreOutsideTheEphemeralRange(t *testing.T) {
	low, high := ephemeralRange()
	hold := new(holder)
	defer hold.release()
	seen := map[string]bool{}
	for range 50 {
		address, err := hold.free(env.OS(""))
		if err != nil {
			t.Fatal(err)
		}
		var port int
		if _, err := fmt.Sscanf(address, host+":%d", &port); err != nil || port >= low && port <= high || seen[address] {
			t.Errorf("%s, range %d-%d, %v", address, low, high, err)
		}
		seen[address] = true
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	hold := new(holder)
	defer hold.release()
	address, err := hold.free(env.OS(""))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Nodes: []Node{{ID: 2, Roles: []string{"broker"}, Addresses: Addresses{Kafka: address}}}}
	err = checkPorts(env.OS(""), c)
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "broker 2") || !strings.Contains(err.Error(), "--port-base") {
		t.Error(err)
	}
}

// After a start that found its ports taken, the same directory can be started on others.
func TestTakenPortLeavesNoPlan(t *testing.T) {
	hold := new(holder)
	defer hold.release()
	o := Options{Brokers: -1}
	for o.PortBase == 0 || o.PortBase > PortBaseMax {
		address, err := hold.free(env.OS(""))
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := strings.Cut(address, ":")
		o.PortBase, _ = strconv.Atoi(port)
	}
	s := &supervisor{options: o, env: env.OS(""), dir: t.TempDir()}
	if err := s.open(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	if _, err := ReadCluster(s.env.FS, s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestPrepareFormatsOnceAndPassesSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `with space and \ backslash`)
	e := env.OS("")
	o := defaults()
	o.Set = []string{"replica.lag.time.max.ms=3000"}
	o.Environ = []string{"QUORATE_NODE_ID=77", "QUORATE_CONTROLLERS=x:1", "HOME=/h"}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := open(e, o, dir, new(holder))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is left to do
		if err := prepare(e, o, c, dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes {
		id, err := node.ReadIdentity(e.FS, n.DataDir)
		if err != nil || id.ClusterID != c.ClusterID || int(id.NodeID) != n.ID || id.DirectoryID.String() != n.DirectoryID {
			t.Errorf("node %d: %+v, %v", n.ID, id, err)
		}
		if got := strings.Join(n.Argv[1:], " "); got != "server --config "+n.Config+" --set replica.lag.time.max.ms=3000" {
			t.Errorf("argv %s", got)
		}
		if info, err := os.Stat(n.Argv[0]); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if got := nodeEnviron(o.Environ); strings.Join(got, " ") != "QUORATE_CONTROLLERS=x:1 HOME=/h" {
		t.Errorf("nodes' environment: %v", got)
	}
}

// dev's own defaults differ from a server's in three keys.
func TestProfileDefaults(t *testing.T) {
	for _, c := range []struct {
		brokers        int
		minISR, factor string
	}{{1, "1", "1"}, {2, "1", "2"}, {3, "2", "3"}, {5, "2", "3"}} {
		dir := t.TempDir()
		o := defaults()
		o.Brokers = c.brokers
		cl, err := open(env.OS(""), o, dir, new(holder))
		if err != nil {
			t.Fatal(err)
		}
		if err := prepare(env.OS(""), o, cl, dir); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := node.Load(env.OS("").FS, node.Sources{File: cl.Nodes[0].Config})
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, s := range cfg.Settings() {
			values[s.Key] = s.Value
		}
		if values["min.insync.replicas"] != c.minISR || values["default.replication.factor"] != c.factor || values["controlled.shutdown.max.wait.ms"] != "10000" {
			t.Errorf("%d brokers: %v %v %v", c.brokers, values["min.insync.replicas"], values["default.replication.factor"], values["controlled.shutdown.max.wait.ms"])
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) {}, ""},
		{func(o *Options) { o.Controllers = 10 }, "--controllers is 10, outside 1 to 9"},
		{func(o *Options) { o.Brokers = 51 }, "--brokers is 51, outside 0 to 50"},
		{func(o *Options) { o.PortBase = 65500 }, "--port-base is 65500"},
		{func(o *Options) { o.Set = []string{"x"} }, "want key=value"},
		{func(o *Options) { o.Set = []string{"log.dirs=/x"} }, "its own log.dirs"},
	} {
		o := defaults()
		c.change(&o)
		if err := o.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
