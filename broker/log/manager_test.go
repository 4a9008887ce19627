package log_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

const (
	neverRan     = metadatapb.StopKind_STOP_KIND_NEVER_RAN
	clean        = metadatapb.StopKind_STOP_KIND_CLEAN
	processCrash = metadatapb.StopKind_STOP_KIND_PROCESS_CRASH
	machineCrash = metadatapb.StopKind_STOP_KIND_MACHINE_CRASH
	unknown      = metadatapb.StopKind_STOP_KIND_UNSPECIFIED
)

func TestStopKind(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want log.Stop
	}{
		{"first start", func(*rig) {}, log.Stop{Kind: neverRan, PreviousBrokerEpoch: -1}},
		{"killed before it ever registered", func(r *rig) { r.start(); r.disk.Restart() }, log.Stop{Kind: neverRan, PreviousBrokerEpoch: -1}},
		{"clean", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.FinishLoading()
			r.must(r.Shutdown(3))
		}, log.Stop{Kind: clean, PreviousBrokerEpoch: 3}},
		{"clean, machine booted since", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.FinishLoading()
			r.must(r.Shutdown(3))
			r.boot("boot-2")
		}, log.Stop{Kind: clean, PreviousBrokerEpoch: 3}},
		{"killed", func(r *rig) { r.start(); r.must(r.StopReported(2)); r.disk.Restart() }, log.Stop{Kind: processCrash, PreviousBrokerEpoch: 2}},
		{"killed, and killed again before it registered", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.disk.Restart()
			r.start()
			r.disk.Restart()
		}, log.Stop{Kind: processCrash, PreviousBrokerEpoch: 2}},
		{"killed, of an older release", func(r *rig) {
			r.start()
			r.write(dataDir+"/.quorate_life", `{"version":0,"bootId":"boot-1"}`)
			r.disk.Restart()
		}, log.Stop{Kind: processCrash, PreviousBrokerEpoch: -1}},
		{"machine crash", func(r *rig) { r.start(); r.must(r.StopReported(2)); r.boot("boot-2") }, log.Stop{Kind: machineCrash, PreviousBrokerEpoch: -1}},
		{"no boot id", func(r *rig) {
			r.must(r.disk.RemoveAll("/proc"))
			r.start()
			r.must(r.StopReported(2))
		}, log.Stop{Kind: unknown, PreviousBrokerEpoch: -1}},
		{"a machine crash that no controller heard of, then killed", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.boot("boot-2")
			r.start()
			r.disk.Restart()
		}, log.Stop{Kind: machineCrash, PreviousBrokerEpoch: -1}},
		{"a machine crash that no controller heard of, then stopped in order", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.boot("boot-2")
			r.start()
			r.FinishLoading()
			r.must(r.Shutdown(-1))
		}, log.Stop{Kind: machineCrash, PreviousBrokerEpoch: -1}},
		{"a clean stop that no controller heard of, then another", func(r *rig) {
			r.start()
			r.must(r.StopReported(2))
			r.FinishLoading()
			r.must(r.Shutdown(3))
			r.start()
			r.FinishLoading()
			r.must(r.Shutdown(-1))
		}, log.Stop{Kind: clean, PreviousBrokerEpoch: 3}},
		{"an old empty marker", func(r *rig) { r.write(dataDir+"/.kafka_cleanshutdown", "") }, log.Stop{Kind: clean, PreviousBrokerEpoch: -1}},
		{"logs, but nothing of ours", func(r *rig) { r.must(r.disk.MkdirAll(dataDir+"/foo-0", 0o755)) }, log.Stop{Kind: unknown, PreviousBrokerEpoch: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.do(r)
			if got := r.start(); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if r.exists(dataDir + "/.kafka_cleanshutdown") {
				t.Error("the marker is still there")
			}
		})
	}
}

