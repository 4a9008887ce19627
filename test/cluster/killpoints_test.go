package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/test/cluster"
)

// How a node is brought to a point.
type provocation int

const (
	// byStart: the point is on the way up; the start itself comes to it.
	byStart provocation = iota
	// byTornTail is byStart of a broker whose newest segments end in bytes that are no batch.
	byTornTail
	// byTraffic: the writers and the churn come to it.
	byTraffic
	// byStop: an ordered stop comes to it.
	byStop
	// byElection: the death of the active controller comes to it.
	byElection
	// byServing: the point is on the way of the active controller's own work.
	byServing
)

type killPoint struct {
	name string
	by   provocation
}

// brokerLanes are the points of brokers. Each lane is one broker's; a start after a death at a byTraffic point is
// watched until the broker is whole, so starts and traffic alternate.
var brokerLanes = [][]killPoint{
	{
		{"start.locked", byStart},
		{"log.append.before-write", byTraffic},
		{"log.start.life-written", byStart},
		{"log.append.written", byTraffic},
		{"log.recovery.begin", byStart},
		{"log.roll.begin", byTraffic},
		{"log.recovery.before-cut", byTornTail},
		{"log.roll.indexes-written", byTraffic},
		{"log.epoch.before-assign", byTraffic},
		{"log.create.begin", byTraffic},
		{"log.create.directory-made", byTraffic},
		{"log.delete.before-rename", byTraffic},
		{"log.delete.renamed", byTraffic},
		{"log.shutdown.flushed", byStop},
		{"log.checkpoint.before-write", byTraffic},
		{"broker.kept-offset.before-write", byTraffic},
		{"broker.used-logs.before-write", byTraffic},
		{"broker.stop.before-logs-closed", byStop},
		{"log.retention.begin", byTraffic},
	},
	{
		{"start.pid-written", byStart},
		{"log.roll.snapshot-taken", byTraffic},
		{"log.start.marker-removed", byStart},
		{"log.roll.segment-created", byTraffic},
		{"broker.registered.before-stop-reported", byStart},
		{"log.flush.synced", byTraffic},
		{"log.recovery.cut", byTornTail},
		{"log.epoch.assigned", byTraffic},
		{"log.append.identified", byTraffic},
		{"log.create.identified", byTraffic},
		{"log.delete.synced", byTraffic},
		{"log.delete.files-removed", byTraffic},
		{"log.delete.removed", byTraffic},
		{"log.shutdown.checkpoints-written", byStop},
		{"log.checkpoint.written", byTraffic},
		{"log.shutdown.marked", byStop},
		{"broker.kept-offset.after-write", byTraffic},
		{"broker.used-logs.after-write", byTraffic},
		{"log.retention.renamed", byTraffic},
	},
}

// snapshotPoints are of the three controllers, one each: a snapshot is taken every 15 to 30 seconds.
var snapshotPoints = []killPoint{
	{"raftnode/snapshot begins", byTraffic},
	{"raftnode/snapshot close begins", byTraffic},
	{"raftnode/snapshot close ended", byTraffic},
}

// controllerPoints are gone through by one controller after the other, while another waits to die when it cuts its log.
var controllerPoints = []killPoint{
	{"start.locked", byStart},
	{"raftnode/log write begins", byTraffic},
	{"start.pid-written", byStart},
	{"raftnode/log write ended", byTraffic},
	{"raftnode/stable write begins", byElection},
	{"raftnode/vote write begins", byElection},
	{"raftnode/vote write ended", byElection},
	{"controller.claim.before-propose", byElection},
	{"controller.claim.applied", byElection},
	{"controller.propose", byServing},
	{"controller.decided.CreateTopics", byServing},
	{"controller.decided.DeleteTopics", byServing},
}

// compactionPoint needs a snapshot as well.
const compactionPoint = "raftnode/log delete begins"

// formatPoints are where quorate format dies, the first ones inside Raft's first writes.
var formatPoints = []string{
	"format.begin", "format.temporary-directory", "raftnode/log write begins", "raftnode/log write ended", "raftnode/stable write begins",
	"format.raft-bootstrapped", "format.identity-written", "format.filled", "format.renamed", "format.done",
}

// devPoints are where the supervisor dies before it has started a node.
var devPoints = []string{
	"dev.cluster-file", "dev.binary-copied", "dev.node-file", "format.temporary-directory", "format.filled", "format.renamed",
}

