package controller_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// estimated is a request, what it is estimated at, and what it writes.
type estimated struct {
	name   string
	items  int
	about  ids
	extent controller.Extent
	wrote  int
}

func estimate[Q, R any](t *testing.T, h *harness, name string, items int, about ids, q Q,
	extent func(controller.View, Q) controller.Extent, decide func(controller.View, Q) (controller.Decision[R], error),
) estimated {
	t.Helper()
	d, err := decide(h.view(), q)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return estimated{name, items, about, extent(h.view(), q), len(d.Records)}
}

// estimates are requests to three brokers, each of which leads, or led, some of 40 + 30 + 20 partitions.
func estimates(t *testing.T, h *harness) []estimated {
	beat := func(id int32, fence bool) *controllerpb.BrokerHeartbeatRequest {
		return &controllerpb.BrokerHeartbeatRequest{BrokerId: id, BrokerEpoch: int64(h.broker(id).Epoch), MetadataOffset: int64(h.image.Offset()), WantFence: fence}
	}
	again, another := registerRequest(3, "inc-3", "dir-3"), registerRequest(3, "inc-33", "dir-3")
	another.JudgedOffset, another.StopKind = int64(h.image.Offset()), metadatapb.StopKind_STOP_KIND_MACHINE_CRASH
	off := &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{Name: image.FeatureEligibleLeaderReplicas, Type: 3}}}
	same := &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{Name: image.FeatureMetadataVersion, Level: image.MetadataVersion, Type: 1}}}
	all := func(t controllerpb.ElectionType) *controllerpb.ElectLeadersRequest {
		return &controllerpb.ElectLeadersRequest{Type: t, AllPartitions: true}
	}
	event := func(decide func(controller.View) (controller.Decision[controller.Done], error)) func(controller.View, bool) (controller.Decision[controller.Done], error) {
		return func(v controller.View, _ bool) (controller.Decision[controller.Done], error) { return decide(v) }
	}
	plain := func(extent func(controller.View) controller.Extent) func(controller.View, bool) controller.Extent {
		return func(v controller.View, _ bool) controller.Extent { return extent(v) }
	}
	name, count := "healthy", int32(77)
	return []estimated{
		estimate(t, h, "a beat that stays", 0, nil, beat(1, false), controller.BrokerHeartbeatExtent, controller.BrokerHeartbeat),
		estimate(t, h, "a beat that leaves", 70, ids{1}, beat(1, true), controller.BrokerHeartbeatExtent, controller.BrokerHeartbeat),
		estimate(t, h, "a beat that is unfenced", 20, ids{3}, beat(3, false), controller.BrokerHeartbeatExtent, controller.BrokerHeartbeat),
		estimate(t, h, "a beat that stays fenced", 0, nil, beat(3, true), controller.BrokerHeartbeatExtent, controller.BrokerHeartbeat),
		estimate(t, h, "the same registration", 0, nil, again, controller.RegisterBrokerExtent, controller.RegisterBroker),
		estimate(t, h, "another incarnation", 20, ids{3}, another, controller.RegisterBrokerExtent, controller.RegisterBroker),
		estimate(t, h, "unregister", 70+30, ids{2}, &controllerpb.UnregisterBrokerRequest{BrokerId: 2}, controller.UnregisterBrokerExtent, controller.UnregisterBroker),
		estimate(t, h, "ELR off", 20+30+20, nil, off, controller.UpdateFeaturesExtent, controller.UpdateFeatures),
		estimate(t, h, "another feature", 0, nil, same, controller.UpdateFeaturesExtent, controller.UpdateFeatures),
		estimate(t, h, "activate", 20+30+20, nil, false, plain(controller.ActivateExtent), event(controller.Activate)),
		estimate(t, h, "preferred, all", 30+20, nil, all(1), controller.ElectLeadersExtent, controller.ElectLeaders),
		estimate(t, h, "unclean, all", 20, nil, all(2), controller.ElectLeadersExtent, controller.ElectLeaders),
		estimate(t, h, "delete", 1+40, nil, &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{Name: &name}}}, controller.DeleteTopicsExtent, controller.DeleteTopics),
		estimate(t, h, "create", 1+77, nil, &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "new", Partitions: &count}}}, controller.CreateTopicsExtent, controller.CreateTopics),
		estimate(t, h, "grow", 37, nil, &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{Name: name, Count: count}}}, controller.CreatePartitionsExtent, controller.CreatePartitions),
	}
}