func TestNoMarkerUnlessLoadingEnded(t *testing.T) {
	for _, c := range []struct {
		name                string
		cleanBefore, finish bool
		want                bool
		failed              bool
	}{
		{"clean before, loading ended", true, true, true, false},
		{"clean before, loading did not end", true, false, true, false},
		{"unclean before, loading ended", false, true, true, false},
		{"unclean before, loading did not end", false, false, false, false},
		{"a log failed", true, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			faults := envtest.NewFaults()
			r.fs = envtest.NewFS(r.disk, faults)
			r.start()
			if c.cleanBefore {
				r.cleanRestart()
			} else {
				r.kill()
			}
			if c.finish {
				r.FinishLoading()
			}
			if c.failed {
				l := r.open(foo0)
				faults.Add(envtest.Rule{Kind: "write", Name: "*.log"})
				if _, err := tryProduce(l, 1, logtest.Batch{}); err == nil {
					t.Fatal("no failure")
				}
			}
			if err := r.Shutdown(3); (err != nil) != c.failed {
				t.Errorf("shutdown: %v", err)
			}
			if got := r.exists(dataDir + "/.kafka_cleanshutdown"); got != c.want {
				t.Errorf("marker: %v, want %v", got, c.want)
			}
			if c.want && r.read(dataDir+"/.kafka_cleanshutdown") != `{"version":0,"brokerEpoch":3}` {
				t.Errorf("marker: %s", r.read(dataDir+"/.kafka_cleanshutdown"))
			}
		})
	}
}

// A log that could not be loaded was not recovered: the next life must not trust it.
func TestNoMarkerIfALogWasNotLoaded(t *testing.T) {
	r := newRig(t)
	r.start()
	fill(t, r.open(foo0), 1, 3)
	r.disk.Restart()
	r.change(logFile(foo0, 0, ".log"), func(p []byte) []byte { return p[:len(p)-5] })
	faults := envtest.NewFaults()
	r.fs = envtest.NewFS(r.disk, faults)
	r.start()
	stop := faults.Add(envtest.Rule{Kind: "read", Name: "*.log"})
	reports := r.Load(t.Context(), []log.Replica{foo0}, func(log.Replica) log.LogConfig { return r.config.Log })
	if reports[0].Err == nil {
		t.Fatal("no failure")
	}
	stop()
	r.FinishLoading()
	r.must(r.Shutdown(3))
	if got := r.start(); got.Kind == clean {
		t.Errorf("%+v", got)
	}
	if _, recovered := r.load(foo0); recovered.LogEndOffset != 2 {
		t.Errorf("%+v", recovered)
	}
}

func TestOtherTopicOfTheSameName(t *testing.T) {
	r := newRig(t)
	r.start()
	fill(t, r.open(foo0), 1, 3)
	for range 2 { // open, and on disk only
		if _, err := r.Open(other, r.config.Log); !errors.Is(err, log.ErrInconsistentTopicID) {
			t.Errorf("open: %v", err)
		}
		if failed := r.Delete(other); len(failed) != 1 || !errors.Is(failed[0].Err, log.ErrInconsistentTopicID) {
			t.Errorf("delete: %v", failed)
		}
		if failed := r.SetAside(other); len(failed) != 1 || !errors.Is(failed[0].Err, log.ErrInconsistentTopicID) {
			t.Errorf("set aside: %v", failed)
		}
		r.cleanRestart()
	}
	if l := r.open(foo0); l.LogEndOffset() != 3 {
		t.Errorf("end %d", l.LogEndOffset())
	}
}

