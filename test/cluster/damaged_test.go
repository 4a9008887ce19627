package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// A broker dies, and its newest segments end in garbage, in half a batch, and in a batch with a flipped byte: each tail
// is cut and fetched again.
func TestTornTailsAreCutAndRefetched(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	c.Must(t, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
	w := c.StartWriters(t, "orders", cluster.WriterOptions{Idempotent: 2, Plain: 1, Pad: 100})
	w.AwaitAcks(t, 1000)
	const victim = 2
	c.Kill(t, victim)
	dir := c.Node(t, victim).DataDir
	damages := map[string]func(*os.File, int64) error{
		"orders-0": func(f *os.File, size int64) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 1000), size)
			return err
		},
		"orders-1": func(f *os.File, size int64) error { return f.Truncate(size - 17) },
		"orders-2": func(f *os.File, size int64) error {
			var b [1]byte
			if _, err := f.ReadAt(b[:], size-5); err != nil {
				return err
			}
			b[0] ^= 0x10
			_, err := f.WriteAt(b[:], size-5)
			return err
		},
	}
	for partition, damage := range damages {
		segments := slices.DeleteFunc(activeSegments(t, dir), func(s string) bool { return filepath.Base(filepath.Dir(s)) != partition })
		if len(segments) != 1 {
			t.Fatalf("%s: segments %v", partition, segments)
		}
		f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
		if err == nil {
			info, _ := f.Stat()
			err = errors.Join(damage(f, info.Size()), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Restart(t, victim)
	c.AwaitInSync(t, victim, 2*time.Minute, "orders")
	log := c.LogOf(t, victim)
	for partition := range damages {
		if !strings.Contains(log, `msg="log cut in recovery" broker=2 log=`+partition) {
			t.Errorf("the log does not tell that %s was cut", partition)
		}
	}
	c.WholeISRs(t, time.Minute)
	w.Stop(t)
	c.VerifyReplicas(t, "orders", w.Acks(), nil)
	c.VerifyAcknowledged(t, w)
}

// flipByte damages a file in its middle.
func flipByte(t *testing.T, name string) {
	t.Helper()
	data := []byte(readFile(t, name))
	data[len(data)/2] ^= 0x01
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func snapshotsOf(t *testing.T, n cluster.Node) []string {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(n.DataDir, "raft", "snapshots", "*-*", "state.bin"))
	if err != nil {
		t.Fatal(err)
	}
	states = slices.DeleteFunc(states, func(s string) bool { return strings.HasSuffix(filepath.Dir(s), ".tmp") })
	slices.SortFunc(states, func(a, b string) int { return strings.Compare(modTime(t, a), modTime(t, b)) })
	return states
}

func modTime(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000")
}

// A flipped byte in a controller's newest metadata snapshot: it is refused and named; the controller goes on from the
// older one, or ends. With every snapshot damaged it ends, and the others go on.
func TestDamagedMetadataSnapshot(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Brokers: 1, Set: []string{"metadata.log.snapshot.entries=20", "metadata.log.trailing.entries=100"}})
	victim := c.Active(t)
	n := 0
	cluster.Eventually(t, 2*time.Minute, "two snapshots", func() error {
		n++
		c.Must(t, "topic", "create", fmt.Sprintf("t%d", n), "--partitions", "1", "--replication-factor", "1")
		if found := snapshotsOf(t, c.Node(t, victim)); len(found) < 2 {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	c.Kill(t, victim)
	found := snapshotsOf(t, c.Node(t, victim))
	newest := found[len(found)-1]
	flipByte(t, newest)
	c.Restart(t, victim)
	c.AwaitReady(t, victim, time.Minute)
	if log := c.LogOf(t, victim); !strings.Contains(log, "metadata snapshot refused") || !strings.Contains(log, filepath.Dir(newest)) {
		t.Errorf("the log does not name %s", newest)
	}
	c.SameDumps(t)
	c.Kill(t, victim)
	for _, s := range snapshotsOf(t, c.Node(t, victim)) {
		if s != newest { // that one is damaged already, if it is still there
			flipByte(t, s)
		}
	}
	dir := filepath.Join(c.Node(t, victim).DataDir, "raft", "snapshots")
	before := fingerprint(t, dir)
	wantRefusal(t, resultOf(c.RunNode(t, victim)), "2 snapshots are damaged in "+dir, "format it anew")
	if fingerprint(t, dir) != before {
		t.Error("the snapshots were changed")
	}
	c.Must(t, "topic", "create", "after", "--partitions", "1", "--replication-factor", "1")
}
