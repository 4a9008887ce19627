package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
)

func TestBrokerLivesADayWithAFakeController(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q, b := startCluster(t, dir)
		first := q.registrations[0]
		if first.StopKind != metadatapb.StopKind_STOP_KIND_NEVER_RAN || len(first.LostReplicas) > 0 || first.JudgedOffset != -1 {
			t.Errorf("first registration: %v", first)
		}

		offset := q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1))
		if _, err := b.applied.waitOffset(t.Context(), offset); err != nil {
			t.Fatal(err)
		}
		r, err := b.replicas.get(image.PartitionID{Topic: topicID(1)})
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(3, 10)}.Bytes(), acksAll)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := r.IsReplicated(a.LastOffset+1, a.LeaderEpoch); !done || err != nil {
			t.Errorf("replicated: %v, %v", done, err)
		}
		if id, err := b.producerIDs.Next(t.Context()); err != nil || id != 0 {
			t.Errorf("producer id %d, %v", id, err)
		}
		b.end(t)
		if p, _ := q.image().Partition(image.PartitionID{Topic: topicID(1)}); p.Leader != image.NoBroker {
			t.Errorf("after the controlled shutdown: %v", p)
		}

		again := startBroker(t, network, 1, dir)
		awaitReady(t, again)
		second := q.registrations[len(q.registrations)-1]
		if second.StopKind != metadatapb.StopKind_STOP_KIND_CLEAN || second.GetPreviousBrokerEpoch() != int64(b.epoch()) || len(second.LostReplicas) > 0 {
			t.Errorf("second registration: %v", second)
		}
		eventually(t, "it leads again", func() bool {
			r, err := again.replicas.get(image.PartitionID{Topic: topicID(1)})
			return err == nil && r.leads() && r.log.HighWatermark() == 3
		})

		q.put(removeRecord(1))
		eventually(t, "the deletion is reported and settled", func() bool {
			_, pending := q.image().PendingDeletion(topicID(1))
			return !pending
		})
		if n := len(q.reports); n != 1 {
			t.Errorf("%d reports", n)
		}
		if state := stateMetric(t, again.Broker); state != float64(StateRunning) {
			t.Errorf("state %v", state)
		}
		if err := again.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		again.end(t)
		if err := again.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
	})
}

// stateMetric is what a broker's metrics say of its state.
func stateMetric(t *testing.T, b *Broker) float64 {
	metrics := prometheus.NewRegistry()
	if err := b.Register(metrics); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "quorate_broker_state" {
			return f.Metric[0].Gauge.GetValue()
		}
	}
	t.Fatal("no metric quorate_broker_state")
	return 0
}

// Two brokers replicate; the leader stops in order; nothing acknowledged is lost; the former leader comes back into the
// ISR by itself.
func TestTwoBrokersReplicateAndHandOver(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		awaitReady(t, b1, b2)
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		r := b1.awaitLeads(t, id)
		for range 50 {
			a, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 1000)}.Bytes(), acksAll)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the record is replicated", func() bool {
				done, err := r.IsReplicated(a.LastOffset+1, a.LeaderEpoch)
				return done && err == nil
			})
		}
		b1.end(t)
		r2 := b2.awaitLeads(t, id)
		if end := r2.log.LogEndOffset(); end != 50 {
			t.Errorf("broker 2's log ends at %d", end)
		}
		if _, err := r2.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), 1); err != nil {
			t.Error(err)
		}
		b1 = startBroker(t, network, 1, dirs[0])
		eventually(t, "broker 1 is back in the ISR", func() bool {
			p, _ := q.image().Partition(id)
			return image.Contains(p.ISR, 1)
		})
		r1, err := b1.replicas.get(id)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "broker 1 has everything", func() bool { return r1.log.HighWatermark() == 51 })
		b2.end(t)
		b1.end(t)
	})
}

// A broker whose follower is cut off asks for a smaller ISR after the lag limit, and for the larger one when it is back.
func TestLaggingFollowerLeavesAndComesBack(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		awaitReady(t, b1, b2)
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		r := b1.awaitLeads(t, id)
		network.Partition("b1", "b2")
		if _, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		p, _ := q.image().Partition(id)
		if !slices.Equal(p.ISR, []image.BrokerID{1}) || r.log.HighWatermark() != 1 {
			t.Errorf("after the lag limit: %v, watermark %d", p, r.log.HighWatermark())
		}
		network.HealAll()
		eventually(t, "the ISR is whole", func() bool {
			p, _ := q.image().Partition(id)
			return len(p.ISR) == 2
		})
		b1.end(t)
		b2.end(t)
	})
}