// What comes after the deletion of a topic under its name begins from nothing, whatever is killed in between.
func TestRecreatedTopicStartsEmpty(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"at once":       func(*rig) {},
		"clean restart": (*rig).cleanRestart,
		"kill":          (*rig).kill,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			l := r.open(foo0)
			fill(t, l, 4, 10)
			l.RaiseHighWatermark(10)
			r.must(l.AdvanceLogStart(6))
			r.must(l.Flush())
			r.must(r.WriteCheckpoints())
			if failed := r.Delete(foo0); failed != nil {
				t.Fatal(failed)
			}
			if _, err := l.Read(log.ReadRequest{Offset: 6, UpperBound: 10, BytesMax: 100}); !errors.Is(err, log.ErrClosed) {
				t.Errorf("read from a deleted log: %v", err)
			}
			if _, ok := r.Get(foo0.Name); ok {
				t.Error("the deleted log is still there")
			}
			between(r)
			_, err := r.Scan()
			r.must(err)
			l = r.open(other)
			wantOffsets(t, l, 0, 0, 0)
			if l.TopicID() != other.TopicID || len(l.Epochs()) != 0 {
				t.Errorf("topic %v, epochs %v", l.TopicID(), l.Epochs())
			}
			for _, name := range []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"} {
				if content := r.read(dataDir + "/" + name); strings.Contains(content, "foo 0 6") || strings.Contains(content, "foo 0 10") {
					t.Errorf("%s still holds the line of the old log: %q", name, content)
				}
			}
			fill(t, l, 1, 2)
			r.kill()
			l, _ = r.load(other)
			wantOffsets(t, l, 0, 0, 2)
		})
	}
}

func TestDeletedDirectoriesAreRemoved(t *testing.T) {
	r := newRig(t)
	faults := envtest.NewFaults()
	r.fs = envtest.NewFS(r.disk, faults)
	r.start()
	fill(t, r.open(foo0), 1, 1)
	fill(t, r.open(foo1), 1, 1)
	if failed := r.Delete(foo0, foo1, log.Replica{Name: log.Name{Topic: "absent"}}); failed != nil {
		t.Fatal(failed)
	}
	dirs := slices.DeleteFunc(r.ls(dataDir), func(s string) bool { return !strings.HasPrefix(s, "foo") })
	for _, d := range dirs {
		if !regexp.MustCompile(`^foo-[01]\.[0-9a-f]{32}-delete$`).MatchString(d) {
			t.Errorf("directory %s", d)
		}
	}
	stop := faults.Add(envtest.Rule{Kind: "remove", Name: "*.log", Times: 1})
	removals := r.RemoveRenamed(context.Background())
	if len(removals) != 2 || removals[0].Err == nil || removals[1].Err != nil || removals[0].Replica != foo0 || removals[0].State != log.DirDeleting {
		t.Fatalf("%+v", removals)
	}
	stop()
	// It is not tried again by whoever wakes the manager, but half a minute later.
	if removals = r.RemoveRenamed(context.Background()); len(removals) != 0 {
		t.Fatalf("tried again at once: %+v", removals)
	}
	r.clock.now = r.clock.now.Add(30 * time.Second)
	again := faults.Add(envtest.Rule{Kind: "remove", Name: "*.log", Times: 1})
	if removals = r.RemoveRenamed(context.Background()); len(removals) != 1 || removals[0].Err == nil || removals[0].Replica != foo0 {
		t.Fatalf("%+v", removals)
	}
	again()
	// The next life takes it up, and still knows whose it was.
	r.kill()
	list, err := r.Scan()
	r.must(err)
	if len(list) != 1 || list[0].State != log.DirDeleting || list[0].TopicID != foo0.TopicID || list[0].Name != foo0.Name {
		t.Fatalf("%+v", list)
	}
	if removals = r.RemoveRenamed(context.Background()); len(removals) != 1 || removals[0].Err != nil || removals[0].Replica != foo0 {
		t.Fatalf("%+v", removals)
	}
	if got := r.ls(dataDir); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "foo") }) {
		t.Errorf("%v", got)
	}
}

