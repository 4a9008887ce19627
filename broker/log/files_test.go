package log_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

func logFile(replica log.Replica, base int64, suffix string) string {
	return fmt.Sprintf("%s/%s/%020d%s", dataDir, replica.Name, base, suffix)
}

// The index has an entry for the first batch after each 4096 bytes: its last offset and its position. The time index has
// the largest timestamp so far with it, and one entry more for what came after. (Kafka: LogSegment.append.)
func TestIndexFiles(t *testing.T) {
	r := newRig(t)
	r.config.Log.IndexIntervalBytes = 400
	r.start()
	l := r.open(foo0)
	var wantOffsets, wantTimes []string
	position, since := 0, 0
	newest := int64(-1)
	for i := range 300 {
		b := logtest.Batch{Timestamp: 1000 + int64(i%7)*int64(i), Values: logtest.Records(2, 40)}
		size := len(b.Bytes())
		produce(t, l, 1, b)
		rose := b.Timestamp > newest
		newest = max(newest, b.Timestamp)
		if since > 400 {
			wantOffsets = append(wantOffsets, fmt.Sprintf("%d@%d", 2*i+1, position))
			since = 0
			if rose || len(wantTimes) == 0 || !strings.HasPrefix(wantTimes[len(wantTimes)-1], fmt.Sprint(newest, "@")) {
				wantTimes = append(wantTimes, fmt.Sprint(newest, "@"))
			}
		}
		position += size
		since += size
	}
	if last := fmt.Sprint(newest, "@"); wantTimes[len(wantTimes)-1] != last {
		wantTimes = append(wantTimes, last)
	}
	r.cleanRestart()
	var gotOffsets, gotTimes []string
	index := []byte(r.read(logFile(foo0, 0, ".index")))
	for ; len(index) > 0; index = index[8:] {
		gotOffsets = append(gotOffsets, fmt.Sprintf("%d@%d", binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[4:])))
	}
	times := []byte(r.read(logFile(foo0, 0, ".timeindex")))
	for ; len(times) > 0; times = times[12:] {
		gotTimes = append(gotTimes, fmt.Sprint(binary.BigEndian.Uint64(times), "@"))
		offset := int64(binary.BigEndian.Uint32(times[8:]))
		l, _ := r.load(foo0)
		b, _, err := log.NextBatch(readAll(t, l, offset, offset+1))
		r.must(err)
		if b.LastOffset() != offset || b.MaxTimestamp() != int64(binary.BigEndian.Uint64(times)) {
			t.Errorf("entry (%d, %d) is of the batch that ends at %d with %d", binary.BigEndian.Uint64(times), offset, b.LastOffset(), b.MaxTimestamp())
		}
	}
	if diff := cmp.Diff(wantOffsets, gotOffsets); diff != "" {
		t.Errorf("offset index: %s", diff)
	}
	if diff := cmp.Diff(wantTimes, gotTimes); diff != "" {
		t.Errorf("time index: %s", diff)
	}
}

func TestDirectoryOfALog(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	r.start()
	l := r.open(foo0)
	fill(t, l, 3, 5)
	l.RaiseHighWatermark(4)
	r.cleanRestart()
	want := []string{
		"00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
		"00000000000000000002.index", "00000000000000000002.log", "00000000000000000002.snapshot", "00000000000000000002.timeindex",
		"00000000000000000004.index", "00000000000000000004.log", "00000000000000000004.snapshot", "00000000000000000004.timeindex",
		"00000000000000000005.snapshot", "leader-epoch-checkpoint", "partition.metadata",
	}
	if diff := cmp.Diff(want, r.ls(dataDir+"/foo-0")); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"foo-0/partition.metadata":         "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
		"foo-0/leader-epoch-checkpoint":    "0\n1\n3 0\n",
		"replication-offset-checkpoint":    "0\n1\nfoo 0 4\n",
		"recovery-point-offset-checkpoint": "0\n1\nfoo 0 5\n",
		"log-start-offset-checkpoint":      "0\n0\n",
	} {
		if got := r.read(dataDir + "/" + name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The format is Kafka's: ProducerStateManager.PID_SNAPSHOT_MAP_SCHEMA. A producer has an entry for each remembered batch, the last one last.
func TestProducerSnapshotFormat(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	produce(t, l, 1, from(0x0102, 3, 0, 2))
	produce(t, l, 1, from(0x0102, 3, 2, 4))
	produce(t, l, 1, from(0x01, 0, 9, 1))
	r.cleanRestart()
	got := []byte(r.read(logFile(foo0, 7, ".snapshot")))
	now := fmt.Sprintf("%016x", r.clock.now.UnixMilli())
	want := "0001" + hex.EncodeToString(got[2:6]) + "00000003" +
		"0000000000000001" + "0000" + "00000009" + "0000000000000006" + "00000000" + now + "ffffffff" + "ffffffffffffffff" +
		"0000000000000102" + "0003" + "00000001" + "0000000000000001" + "00000001" + now + "ffffffff" + "ffffffffffffffff" +
		"0000000000000102" + "0003" + "00000005" + "0000000000000005" + "00000003" + now + "ffffffff" + "ffffffffffffffff"
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

func TestMalformedCheckpointIsAStorageError(t *testing.T) {
	for _, name := range []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"} {
		for _, content := range []string{"", "1\n0\n", "0\n2\nfoo 0 1\n", "0\n1\nfoo 0\n", "0\n1\nfoo x 1\n", "0\n1\nfoo 0 x\n"} {
			r := newRig(t)
			r.write(dataDir+"/"+name, content)
			_, err := r.tryStart()
			var s *log.StorageError
			if !errors.As(err, &s) || !errors.Is(err, log.ErrMalformed) || !strings.Contains(err.Error(), "remove the file") {
				t.Errorf("%s %q: %v", name, content, err)
			}
		}
	}
}

func TestConfigValidateNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*log.Config){
		"Dir":                   func(c *log.Config) { c.Dir = "" },
		"OpenFilesMax":          func(c *log.Config) { c.OpenFilesMax = 0 },
		"LoadsMax":              func(c *log.Config) { c.LoadsMax = 0 },
		"HighWatermarkInterval": func(c *log.Config) { c.HighWatermarkInterval = 0 },
		"RecoveryPointInterval": func(c *log.Config) { c.RecoveryPointInterval = 0 },
		"RetentionInterval":     func(c *log.Config) { c.RetentionInterval = 0 },
		"ProducerSweepInterval": func(c *log.Config) { c.ProducerSweepInterval = 0 },
		"SegmentBytesMax":       func(c *log.Config) { c.Log.SegmentBytesMax = 1 },
		"SegmentAgeMax":         func(c *log.Config) { c.Log.SegmentAgeMax = 0 },
		"IndexIntervalBytes":    func(c *log.Config) { c.Log.IndexIntervalBytes = -1 },
		"IndexBytesMax":         func(c *log.Config) { c.Log.IndexBytesMax = 11 },
		"MessageBytesMax":       func(c *log.Config) { c.Log.MessageBytesMax = 0 },
		"FileDeleteDelay":       func(c *log.Config) { c.Log.FileDeleteDelay = -1 },
		"ProducerAgeMax":        func(c *log.Config) { c.Log.ProducerAgeMax = 0 },
	} {
		c := log.DefaultConfig("/d")
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
