package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestReplicasAreMadeWhatTheImageSays(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), brokerRecord(2, 1), brokerRecord(3, 2)))
	h.apply(w.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2), partitionRecord(1, 1, 2, 2, 1), partitionRecord(1, 2, 2, 2, 3), partitionRecord(1, 3, -1, 1)))
	if d := cmp.Diff([]string{"a-0", "a-1", "a-3"}, dirsOf(t, h.dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	want := []string{"remove 1/0", "remove 1/1", "remove 1/3", "add 1/1 from 2 at b2:9 epoch 0"}
	got := h.fetched.taken()
	slices.Sort(got[1:3])
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("fetches (-want +got):\n%s", d)
	}
	if got := h.partition(t, 1, 0).state().String(); !strings.HasPrefix(got, "Leader leader=1 le=0 pe=0") {
		t.Error(got)
	}
	if _, err := h.get(image.PartitionID{Topic: topicID(1), Partition: 2}); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("not hosted: %v", err)
	}
	if _, err := h.get(image.PartitionID{Topic: topicID(9)}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("not there: %v", err)
	}

	// A leader steps down and fetches from its successor; a change of the ISR alone leaves fetches as they are.
	h.apply(w.put(leaderRecord(1, 0, 2, 2)))
	if d := cmp.Diff([]string{"remove 1/0", "add 1/0 from 2 at b2:9 epoch 1"}, h.fetched.taken()); d != "" {
		t.Errorf("fetches (-want +got):\n%s", d)
	}
	if _, err := h.partition(t, 1, 0).AppendAsLeader(nil, 1); err == nil {
		t.Error("a follower appended")
	}
	h.apply(w.put(&metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{
		TopicId: topicID(1).Bytes(), Partition: 0, Isr: &metadatapb.BrokerIds{Ids: []int32{2, 1}},
	}}}))
	if got := h.fetched.taken(); got != nil {
		t.Errorf("fetches after a change of the ISR: %q", got)
	}
	if h.applied.image() != w.im || h.failures != nil {
		t.Errorf("applied %d of %d, failures %q", h.applied.image().Offset(), w.im.Offset(), h.failures)
	}
}

// A replica that is taken out of a topic that lives on is deleted, also when the change comes as a whole image.
func TestRemovedReplicaOfASurvivingTopicIsDeleted(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 2, 2, 1), partitionRecord(1, 1, 2, 2, 1)))
	other := newWorld(t)
	other.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 2, 2, 3), partitionRecord(1, 1, 2, 2, 1))
	h.apply(other.put(brokerRecord(7, 9)))
	if d := cmp.Diff([]string{"a-0-delete", "a-1"}, dirsOf(t, h.dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
}

// A fetch that is still writing when metadata gives the replica another role is overtaken: it ends without a fault.
func TestOvertakenFetchChangesNothing(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), brokerRecord(2, 1), topicRecord("a", 1), partitionRecord(1, 0, 2, 2, 1)))
	r := h.partition(t, 1, 0)
	fetched := followedLog{r, 0}
	h.apply(w.put(leaderRecord(1, 0, 1, 1)))
	_, cut := fetched.TruncateTo(0)
	for what, err := range map[string]error{
		"append":            fetched.AppendAsFollower(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), 0),
		"cut":               cut,
		"restart":           fetched.RestartAt(7),
		"advance the start": fetched.AdvanceLogStart(0),
	} {
		if !errors.Is(err, replica.ErrOvertaken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if start, _, end := r.log.Offsets(); start != 0 || end != 0 {
		t.Errorf("the log goes from %d to %d", start, end)
	}
}

// A topic that is deleted and made again in one image starts empty under its new id, and the offset of the metadata that
// the deletion rests on is on disk.
func TestRecreatedTopicStartsEmpty(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 1, 1)))
	old := h.partition(t, 1, 0)
	if a := appendOne(t, old, acksAll); a.LastOffset != 0 {
		t.Fatalf("appended at %d", a.LastOffset)
	}
	h.apply(w.put(removeRecord(1), topicRecord("a", 2), partitionRecord(2, 0, 1, 1)))
	if d := cmp.Diff([]string{"a-0", "a-0-delete"}, dirsOf(t, h.dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	if _, high, end := h.partition(t, 2, 0).log.Offsets(); high != 0 || end != 0 {
		t.Errorf("new log has watermark %d and end %d", high, end)
	}
	if _, err := h.get(image.PartitionID{Topic: topicID(1)}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("the old id: %v", err)
	}
	if err := old.CanAppend(1); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("a request that held the old replica: %v", err)
	}
	if p, err := newKeptOffset(env.OS(""), h.dir, h.log).load(); err != nil || p.Offset != w.im.Offset() {
		t.Errorf("kept %d, the deletion rests on %d (%v)", p.Offset, w.im.Offset(), err)
	}
	if h.held()[topicID(1)].held == false {
		t.Error("data of the deleted topic is there and not said to be held")
	}
	h.logs.RemoveRenamed(context.Background())
	deleted, failed := deletionReport(h.applied.image(), 1, func(id image.TopicID) holding { return h.held()[id] })
	if len(deleted) != 1 || failed != nil {
		t.Errorf("report: deleted %v, failed %v", deleted, failed)
	}
}