func TestStraysAreSetAsideAndKept(t *testing.T) {
	r := newRig(t)
	r.start()
	fill(t, r.open(foo0), 1, 3)
	r.cleanRestart()
	r.write(dataDir+"/nobodys-0.tmp", "")
	r.must(r.disk.MkdirAll(dataDir+"/nobodys-0", 0o755))
	r.write(dataDir+"/nobodys-0/00000000000000000000.log", "data")
	r.must(r.disk.MkdirAll(dataDir+"/unborn-0", 0o755))
	r.must(r.disk.MkdirAll(dataDir+"/__cluster_metadata-0", 0o755))
	r.must(r.disk.MkdirAll(dataDir+"/raft", 0o755))
	list, err := r.Scan()
	r.must(err)
	want := []log.OnDisk{
		{Name: foo0.Name, TopicID: foo0.TopicID, Base: "foo-0"},
		{Name: log.Name{Topic: "nobodys"}, Base: "nobodys-0"},
		{Name: log.Name{Topic: "unborn"}, Base: "unborn-0", Empty: true},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Fatal(diff)
	}
	nobodys := log.Replica{Name: list[1].Name}
	if _, err := r.Open(log.Replica{Name: list[1].Name, TopicID: image.UUID{1}}, r.config.Log); !errors.Is(err, log.ErrInconsistentTopicID) {
		t.Errorf("records without a topic id were opened: %v", err)
	}
	if failed := r.SetAside(foo0, nobodys); failed != nil {
		t.Fatal(failed)
	}
	if got := r.RemoveRenamed(context.Background()); len(got) != 0 {
		t.Errorf("strays were removed: %v", got)
	}
	// A delay is counted from the renaming, over restarts.
	r.config.StrayDelay = time.Hour
	r.clock.now = r.clock.now.Add(59 * time.Minute)
	r.cleanRestart()
	_, err = r.Scan()
	r.must(err)
	if got := r.RemoveRenamed(context.Background()); len(got) != 0 {
		t.Errorf("strays were removed too early: %v", got)
	}
	r.clock.now = r.clock.now.Add(2 * time.Minute)
	if got := r.RemoveRenamed(context.Background()); len(got) != 2 || got[0].State != log.DirStray {
		t.Errorf("%v", got)
	}
	// A directory without records and without an id becomes the topic's.
	fill(t, r.open(log.Replica{Name: list[2].Name, TopicID: image.UUID{1}}), 1, 1)
}

func TestUnopenedLogsKeepTheirLines(t *testing.T) {
	r := newRig(t)
	r.start()
	for _, replica := range []log.Replica{foo0, foo1} {
		l := r.open(replica)
		fill(t, l, 1, 5)
		l.RaiseHighWatermark(4)
	}
	r.cleanRestart()
	l, _ := r.load(foo0)
	l.RaiseHighWatermark(5)
	_, err := r.Scan()
	r.must(err)
	r.must(r.WriteHighWatermarks())
	if got := r.read(dataDir + "/replication-offset-checkpoint"); got != "0\n2\nfoo 0 5\nfoo 1 4\n" {
		t.Errorf("%q", got)
	}
	r.kill()
	l, _ = r.load(foo1)
	wantOffsets(t, l, 0, 4, 5)
}

func TestUnchangedCheckpointIsNotWritten(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 2)
	r.must(r.WriteCheckpoints())
	before := r.disk.Calls("sync")
	r.must(r.WriteCheckpoints())
	if got := r.disk.Calls("sync"); got != before {
		t.Errorf("%d syncs", got-before)
	}
	l.RaiseHighWatermark(1)
	r.must(r.WriteHighWatermarks())
	if got := r.disk.Calls("sync"); got == before {
		t.Error("a changed one was not written")
	}
}

func TestTopicIDIsOnDiskBeforeTheFirstRecord(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	reached := false
	r.hook = func(point string) {
		if point == "log.append.before-write" && !reached {
			reached = true
			r.disk.Freeze()
		}
	}
	_, _ = tryProduce(l, 1, logtest.Batch{})
	if !reached {
		t.Fatal("no write")
	}
	r.hook = nil
	r.disk.PowerCut(newRandom(1))
	if got := r.read(dataDir + "/foo-0/partition.metadata"); got != "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n" {
		t.Errorf("%q", got)
	}
}