// KAFKA-14296: a broker applies metadata until its end. In its controlled shutdown it steps down where another leads, refuses
// appends there, and does not fetch what it has left.
func TestMetadataIsAppliedDuringControlledShutdown(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		awaitReady(t, b1, b2)
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		r := b1.awaitLeads(t, id)
		q.hold(true)
		b1.stop()
		eventually(t, "broker 1 follows", func() bool { return !r.leads() })
		if got := b1.lifecycle.current().state; got != StatePendingControlledShutdown {
			t.Errorf("state %v", got)
		}
		if err := r.CanAppend(1); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("append to a partition that was handed over: %v", err)
		}
		time.Sleep(time.Second)
		if got := b1.fetcher.manager.Status(id); got != replica.StatusNone {
			t.Errorf("fetch of a partition that was left: %v", got)
		}
		before := b1.applied.image().Offset()
		q.put(topicRecord("b", 2), partitionRecord(2, 0, 2, 2))
		eventually(t, "it still applies metadata", func() bool { return b1.applied.image().Offset() > before })
		if ok, reason := b1.Ready(); ok || !strings.Contains(reason, "shutting down") {
			t.Errorf("ready: %v, %q", ok, reason)
		}
		q.hold(false)
		b1.end(t)
		b2.end(t)
	})
}

// Without a controller a stop takes no longer than the limit, and leaves a directory that counts as cleanly stopped.
func TestStopWithoutAController(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q, b := startCluster(t, dir)
		network.Isolate("controller")
		began := time.Now()
		b.end(t)
		if waited := time.Since(began); waited < 30*time.Second || waited > 32*time.Second {
			t.Errorf("stopped after %v", waited)
		}
		network.HealAll()
		again := startBroker(t, network, 1, dir)
		awaitReady(t, again)
		if got := q.registration(1).StopKind; got != metadatapb.StopKind_STOP_KIND_CLEAN {
			t.Errorf("stop kind %v", got)
		}
		again.end(t)
	})
}

// Metadata that is older than what the broker has applied before is not acted on: no registration, nothing deleted,
// nothing led, and the state is named.
func TestOlderMetadataIsNotActedOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q, b := startCluster(t, dir)
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1))
		eventually(t, "it leads", func() bool {
			r, err := b.replicas.get(image.PartitionID{Topic: topicID(1)})
			return err == nil && r.leads()
		})
		b.end(t)
		kept := b.applied.image().Offset()

		q.reset()
		registrations := len(q.registrations)
		b = startBroker(t, network, 1, dir)
		time.Sleep(10 * time.Second)
		ok, reason := b.Ready()
		if want := fmt.Sprintf("this broker has applied %d before", kept); ok || !strings.Contains(reason, want) {
			t.Errorf("ready: %v, %q; want %q", ok, reason, want)
		}
		if n := len(q.registrations) - registrations; n != 0 {
			t.Errorf("%d registrations on old metadata", n)
		}
		if d := cmp.Diff([]string{"a-0"}, dirsOf(t, dir)); d != "" {
			t.Errorf("directories (-want +got):\n%s", d)
		}
		b.end(t)
		if d := cmp.Diff([]string{"a-0"}, dirsOf(t, dir)); d != "" {
			t.Errorf("directories after the stop (-want +got):\n%s", d)
		}
	})
}

// A log that is gone is told at the registration, and judged anew with each attempt.
func TestLostLogIsTold(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q, b := startCluster(t, dir)
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1), partitionRecord(1, 1, 1, 1))
		eventually(t, "it hosts both", func() bool { return len(b.replicas.all()) == 2 })
		b.end(t)
		if err := os.RemoveAll(filepath.Join(dir, "a-1")); err != nil {
			t.Fatal(err)
		}
		q.refuse(controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION)
		b = startBroker(t, network, 1, dir)
		time.Sleep(3 * time.Second)
		if ok, reason := b.Ready(); ok || !strings.Contains(reason, "DUPLICATE_BROKER_REGISTRATION") {
			t.Errorf("ready: %v, %q", ok, reason)
		}
		early := q.registration(1)
		q.put(topicRecord("b", 2))
		time.Sleep(2 * time.Second)
		q.refuse(0)
		awaitReady(t, b)
		late := q.registration(1)
		if late.JudgedOffset <= early.JudgedOffset {
			t.Errorf("judged at %d, then at %d", early.JudgedOffset, late.JudgedOffset)
		}
		if l := late.LostReplicas; len(l) != 1 || !slices.Equal(l[0].Partitions, []int32{1}) {
			t.Errorf("lost replicas: %v", l)
		}
		b.end(t)
	})
}

