package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const brokerFile = `
# a broker
process.roles=broker
node.id=1
log.dirs=/var/lib/quorate
listeners=KAFKA://:9092,GRPC://10.0.0.1:9195,HTTP://127.0.0.1:9395
advertised.listeners=KAFKA://b1.example:9092
controller.quorum.bootstrap.servers=c1:9192, c2:9193
`

func load(t *testing.T, text string, environ []string, set ...string) (*node.Config, []string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return node.Load(env.OS("").FS, node.Sources{File: file, Set: set, Environ: environ})
}

func TestLoad(t *testing.T) {
	c, warnings, err := load(t, brokerFile, nil)
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	want := []image.Listener{
		{Name: "KAFKA", Host: "b1.example", Port: 9092}, {Name: "GRPC", Host: "10.0.0.1", Port: 9195}, {Name: "HTTP", Host: "127.0.0.1", Port: 9395},
	}
	if d := cmp.Diff(want, c.AdvertisedListeners); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"c1:9192", "c2:9193"}, c.BootstrapServers); d != "" {
		t.Error(d)
	}
	if c.NodeID != 1 || !c.Has(node.Broker) || c.Has(node.Controller) || c.SessionTimeout != 9*time.Second || c.RetentionBytes != -1 {
		t.Errorf("%+v", c)
	}
}

func TestPrecedence(t *testing.T) {
	text := brokerFile + "replica.lag.time.max.ms=1000\nnum.partitions=2\nretention.ms=3\n"
	environ := []string{"QUORATE_NUM_PARTITIONS=4", "QUORATE_RETENTION_MS=5", "QUORATE_CONTROLLERS=a:1", "QUORATE_NO_SUCH_KEY=1"}
	c, _, err := load(t, text, environ, "retention.ms=6")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Settings() {
		got[s.Key] = s.Value + " " + s.Source
	}
	for key, want := range map[string]string{
		"replica.lag.time.max.ms": "1000 file", "num.partitions": "4 environment", "retention.ms": "6 --set", "segment.bytes": "1073741824 default",
	} {
		if got[key] != want {
			t.Errorf("%s: %s, want %s", key, got[key], want)
		}
	}
}

// Java's syntax: other separators, continuation lines, escapes; ${…} stays as it is.
func TestJavaSyntax(t *testing.T) {
	text := "process.roles : broker\nnode.id 7\n! note\nlog.dirs=C\\:\\\\data\nlisteners=KAFKA://:9092,\\\n   GRPC://:9195\n" +
		"advertised.listeners=KAFKA://h:9092,GRPC://h:9195\nbroker.rack=${rack} \\u00e9\ncontroller.quorum.bootstrap.servers=c:1\n"
	c, _, err := load(t, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != 7 || c.DataDir != `C:\data` || *c.Rack != "${rack} é" || len(c.Listeners) != 2 {
		t.Errorf("%+v rack %q", c, *c.Rack)
	}
}

func TestLoadRefuses(t *testing.T) {
	controller := "process.roles=controller\nnode.id=1001\nlog.dirs=/d\nlisteners=GRPC://h:9192,RAFT://h:9292\n"
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", brokerFile + "num.partition=3", "unknown key num.partition; did you mean num.partitions?"},
		{"unknown far key", brokerFile + "zzz=3", "unknown key zzz; quorate server --print-config lists all keys"},
		{"renamed key", brokerFile + "log.segment.bytes=3", "key log.segment.bytes is called segment.bytes here"},
		{"not a number", brokerFile + "num.partitions=three", `num.partitions (file): "three" is not a whole number`},
		{"out of range", brokerFile + "num.partitions=0", "num.partitions (file): 0 is outside 1 to 2147483647"},
		{"not a bool", brokerFile + "unclean.leader.election.enable=yes", `"yes" is neither true nor false`},
		{"session too short", brokerFile + "broker.session.timeout.ms=4000", "broker.session.timeout.ms is 4000, not more than twice broker.heartbeat.interval.ms (2000)"},
		{"no roles", "node.id=1", "process.roles is not set"},
		{"bad role", "process.roles=zookeeper", `"zookeeper" is neither controller nor broker`},
		{"no id", "process.roles=broker", "node.id is not set"},
		{"no directory", "process.roles=broker\nnode.id=1", "log.dirs is not set"},
		{"two directories", brokerFile + "log.dirs=/a,/b", "2 directories; one is supported"},
		{"missing listener", strings.Replace(controller, ",RAFT://h:9292", "", 1), "listeners lacks RAFT, which a controller serves"},
		{"unknown listener", strings.Replace(controller, "RAFT", "PLAINTEXT", 1), `listener "PLAINTEXT" is none of KAFKA, GRPC, RAFT, HTTP`},
		{"listener twice", strings.Replace(controller, "RAFT", "GRPC", 1), "listener GRPC is named twice"},
		{"same port", strings.Replace(controller, "9292", "9192", 1), "GRPC and RAFT share port 9192"},
		{"port 0", strings.Replace(controller, "9292", "0", 1), `port "0" is outside 1 to 65535`},
		{"nothing to advertise", strings.Replace(controller, "RAFT://h", "RAFT://", 1), "RAFT listens on every interface"},
		{"advertised wildcard", controller + "advertised.listeners=GRPC://0.0.0.0:1", "others cannot connect"},
		{"advertised unknown", controller + "advertised.listeners=KAFKA://h:1", "KAFKA is not among listeners"},
		{"no controllers", strings.Split(brokerFile, "controller.quorum")[0], "controller.quorum.bootstrap.servers is not set"},
		{"bad bootstrap", brokerFile + "controller.quorum.bootstrap.servers=c1", `"c1" is not host:port`},
		{"bad local address", brokerFile + "local.address=host", `"host" is not an IP address`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := load(t, c.text, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
	if _, _, err := load(t, brokerFile, nil, "node.id"); err == nil || !strings.Contains(err.Error(), "want key=value") {
		t.Errorf("--set without a value: %v", err)
	}
}

// A Kafka operator's file works but for what has another name; what means nothing here is said.
func TestKafkaKeysWithoutMeaningAreWarnings(t *testing.T) {
	_, warnings, err := load(t, brokerFile+"zookeeper.connect=z:2181\nnum.io.threads=8\nlog.cleaner.enable=true\nlistener.name.x.ssl.y=1\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"listener.name.x.ssl.y has no meaning here and is ignored", "log.cleaner.enable has no meaning here and is ignored",
		"num.io.threads has no meaning here and is ignored", "zookeeper.connect has no meaning here and is ignored",
	}
	if d := cmp.Diff(want, warnings); d != "" {
		t.Error(d)
	}
}

func TestOtherRolesKeysAreAccepted(t *testing.T) {
	c, _, err := load(t, "process.roles=controller\nnode.id=1001\nlog.dirs=/d\nlisteners=GRPC://h:9192,RAFT://h:9292\nreplica.lag.time.max.ms=5\nbroker.rack=r\n", nil)
	if err != nil || c.LagTimeMax != 5*time.Millisecond {
		t.Fatalf("%+v, %v", c, err)
	}
}