// KAFKA-16814: what belongs to this broker stays, by topic id; what the metadata does not know, or what says nothing of itself, is set
// aside; only what the metadata waits for is deleted.
func TestStartJudgesTheDiskByTopicID(t *testing.T) {
	dir := t.TempDir()
	h, w := newHosting(t, dir), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0),
		topicRecord("t", 1), partitionRecord(1, 0, 1, 1), topicRecord("u", 2), partitionRecord(2, 0, 1, 1),
		topicRecord("w", 3), partitionRecord(3, 0, 1, 1), topicRecord("gone", 4), partitionRecord(4, 0, 1, 1),
		topicRecord("moved", 5), partitionRecord(5, 0, 1, 1)))
	for n := byte(1); n <= 5; n++ {
		appendOne(t, h.partition(t, n, 0), 1)
	}
	if err := h.logs.Shutdown(5); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "w-0", "partition.metadata")); err != nil {
		t.Fatal(err)
	}
	now := newWorld(t)
	now.put(brokerRecord(1, 0), topicRecord("t", 1), partitionRecord(1, 0, 1, 1), topicRecord("u", 22), partitionRecord(22, 0, 1, 1),
		topicRecord("w", 3), partitionRecord(3, 0, 1, 1), topicRecord("gone", 4), partitionRecord(4, 0, 1, 1),
		topicRecord("moved", 5), partitionRecord(5, 0, 2, 2))
	h = newHosting(t, dir)
	h.start(t, now.put(removeRecord(4)))
	want := []string{"gone-0-delete", "moved-0-stray", "t-0", "u-0", "u-0-stray", "w-0", "w-0-stray"}
	if d := cmp.Diff(want, dirsOf(t, dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	if end := h.partition(t, 1, 0).log.LogEndOffset(); end != 1 {
		t.Errorf("the good log ends at %d", end)
	}
	if end := h.partition(t, 22, 0).log.LogEndOffset(); end != 0 {
		t.Errorf("the recreated topic's log ends at %d", end)
	}
}

func TestLostReplicasAreThoseTheMetadataReliesOn(t *testing.T) {
	w := newWorld(t)
	elr := partitionRecord(1, 2, 2, 1, 2)
	elr.GetPartition().Isr, elr.GetPartition().Elr = []int32{2}, []int32{1}
	known := partitionRecord(1, 3, -1, 1, 2)
	known.GetPartition().Isr, known.GetPartition().LastKnownElr = nil, []int32{1}
	out := partitionRecord(1, 4, 2, 1, 2)
	out.GetPartition().Isr = []int32{2}
	im := w.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2), partitionRecord(1, 1, 1, 1, 2), elr, known, out, partitionRecord(1, 5, 2, 2))
	lost := lostReplicas(im, 1, func(id image.PartitionID) bool { return id.Partition == 1 })
	if len(lost) != 1 || !slices.Equal(lost[0].Partitions, []int32{0, 2, 3}) || !slices.Equal(lost[0].TopicId, topicID(1).Bytes()) {
		t.Errorf("got %v", lost)
	}
	if lost := lostReplicas(im, 3, func(image.PartitionID) bool { return false }); len(lost) != 0 {
		t.Errorf("a broker without replicas lost %v", lost)
	}
}

// A look for lagging followers that comes late says that this process stood still, not that they do.
func TestLateLagCheckBlamesNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, w := newHosting(t, dir), newWorld(t)
		clock := envtest.NewClock()
		h.deps.now = clock.Now
		h.start(t, w.put(brokerRecord(1, 0), brokerRecord(2, 1), topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2)))
		appendOne(t, h.partition(t, 1, 0), 1)
		s := newStage(t.Context())
		s.run(h.checkLags)
		time.Sleep(10 * time.Second)
		clock.Jump(time.Minute) // stopped and continued
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := h.proposals(); n != 0 {
			t.Fatalf("blamed the follower: %d proposals", n)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := h.proposals(); n != 1 {
			t.Fatalf("%d proposals after the follower stayed silent", n)
		}
		s.stop()
	})
}

