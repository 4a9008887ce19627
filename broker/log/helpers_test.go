package log_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const dataDir = "/data"

// tester is a *testing.T, *testing.B or *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// clock is set by hand, or is that of the bubble.
type clock struct {
	now    time.Time
	bubble bool
}

func (c *clock) Now() time.Time {
	if c.bubble {
		return time.Now()
	}
	return c.now
}

// rig is a log directory over the lives of a broker.
type rig struct {
	t      tester
	disk   *logtest.FS
	fs     env.FS
	clock  *clock
	hook   func(string)
	config log.Config
	// frozen tells that a test ended the life.
	frozen bool
	*log.Manager
}

var (
	foo0  = log.Replica{Name: log.Name{Topic: "foo", Partition: 0}, TopicID: image.UUID{15: 1}}
	foo1  = log.Replica{Name: log.Name{Topic: "foo", Partition: 1}, TopicID: image.UUID{15: 1}}
	other = log.Replica{Name: log.Name{Topic: "foo", Partition: 0}, TopicID: image.UUID{15: 2}}
)

// newRig makes a formatted directory on a disk in memory.
func newRig(t tester) *rig {
	r := &rig{t: t, disk: logtest.NewFS(), clock: &clock{now: time.UnixMilli(1_700_000_000_000)}, config: log.DefaultConfig(dataDir)}
	r.disk.Now = r.clock.Now
	r.fs = r.disk
	r.must(r.disk.MkdirAll(dataDir, 0o755))
	r.must(r.disk.SyncDir("/"))
	r.boot("boot-1")
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// boot gives the machine a boot id.
func (r *rig) boot(id string) {
	r.must(r.disk.MkdirAll("/proc/sys/kernel/random", 0o755))
	r.write("/proc/sys/kernel/random/boot_id", id+"\n")
}

func (r *rig) write(name, content string) {
	r.t.Helper()
	r.must(env.WriteFileAtomic(r.disk, name, []byte(content), 0o644))
}

func (r *rig) read(name string) string {
	r.t.Helper()
	data, err := env.ReadFile(r.disk, name)
	r.must(err)
	return string(data)
}

func (r *rig) exists(name string) bool {
	r.t.Helper()
	ok, err := env.Exists(r.disk, name)
	r.must(err)
	return ok
}

func (r *rig) ls(dir string) []string {
	r.t.Helper()
	entries, err := r.disk.ReadDir(dir)
	r.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// start begins a life.
func (r *rig) start() log.Stop {
	r.t.Helper()
	stop, err := r.tryStart()
	r.must(err)
	return stop
}

func (r *rig) tryStart() (log.Stop, error) {
	e := &env.Env{FS: r.fs, Clock: r.clock, Hook: func(point string) {
		if r.hook != nil {
			r.hook(point)
		}
	}}
	m, err := log.NewManager(e, slog.New(slog.DiscardHandler), r.config)
	r.must(err)
	r.Manager = m
	return m.Start()
}

// open opens a log with the rig's configuration.
func (r *rig) open(replica log.Replica) *log.Log {
	r.t.Helper()
	l, err := r.Open(replica, r.config.Log)
	r.must(err)
	return l
}

// load loads a log that is on disk and returns the report.
func (r *rig) load(replica log.Replica) (*log.Log, log.Recovered) {
	r.t.Helper()
	reports := r.Load(context.Background(), []log.Replica{replica}, func(log.Replica) log.LogConfig { return r.config.Log })
	r.must(reports[0].Err)
	l, _ := r.Get(replica.Name)
	return l, reports[0].Recovered
}

// cleanRestart stops in order and begins the next life.
func (r *rig) cleanRestart() {
	r.t.Helper()
	r.FinishLoading()
	r.must(r.Shutdown(7))
	r.start()
}

// kill ends the life without a word and begins the next.
func (r *rig) kill() {
	r.t.Helper()
	r.disk.Restart()
	r.start()
}

// produce appends one batch of records as the leader of an epoch.
func produce(t tester, l *log.Log, epoch image.LeaderEpoch, b logtest.Batch) log.Appended {
	t.Helper()
	a, err := tryProduce(l, epoch, b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func tryProduce(l *log.Log, epoch image.LeaderEpoch, b logtest.Batch) (log.Appended, error) {
	p, err := log.ParseProduce(b.Bytes(), l.Config().MessageBytesMax)
	if err != nil {
		return log.Appended{}, err
	}
	return l.Append(p, epoch)
}

// fill appends n batches of one record.
func fill(t tester, l *log.Log, epoch image.LeaderEpoch, n int) {
	t.Helper()
	for range n {
		produce(t, l, epoch, logtest.Batch{Values: logtest.Records(1, 10)})
	}
}

// readAll is all batches from an offset to a bound.
func readAll(t tester, l *log.Log, from, upTo int64) []byte {
	t.Helper()
	var all []byte
	for from < upTo {
		p, err := l.Read(log.ReadRequest{Offset: from, UpperBound: upTo, BytesMax: 1 << 20, AtLeastOne: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(p) == 0 {
			break
		}
		for b, err := range log.Batches(p) {
			if err != nil {
				t.Fatal(err)
			}
			from = b.NextOffset()
		}
		all = append(all, p...)
	}
	return all
}

// offsets is the base offsets of batches.
func offsets(t tester, p []byte) []int64 {
	t.Helper()
	var list []int64
	for b, err := range log.Batches(p) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b.BaseOffset())
	}
	return list
}

// follow copies batches to a follower.
func follow(t tester, l *log.Log, batches ...logtest.Batch) error {
	t.Helper()
	var p []byte
	for _, b := range batches {
		p = append(p, b.Bytes()...)
	}
	_, err := l.AppendAsFollower(bytes.Clone(p), 1<<30)
	return err
}

var cmpEmpty = cmpopts.EquateEmpty()

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
