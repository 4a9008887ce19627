package broker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
)

// world is metadata in the making.
type world struct {
	t  testing.TB
	im *image.Image
}

func newWorld(t testing.TB) *world { return &world{t: t, im: image.Empty()} }

// put replays records and returns the image after them.
func (w *world) put(records ...*metadatapb.Record) *image.Image {
	w.t.Helper()
	d, at := w.im.Fork(), w.im.Offset()
	for _, r := range records {
		at++
		if err := d.Replay(at, r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.im = d.Seal(at, image.Chain(at+1))
	return w.im
}

func topicID(n byte) image.TopicID { return image.UUID{0: 0xaa, 15: n} }

func topicRecord(name string, n byte) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: topicID(n).Bytes()}}}
}

// partitionRecord is a partition of topic n with the ISR being all replicas; leader -1 for none.
func partitionRecord(n byte, partition, leader int32, replicas ...int32) *metadatapb.Record {
	p := &metadatapb.Partition{
		TopicId: topicID(n).Bytes(), Partition: partition, Replicas: replicas, Isr: replicas,
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
	}
	if leader >= 0 {
		p.Leader = &leader
	}
	return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: p}}
}

func leaderRecord(n byte, partition, leader int32, isr ...int32) *metadatapb.Record {
	c := &metadatapb.PartitionChange{TopicId: topicID(n).Bytes(), Partition: partition, Leader: &metadatapb.LeaderChange{}, Isr: &metadatapb.BrokerIds{Ids: isr}}
	if leader >= 0 {
		c.Leader.Leader = &leader
	}
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

func removeRecord(n byte) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(n).Bytes()}}}
}

func brokerRecord(id int32, epoch int64) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
		BrokerId: id, BrokerEpoch: epoch, RegistrationOffset: epoch,
		IncarnationId: image.UUID{1: byte(id)}.Bytes(), DirectoryId: image.UUID{2: byte(id)}.Bytes(),
		Listeners: []*metadatapb.Listener{{Name: "GRPC", Host: "b" + fmt.Sprint(id), Port: 9}},
	}}}
}

// fakeFetches notes what the manager orders.
type fakeFetches struct{ orders []string }

func (f *fakeFetches) remove(ids []image.PartitionID) {
	for _, id := range ids {
		f.orders = append(f.orders, fmt.Sprintf("remove %d/%d", id.Topic[15], id.Partition))
	}
}

func (f *fakeFetches) add(orders []fetchOrder) {
	for _, o := range orders {
		f.orders = append(f.orders, fmt.Sprintf("add %d/%d from %v at %s epoch %d", o.replica.id.Topic[15], o.replica.id.Partition, o.leader, o.address, o.epoch))
	}
}

func (f *fakeFetches) taken() []string {
	o := f.orders
	f.orders = nil
	return o
}

// hosting is a replica manager of broker 1 with real logs.
type hosting struct {
	*replicas
	fetched   *fakeFetches
	submitMu  sync.Mutex
	submitted []alterpartition.Item
	failures  []string
	disowned  []image.PartitionID
	dir       string
}

func newHosting(t *testing.T, dir string) *hosting {
	t.Helper()
	e := env.OS("")
	h := &hosting{fetched: &fakeFetches{}, dir: dir}
	logger := slog.New(slog.DiscardHandler)
	h.replicas = &replicas{
		self: 1, base: log.DefaultLogConfig(), kept: newKeptOffset(e, dir, logger), used: newUsedLogs(e, dir, image.UUID{7}, logger), applied: newImageCell(),
		metrics: newMetrics(), log: logger, deletions: newDeletions(), fetches: h.fetched, at: e.At,
		fail:   func(what string, err error) { h.failures = append(h.failures, what+": "+err.Error()) },
		hosted: make(map[image.PartitionID]*hostedReplica), offline: make(map[image.PartitionID]error),
	}
	h.disown = func(_ context.Context, damaged map[image.PartitionID]bool) error {
		for id := range damaged {
			h.disowned = append(h.disowned, id)
		}
		return nil
	}
	h.taken.Store(image.Empty())
	cfg := log.DefaultConfig(dir)
	cfg.OnRemoved = h.removed
	logs, err := log.NewManager(e, logger, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.logs = logs
	h.deps = &replicaDeps{
		self: 1, lagTimeMax: 30 * time.Second, epoch: func() image.BrokerEpoch { return 5 },
		brokers: h.applied.image, now: e.Now,
		submit:  h.submit,
		changed: func(image.PartitionID) {}, appended: func(image.PartitionID) {},
		metrics: h.metrics, slog: logger,
	}
	if _, err := logs.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hosting) submit(i alterpartition.Item) error {
	h.submitMu.Lock()
	defer h.submitMu.Unlock()
	h.submitted = append(h.submitted, i)
	return nil
}

// proposals is how many changes of an ISR were handed over.
func (h *hosting) proposals() int {
	h.submitMu.Lock()
	defer h.submitMu.Unlock()
	return len(h.submitted)
}

func (h *hosting) start(t *testing.T, im *image.Image) {
	t.Helper()
	if err := h.begin(t.Context(), im); err != nil {
		t.Fatal(err)
	}
}

// dirsOf lists the partitions' directories, renamed ones without their number.
func dirsOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		name := e.Name()
		if base, rest, ok := strings.Cut(name, "."); ok {
			name = base + rest[strings.LastIndex(rest, "-"):]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (h *hosting) partition(t *testing.T, n byte, partition int32) *hostedReplica {
	t.Helper()
	r, err := h.get(image.PartitionID{Topic: topicID(n), Partition: partition})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func appendOne(t *testing.T, r *hostedReplica, acks int16) kafka.AppendResult {
	t.Helper()
	a, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), acks)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