// Data that cannot be removed is reported with the reason, once; when it is gone that is reported too.
func TestFailedDeletionIsReportedWithItsReason(t *testing.T) {
	h, w := newHosting(t, t.TempDir()), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 1, 1)))
	h.apply(w.put(removeRecord(1)))
	name := log.Replica{Name: log.Name{Topic: "a"}, TopicID: topicID(1)}
	h.removed(log.Removal{Replica: name, State: log.DirDeleting, Err: errors.New("permission denied")})
	report := func(im *image.Image) (int, int) {
		deleted, failed := deletionReport(im, 1, func(id image.TopicID) holding { return h.held()[id] })
		return len(deleted), len(failed)
	}
	if d, f := report(w.im); d != 0 || f != 1 {
		t.Errorf("%d deleted, %d failed", d, f)
	}
	told := w.put(&metadatapb.Record{Kind: &metadatapb.Record_ReplicaDeletionFailed{ReplicaDeletionFailed: &metadatapb.ReplicaDeletionFailed{
		BrokerId: 1, TopicId: topicID(1).Bytes(), Failure: "permission denied", FailureSinceMs: 1,
	}}})
	if d, f := report(told); d != 0 || f != 0 {
		t.Errorf("known already: %d deleted, %d failed", d, f)
	}
	for _, r := range h.logs.RemoveRenamed(t.Context()) {
		h.removed(r)
	}
	if d, f := report(told); d != 1 || f != 0 {
		t.Errorf("gone: %d deleted, %d failed", d, f)
	}
	if d, f := deletionReport(told, 2, func(image.TopicID) holding { return holding{} }); d != nil || f != nil {
		t.Error("a broker that held nothing reports")
	}
}

// A replica whose log does not load is deleted with its topic, and said to be held until it is gone. What another topic left
// under its name stays.
func TestOfflineReplicaIsDeletedWithItsTopic(t *testing.T) {
	dir := t.TempDir()
	h, w := newHosting(t, dir), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 1, 1)))
	appendOne(t, h.partition(t, 1, 0), 1)
	if err := h.logs.Shutdown(5); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, "a-0", "00000000000000000000.log")
	if err := errors.Join(os.Remove(segment), os.Mkdir(segment, 0o755)); err != nil {
		t.Fatal(err)
	}
	h = newHosting(t, dir)
	h.start(t, w.im)
	if _, offline := h.offline[image.PartitionID{Topic: topicID(1)}]; !offline {
		t.Fatal("the log was loaded")
	}
	h.apply(w.put(removeRecord(1), topicRecord("a", 2), partitionRecord(2, 0, 1, 1)))
	if d := cmp.Diff([]string{"a-0", "a-0-delete"}, dirsOf(t, dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	h.partition(t, 2, 0)
	if !h.held()[topicID(1)].held {
		t.Error("data of the deleted topic is there and not said to be held")
	}
	gone := []image.TopicID{topicID(1)}
	_, before := h.applied.watch()
	if !h.holdsAny(gone, before) {
		t.Error("a waiter is told that the data is gone")
	}
	for _, r := range h.logs.RemoveRenamed(t.Context()) {
		h.removed(r)
	}
	<-before
	if _, changed := h.applied.watch(); h.held()[topicID(1)].held || h.holdsAny(gone, changed) {
		t.Error("what is gone is said to be held")
	}
	h.delete(log.Replica{Name: log.Name{Topic: "a"}, TopicID: topicID(3)})
	if held := h.held()[topicID(3)]; held.held {
		t.Errorf("the directory of topic 2 counts as data of topic 3: %v", held)
	}
	h.partition(t, 2, 0)
}

// A failure of the disk in a running log ends the broker; a log that does not load at the start is offline by itself.
func TestDiskFailures(t *testing.T) {
	dir := t.TempDir()
	h, w := newHosting(t, dir), newWorld(t)
	h.start(t, w.put(brokerRecord(1, 0), topicRecord("a", 1), partitionRecord(1, 0, 1, 1), topicRecord("b", 2), partitionRecord(2, 0, 1, 1)))
	appendOne(t, h.partition(t, 1, 0), 1)
	if err := h.logs.Shutdown(5); err != nil {
		t.Fatal(err)
	}
	// A directory where the log's file should be.
	segment := filepath.Join(dir, "a-0", "00000000000000000000.log")
	if err := errors.Join(os.Remove(segment), os.Mkdir(segment, 0o755)); err != nil {
		t.Fatal(err)
	}
	h = newHosting(t, dir)
	h.start(t, w.im)
	if len(h.failures) != 0 {
		t.Errorf("the start failed: %q", h.failures)
	}
	if want := []image.PartitionID{{Topic: topicID(1)}}; !slices.Equal(h.disowned, want) {
		t.Errorf("disowned %v, want %v", h.disowned, want)
	}
	if _, err := h.get(image.PartitionID{Topic: topicID(1)}); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("offline partition: %v", err)
	}
	h.partition(t, 2, 0)
	if err := os.WriteFile(filepath.Join(dir, "c-0"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.apply(w.put(topicRecord("c", 3), partitionRecord(3, 0, 1, 1)))
	if len(h.failures) != 1 || !strings.Contains(h.failures[0], "c-0") {
		t.Errorf("failures: %q", h.failures)
	}
}
