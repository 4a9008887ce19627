package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/test/cluster"
)

const (
	// serveWait bounds a start.
	serveWait = 2 * time.Minute
	// idleTime is how long a controller is left alone before it is weighed.
	idleTime = 60 * time.Second
	// idleControllers are weighed in one run, for their median.
	idleControllers = 7
	// snapshotBytes is after how much of log the weighed controllers take a snapshot. A small change writes more than changeBytes.
	snapshotBytes, changeBytes = 16 << 10, 64
	// mebibyte is the unit of memory.
	mebibyte = 1 << 20
)

// lone is a controller process on its own, over a snapshot.
type lone struct {
	*cluster.Solo
	cmd    *exec.Cmd
	broker image.Broker
}

// format makes the directory of a controller that starts from an image, which has a broker 0.
func format(b *testing.B, im *image.Image) *lone {
	b.Helper()
	s := &lone{Solo: cluster.NewSolo(b)}
	s.broker, _ = im.Broker(0)
	if _, errs, code := cluster.Run(b, s.Format()...); code != 0 {
		b.Fatalf("format: exit %d: %s", code, errs)
	}
	if err := plant(filepath.Join(s.DataDir, "raft"), s.ClusterID, im); err != nil {
		b.Fatal(err)
	}
	appendTo(b, s.Config, "broker.session.timeout.ms=86400000\n") // no broker beats here, and none is to be fenced
	return s
}

// start runs the controller until it has committed a change, and tells how long that took.
func (s *lone) start(b *testing.B) time.Duration {
	b.Helper()
	log, err := os.Create(filepath.Join(s.Dir, "server.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	began := time.Now()
	s.cmd = s.Start(b, log)
	if err := s.change(1); err != nil {
		text, _ := os.ReadFile(log.Name())
		b.Fatalf("%v\n%s", err, text)
	}
	return time.Since(began)
}

// change commits so many small changes.
func (s *lone) change(count int) error {
	ctx, cancel := context.WithTimeout(context.Background(), serveWait)
	defer cancel()
	controllers, err := client.New(client.Config{Network: env.OS("").Network, Controllers: []string{s.GRPC}, ClusterID: s.ClusterID})
	if err != nil {
		return err
	}
	defer controllers.Close()
	api := controllerpb.NewBrokerApiClient(controllers)
	for done := 0; done < count; {
		_, err := api.AllocateProducerIds(ctx, &controllerpb.AllocateProducerIdsRequest{BrokerId: int32(s.broker.ID), BrokerEpoch: int64(s.broker.Epoch)})
		switch {
		case err == nil:
			done++
		case ctx.Err() != nil:
			return err
		}
	}
	return nil
}

// memory reads a line of the process's status, in MiB.
func (s *lone) memory(b *testing.B, line string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), line+":")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.Atoi(value)
	if err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	return float64(kib) / 1024
}

// BenchmarkStart starts a controller process over a snapshot of 2,000,000 partitions and tells how long it takes until it has
// committed a change, in milliseconds, its election included, beside the same over a snapshot of one topic.
func BenchmarkStart(b *testing.B) {
	large := format(b, TwoMillion.mustBuild(b))
	small := format(b, Shape{Topics: 1, Partitions: 1, Brokers: 3}.mustBuild(b))
	var rounds Rounds
	for b.Loop() {
		ours := milliseconds(large.start(b))
		large.Kill(large.cmd)
		reference := milliseconds(small.start(b))
		small.Kill(small.cmd)
		rounds.Add(ours, reference)
	}
	rounds.Report(b)
}

// BenchmarkControllerMemory weighs controller processes over 2,000,000 partitions, in MiB: resident after a minute in which
// nothing happens, and at most while one takes a snapshot. The reference is the heap of such an image in this process.
// Several stand idle at once, for a minute is long.
func BenchmarkControllerMemory(b *testing.B) {
	before := heap()
	im := TwoMillion.mustBuild(b)
	weight := (heap() - before) / mebibyte
	var rounds, peaks Rounds
	for b.Loop() {
		var all []*lone
		for range idleControllers {
			s := format(b, im)
			appendTo(b, s.Config, fmt.Sprintf("metadata.log.snapshot.bytes=%d\n", snapshotBytes))
			s.start(b)
			all = append(all, s)
		}
		<-time.After(idleTime)
		for _, s := range all {
			rounds.Add(s.memory(b, "VmRSS"), weight)
			peaks.Add(s.snapshotPeak(b), weight)
			s.Kill(s.cmd)
		}
	}
	runtime.KeepAlive(im)
	rounds.Report(b)
	peaks.ReportAs(b, "peak-")
}

// snapshotPeak makes the controller take a snapshot and tells the most memory that it held since.
func (s *lone) snapshotPeak(b *testing.B) float64 {
	b.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil { // forgets the peak
		b.Fatal(err)
	}
	began := s.snapshots(b)
	if err := s.change(snapshotBytes / changeBytes); err != nil {
		b.Fatal(err)
	}
	cluster.Eventually(b, serveWait, "a snapshot is taken", func() error {
		if now := s.snapshots(b); bytes.Equal(now, began) || bytes.Contains(now, []byte(".tmp")) {
			return fmt.Errorf("snapshots: %s", now)
		}
		return nil
	})
	return s.memory(b, "VmHWM")
}

// snapshots are the names of those on the disk.
func (s *lone) snapshots(b *testing.B) []byte {
	b.Helper()
	entries, err := os.ReadDir(filepath.Join(s.DataDir, "raft", "snapshots"))
	if err != nil {
		b.Fatal(err)
	}
	var names []byte
	for _, e := range entries {
		names = append(append(names, e.Name()...), '\n')
	}
	return names
}