// A log that loading cuts below its high watermark, and one that does not load, are disowned in the same life before the
// broker asks to be unfenced: however long the controller refuses, it does not, and it never leads them. A whole log is led.
func TestDamagedLogIsDisownedBeforeServing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q, b := startCluster(t, dir)
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1), partitionRecord(1, 1, 1, 1), partitionRecord(1, 2, 1, 1))
		eventually(t, "it hosts all", func() bool { return len(b.replicas.all()) == 3 })
		for _, r := range b.replicas.all() {
			for range 3 {
				if _, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 1000)}.Bytes(), acksAll); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.end(t)
		segment := func(partition int) string {
			return filepath.Join(dir, fmt.Sprintf("a-%d", partition), "00000000000000000000.log")
		}
		// A process that crashed scans its logs: its marker of a clean stop is not there.
		crashed := []error{
			os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")), os.Truncate(segment(0), 1500), os.Remove(segment(1)), os.Mkdir(segment(1), 0o755),
		}
		if err := errors.Join(crashed...); err != nil {
			t.Fatal(err)
		}
		q.refuseAmends(controllerpb.ErrorCode_ERROR_CODE_OFFSET_NOT_AVAILABLE)
		b = startBroker(t, network, 1, dir)
		eventually(t, "it registers again", func() bool { return len(q.registration(1).LostReplicas) > 0 })
		time.Sleep(10 * time.Second)
		if ok, reason := b.Ready(); ok || !strings.Contains(reason, "recovered") {
			t.Errorf("ready: %v, %q", ok, reason)
		}
		im := q.image()
		if reg, _ := im.Broker(1); !reg.Fenced || reg.Epoch != b.epoch() {
			t.Errorf("unfenced before the damage was told: %+v", reg)
		}
		q.refuseAmends(0)
		awaitReady(t, b)
		told := q.registration(1)
		if l := told.LostReplicas; len(l) != 1 || !slices.Equal(l[0].Partitions, []int32{0, 1}) || told.JudgedOffset < int64(im.Offset()) {
			t.Errorf("told: %v", told)
		}
		if reg, _ := q.image().Broker(1); reg.Epoch != b.epoch() {
			t.Errorf("epoch %d, registered with %d", reg.Epoch, b.epoch())
		}
		for partition, want := range []image.BrokerID{image.NoBroker, image.NoBroker, 1} {
			if p, _ := q.image().Partition(image.PartitionID{Topic: topicID(1), Partition: int32(partition)}); p.Leader != want {
				t.Errorf("partition %d: %v, want leader %v", partition, p, want)
			}
		}
		b.end(t)
	})
}

// WaitMetadata answers when the broker has acted on the offset, and with deleted topics when none of their data is left.
func TestWaitMetadata(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		block := make(chan struct{})
		b := startBroker(t, network, 1, dir, func(_ *Config, e *env.Env) {
			e.Hook = func(point string) {
				if point == "log.delete.files-removed" {
					<-block
				}
			}
		})
		awaitReady(t, b)
		c, err := client.New(client.Config{Network: network.Host("cli"), Controllers: []string{controllerAddress}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conn, err := c.Conn("b1:9193")
		if err != nil {
			t.Fatal(err)
		}
		reader := controllerpb.NewReaderApiClient(conn)
		wait := func(r *controllerpb.WaitMetadataRequest) error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := reader.WaitMetadata(ctx, r)
			return err
		}
		created := q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1))
		if err := wait(&controllerpb.WaitMetadataRequest{MetadataOffset: int64(created)}); err != nil {
			t.Error(err)
		}
		if _, err := b.replicas.get(image.PartitionID{Topic: topicID(1)}); err != nil {
			t.Errorf("answered before the log was there: %v", err)
		}
		if err := wait(&controllerpb.WaitMetadataRequest{MetadataOffset: int64(created) + 1}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("an offset that does not come: %v", err)
		}
		removed := q.put(removeRecord(1))
		data := &controllerpb.WaitMetadataRequest{MetadataOffset: int64(removed), DeletedTopics: [][]byte{topicID(1).Bytes()}}
		if err := wait(&controllerpb.WaitMetadataRequest{MetadataOffset: int64(removed)}); err != nil {
			t.Error(err)
		}
		if err := wait(data); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("data is still there: %v", err)
		}
		close(block)
		if err := wait(data); err != nil {
			t.Error(err)
		}
		if s, err := reader.NodeStatus(t.Context(), &controllerpb.NodeStatusRequest{}); err != nil || s.State != "RUNNING" || s.NodeId != 1 {
			t.Errorf("status %v, %v", s, err)
		}
		b.end(t)
	})
}