// How large a decision becomes is known from counters, and about whom it is. Nothing is written that was not counted, but for
// the record of the broker or of the feature itself.
func TestExtents(t *testing.T) {
	h := newHarness(t)
	h.lenient = true
	h.claim()
	for id := range int32(3) {
		h.startBroker(id+1, "")
	}
	fence := &controllerpb.BrokerHeartbeatRequest{BrokerId: 3, BrokerEpoch: int64(h.broker(3).Epoch), MetadataOffset: int64(h.image.Offset()), WantFence: true}
	d, err := controller.BrokerHeartbeat(h.view(), fence)
	carryOut(h, d, err)
	one, two := int32(1), int32(2)
	h.fill("healthy", 40, &metadatapb.Partition{Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: &one})
	h.fill("moved", 30, &metadatapb.Partition{Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Elr: []int32{2}, Leader: &two})
	h.fill("dark", 20, &metadatapb.Partition{Replicas: []int32{3}, Elr: []int32{3}})
	for _, e := range estimates(t, h) {
		if e.extent.Items != e.items || !slices.Equal(e.extent.Brokers, e.about) {
			t.Errorf("%s is estimated at %+v, want %d about %v", e.name, e.extent, e.items, e.about)
		}
		if e.wrote > e.items+1 {
			t.Errorf("%s writes %d records and is estimated at %d", e.name, e.wrote, e.items)
		}
	}
}

// fill adds a topic with partitions all alike.
func (h *harness) fill(name string, partitions int, p *metadatapb.Partition) {
	h.t.Helper()
	id := uuid(name)
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id[:]}}}}
	for i := range partitions {
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
			TopicId: id[:], Partition: int32(i), Replicas: p.Replicas, Isr: p.Isr, Elr: p.Elr, Leader: p.Leader,
		}}})
	}
	next, err := replay(h.image, records...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.image = next
}

// Brokers whose sessions end together may be fenced in several decisions, each broker whole, in the order of their silence.
// The image is that of a single decision in the end, every invariant holds after each record, and none of them is made leader
// while another broker can be.
func TestFencingInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newHistory(t)
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			x.step()
		}
		heard := rapid.IntRange(-1, historyBrokers-1).Draw(t, "heard")
		for range 95 {
			x.h.now = x.h.now.Add(100 * time.Millisecond)
			x.h.liveness, _ = x.h.liveness.Tick(x.h.now, x.h.limits.HeartbeatInterval)
			if b, ok := x.h.image.Broker(image.BrokerID(heard)); ok {
				x.h.liveness = x.h.liveness.Heard(b.ID, x.h.now, x.h.image.Offset(), 0)
			}
		}
		whole := *x.h
		d, err := controller.FenceStaleBrokers(whole.view())
		x.note("at once", carryOut(&whole, d, err))
		max := rapid.IntRange(0, 10).Draw(t, "memberships")
		for parts := 0; controller.HasStale(x.h.view()); parts++ {
			if parts == historyBrokers {
				x.Fatalf("still stale after %d decisions", parts)
			}
			d := controller.FenceStaleUpTo(x.h.view(), max)
			x.note("in parts", carryOut(x.h, d, nil))
			checkPart(x, d.Records, max)
		}
		if x.h.image.Fingerprint() != whole.image.Fingerprint() || x.h.image.Offset() != whole.image.Offset() {
			x.Fatalf("in parts: offset %d, %v; at once: offset %d, %v", x.h.image.Offset(), x.h.image, whole.image.Offset(), whole.image)
		}
	})
}

// checkPart: a part ends with the record of a broker, and fences more than one only if the bound has room for it.
func checkPart(x *history, records []*metadatapb.Record, max int) {
	fenced := 0
	for _, r := range records {
		if r.GetBrokerRegistrationChange() != nil {
			fenced++
		}
	}
	if len(records) == 0 || records[len(records)-1].GetBrokerRegistrationChange() == nil {
		x.Fatalf("a part of %d records does not end with that of a broker", len(records))
	}
	if changes := len(records) - fenced; fenced > 1 && max == 0 && changes > 0 {
		x.Fatalf("a part fences %d brokers with %d changes, which is above the bound", fenced, changes)
	}
}