// killProfile makes everything happen often.
var killProfile = []string{
	"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000", "segment.bytes=65536",
	"metadata.log.snapshot.entries=20", "metadata.log.trailing.entries=10",
	"log.retention.check.interval.ms=500", "file.delete.delay.ms=100", "replica.high.watermark.checkpoint.interval.ms=500",
}

const (
	// hitWait bounds the way to a point on a busy machine; recoverWait the way back.
	hitWait     = 60 * time.Second
	recoverWait = 120 * time.Second
)

// A process that dies at any named point of its life starts again by its argv, and nothing acknowledged is lost.
func TestKillAtEveryPoint(t *testing.T) {
	dir, err := os.MkdirTemp("", "quorate-points")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("data and logs are kept in %s", dir)
		} else {
			os.RemoveAll(dir)
		}
	})
	for _, point := range devPoints {
		killDev(t, dir, point)
	}
	c := cluster.Start(t, cluster.Options{Dir: dir, Set: killProfile})
	observer := cluster.Observe(t, c)
	c.Must(t, "topic", "create", killTopic, "--partitions", "3", "--replication-factor", "3")
	c.Must(t, "topic", "create", agingTopic, "--partitions", "1", "--replication-factor", "3", "--config", "retention.ms=1000")
	w := c.StartWriters(t, killTopic, cluster.WriterOptions{Idempotent: 2, Plain: 1, Pause: 20 * time.Millisecond, Pad: 1500, BatchBytesMax: 16 << 10})
	stop := churn(t, c)
	// Not t.Parallel, which runs no more tests at once than there are processors.
	var lanes sync.WaitGroup
	for i, points := range brokerLanes {
		lane := &brokerLane{c: c, w: w, id: c.IDs("broker")[i]}
		lanes.Go(func() {
			t.Run(fmt.Sprintf("broker-%d", lane.id), func(sub *testing.T) { lane.run(outliving{sub, t}, points) })
		})
	}
	lanes.Go(func() { t.Run("controllers", func(sub *testing.T) { runControllers(outliving{sub, t}, c) }) })
	lanes.Wait()
	if t.Failed() {
		return
	}
	stop()
	c.WholeISRs(t, recoverWait)
	w.Stop(t)
	c.VerifyReplicas(t, killTopic, w.Acks(), nil)
	c.VerifyAcknowledged(t, w)
	c.SameDumps(t)
	c.SameChains(t)
	observer.Check(t)
	t.Logf("observed %s", observer)
}

// outliving is a subtest whose processes and guard files stay until its parent ends.
type outliving struct {
	*testing.T
	owner *testing.T
}

func (o outliving) Cleanup(f func()) { o.owner.Cleanup(f) }
func (o outliving) TempDir() string  { return o.owner.TempDir() }

const (
	killTopic  = "kept"
	agingTopic = "aging"
)

// killDev runs dev until it dies at a point. The next dev in the same folder goes on.
func killDev(t *testing.T, dir, point string) {
	t.Helper()
	h := cluster.NewHook(t, point)
	h.Arm(t)
	args := []string{"dev", "--dir", dir, "--port-base", "0"}
	for _, s := range killProfile {
		args = append(args, "--set", s)
	}
	out := runToDeath(t, h, args...)
	if h.Hit(t) == 0 {
		t.Fatalf("dev never came to %s:\n%s", point, out)
	}
}

// A format that dies anywhere leaves a directory that is formatted or can be, and nothing beside it once it has ended.
func TestKillFormatAtEveryPoint(t *testing.T) {
	for _, point := range formatPoints {
		t.Run(strings.ReplaceAll(point, "/", " "), func(t *testing.T) {
			s := cluster.NewSolo(t)
			h := cluster.NewHook(t, point)
			h.Arm(t)
			runToDeath(t, h, s.Format()...)
			if h.Hit(t) == 0 {
				t.Fatalf("format never came to %s", point)
			}
			_, errs, code := cluster.Run(t, s.Format()...)
			if again := point == "format.renamed" || point == "format.done"; again != (code == 1 && strings.Contains(errs, "formatted already")) || !again && code != 0 {
				t.Fatalf("format again: exit %d: %s", code, errs)
			}
			left, err := filepath.Glob(s.DataDir + ".*")
			if err != nil || len(left) > 0 {
				t.Errorf("left beside the data directory: %v %v", left, err)
			}
			s.Serves(t)
		})
	}
}

// runToDeath runs a command that is to die at the hook.
func runToDeath(t *testing.T, h *cluster.Hook, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hitWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, cluster.Build(t), args...)
	cmd.Env = append(os.Environ(), h.Env())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("quorate %s was to die at %s: %v\n%s", strings.Join(args, " "), h.Point, err, out)
	}
	return string(out)
}