func TestHandlesAreBounded(t *testing.T) {
	r := newRig(t)
	r.config.OpenFilesMax = 5
	r.start()
	var logs []*log.Log
	for i := range int32(20) {
		l := r.open(log.Replica{Name: log.Name{Topic: "many", Partition: i}, TopicID: image.UUID{1}})
		if got := r.disk.OpenFiles(); got > 5 {
			t.Fatalf("%d open files", got)
		}
		logs = append(logs, l)
	}
	for range 3 {
		for i, l := range logs {
			fill(t, l, 1, 2)
			if got := len(offsets(t, readAll(t, logs[len(logs)-1-i], 0, 2))); i >= 10 && got != 2 {
				t.Fatalf("%d batches", got)
			}
			if got := r.disk.OpenFiles(); got > 5 {
				t.Fatalf("%d open files", got)
			}
		}
	}
	r.FinishLoading()
	r.must(r.Shutdown(1))
	if got := r.disk.OpenFiles(); got != 0 {
		t.Errorf("%d open files after the shutdown", got)
	}
}

func TestFullDiskTakesTheLogOffline(t *testing.T) {
	r := newRig(t)
	disk := envtest.NewFS(r.disk, envtest.NewFaults())
	r.fs = disk
	var failures []log.Name
	r.config.OnFailure = func(n log.Name, _ error) { failures = append(failures, n) }
	r.start()
	l, beside := r.open(foo0), r.open(foo1)
	fill(t, l, 1, 3)
	fill(t, beside, 1, 1)
	disk.SetSpace(30)
	_, err := tryProduce(l, 1, logtest.Batch{})
	var s *log.StorageError
	if !errors.As(err, &s) || log.CodeOf(err).String() != "ERROR_CODE_KAFKA_STORAGE_ERROR" {
		t.Fatalf("%v", err)
	}
	disk.Free()
	if _, err := tryProduce(l, 1, logtest.Batch{}); !errors.As(err, &s) {
		t.Errorf("the next append: %v", err)
	}
	if _, err := l.Read(log.ReadRequest{UpperBound: 3, BytesMax: 100}); !errors.As(err, &s) {
		t.Errorf("read: %v", err)
	}
	if l.Failure() == nil || !slices.Equal(failures, []log.Name{foo0.Name}) {
		t.Errorf("failure %v, told %v", l.Failure(), failures)
	}
	fill(t, beside, 1, 1)
	r.kill()
	l, recovered := r.load(foo0)
	if l.LogEndOffset() != 3 || recovered.CutBytes != 30 {
		t.Errorf("%+v", recovered)
	}
}

func TestLoadStopsWithItsContext(t *testing.T) {
	r := newRig(t)
	r.start()
	fill(t, r.open(foo0), 1, 1)
	r.kill()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reports := r.Load(ctx, []log.Replica{foo0}, func(log.Replica) log.LogConfig { return r.config.Log })
	if len(reports) != 1 || !errors.Is(reports[0].Err, context.Canceled) {
		t.Errorf("%+v", reports)
	}
}

func TestNothingBeforeStart(t *testing.T) {
	r := newRig(t)
	e := &env.Env{FS: r.disk, Clock: r.clock}
	m, err := log.NewManager(e, nil, r.config)
	r.must(err)
	if _, err := m.Open(foo0, r.config.Log); !errors.Is(err, log.ErrNotStarted) {
		t.Errorf("open: %v", err)
	}
	if err := m.WriteCheckpoints(); !errors.Is(err, log.ErrNotStarted) {
		t.Errorf("write: %v", err)
	}
	if err := m.Shutdown(1); !errors.Is(err, log.ErrNotStarted) {
		t.Errorf("shutdown: %v", err)
	}
	if got := r.ls(dataDir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
