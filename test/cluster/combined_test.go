package cluster_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/test/cluster"
)

// One process with both roles is a cluster of its own: format, start, create, produce, consume, stop, start again.
func TestOneProcessWithBothRoles(t *testing.T) {
	t.Parallel()
	binary, dir := cluster.Build(t), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("quorate %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	kafka, grpc, raft, http := freePort(t), freePort(t), freePort(t), freePort(t)
	config := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(config, fmt.Appendf(nil, `process.roles=controller,broker
node.id=1
log.dirs=%s
listeners=KAFKA://127.0.0.1:%s,GRPC://127.0.0.1:%s,RAFT://127.0.0.1:%s,HTTP://127.0.0.1:%s
controller.quorum.bootstrap.servers=127.0.0.1:%s
`, filepath.Join(dir, "data"), kafka, grpc, raft, http, grpc), 0o644); err != nil {
		t.Fatal(err)
	}
	clusterID, directoryID := run("random-uuid"), run("random-uuid")
	run("format", "--config", config, "--cluster-id", clusterID, "--directory-id", directoryID,
		"--initial-controllers", fmt.Sprintf("1@127.0.0.1:%s:%s", raft, directoryID))
	for life := range 2 {
		server := exec.Command(binary, "server", "--config", config)
		server.Stdout, server.Stderr = t.Output(), t.Output()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		topic := fmt.Sprintf("life-%d", life)
		cluster.Eventually(t, 60*time.Second, "create", func() error {
			out, err := exec.Command(binary, "topic", "create", topic, "--partitions", "2", "--replication-factor", "1",
				"--controllers", "127.0.0.1:"+grpc, "--timeout", "5s").CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:"+kafka), kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if err := client.ProduceSync(ctx, &kgo.Record{Value: []byte("hello")}).FirstErr(); err != nil {
			t.Error(err)
		}
		if got := client.PollFetches(ctx); got.NumRecords() != 1 {
			t.Errorf("life %d: consumed %d records, %v", life, got.NumRecords(), got.Err())
		}
		cancel()
		client.Close()
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("life %d ended with %v", life, err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