// churn creates topics, writes to them and deletes them, and fills a topic whose segments are given up soon. What
// fails while nodes are dead is tried again with the next topic.
func churn(t *testing.T, c *cluster.Cluster) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := c.Client(t, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerBatchMaxBytes(32<<10),
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordDeliveryTimeout(2*time.Second), kgo.UnknownTopicRetries(20), kgo.RetryTimeout(2*time.Second))
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(2000)
	var rounds, done atomic.Int64
	var running sync.WaitGroup
	for range 3 { // a change waits for brokers that are dead and not fenced yet; the others go on meanwhile
		running.Go(func() {
			for ctx.Err() == nil {
				if churnOnce(ctx, client, admin, fmt.Sprintf("churn-%d", rounds.Add(1))) == nil {
					done.Add(1)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		t.Logf("churn: %d of %d topics came and went undisturbed", done.Load(), rounds.Load())
	})
	t.Cleanup(stop)
	return stop
}

func churnOnce(ctx context.Context, client *kgo.Client, admin *kadm.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, created := admin.CreateTopic(ctx, 3, 3, nil, topic)
	fill := strings.Repeat("x", 24<<10)
	wrote := client.ProduceSync(ctx,
		&kgo.Record{Topic: topic, Key: []byte("a"), Value: []byte(topic)}, &kgo.Record{Topic: topic, Key: []byte("b"), Value: []byte(topic)},
		&kgo.Record{Topic: topic, Key: []byte("c"), Value: []byte(topic)},
		&kgo.Record{Topic: agingTopic, Value: []byte(fill)}, &kgo.Record{Topic: agingTopic, Value: []byte(fill)}).FirstErr()
	_, deleted := admin.DeleteTopic(ctx, topic)
	pause := time.NewTimer(300 * time.Millisecond) // leave the machine to the nodes
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return errors.Join(created, wrote, deleted)
}

// brokerLane kills one broker again and again.
type brokerLane struct {
	c  *cluster.Cluster
	w  *cluster.Writers
	id int
}

func (l *brokerLane) run(t outliving, points []killPoint) {
	l.c.Kill(t, l.id)
	for _, p := range points {
		began := time.Now()
		l.killAt(t, p)
		t.Logf("broker %d died at %s after %v", l.id, p.name, time.Since(began).Round(time.Millisecond))
	}
	l.c.Restart(t, l.id)
	l.check(t)
}

// killAt starts the dead broker, holds it to what it acknowledged, and lets it die at the point.
func (l *brokerLane) killAt(t outliving, p killPoint) {
	t.Helper()
	h := cluster.NewHook(t, p.name)
	switch p.by {
	case byTornTail:
		tearTails(t, l.c.Node(t, l.id).DataDir)
		h.Arm(t)
		l.c.Restart(t, l.id, h.Env())
	case byStart:
		h.Arm(t)
		l.c.Restart(t, l.id, h.Env())
	default:
		l.c.Restart(t, l.id, h.Env())
		l.check(t)
		h.Arm(t)
		if p.by == byStop {
			l.c.Signal(t, l.id, syscall.SIGTERM)
		}
	}
	h.AwaitKill(t, hitWait)
}

// check waits until the broker is whole, and reads from it what was acknowledged before.
func (l *brokerLane) check(t outliving) {
	t.Helper()
	l.c.AwaitInSync(t, l.id, recoverWait, killTopic, agingTopic)
	l.c.VerifyReplica(t, l.id, killTopic, l.w.Acks())
}

// tearTails ends the newest segment of every partition in the front of a batch, as a death in the middle of a write
// may: the bytes of its last 100, which are no whole batch.
func tearTails(t testing.TB, dataDir string) {
	t.Helper()
	torn := 0
	for _, name := range activeSegments(t, dataDir) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 100 {
			continue
		}
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(data[len(data)-100:])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		torn++
	}
	if torn == 0 {
		t.Fatalf("no segment in %s to tear", dataDir)
	}
}

// activeSegments are the newest segments of the partitions in a broker's data directory.
func activeSegments(t testing.TB, dataDir string) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dataDir, "*", "*.log")) // sorted: the last of a folder is the newest
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]string{}
	for _, name := range logs {
		newest[filepath.Dir(name)] = name
	}
	var out []string
	for dir, name := range newest {
		if !strings.HasSuffix(dir, "-delete") && !strings.HasSuffix(dir, "-stray") {
			out = append(out, name)
		}
	}
	return out
}
