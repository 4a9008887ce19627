package controller_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/invariant"
)

// TestDecisionsFromRandomImages: from an image that no history led to, but that keeps every invariant, each decision's
// records replay and keep them too; and so on for a few steps.
func TestDecisionsFromRandomImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newHistory(t)
		for b := range int32(historyBrokers) {
			x.brokerState(b)
		}
		for range rapid.IntRange(1, 6).Draw(t, "partitions") {
			x.placing()
		}
		if rapid.Bool().Draw(t, "moving") {
			x.reassigning()
		}
		if err := invariant.Rest(x.h.image); err != nil {
			x.Fatalf("the drawn image: %v", err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			x.step()
		}
	})
}

// brokerState takes a broker that has no partitions yet into a drawn state.
func (x *history) brokerState(id int32) {
	b := x.h.broker(id)
	c := &metadatapb.BrokerRegistrationChange{BrokerId: id, BrokerEpoch: int64(b.Epoch), StateSinceMs: 1}
	yes := true
	switch rapid.IntRange(0, 5).Draw(x.T, "state") {
	case 0, 1:
		c.Fenced = &yes
	case 2:
		c.InControlledShutdown = &yes
	default:
		return
	}
	x.h.write([]*metadatapb.Record{{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: c}}})
	x.note(fmt.Sprintf("broker %d", id), c.String())
}

// placing adds a partition in some state that keeps the invariants: led or not, with eligible replicas or a last known
// leader, recovering.
func (x *history) placing() {
	replicas := rapid.Permutation(ids{0, 1, 2, 3}).Draw(x.T, "replicas")[:rapid.IntRange(1, 4).Draw(x.T, "factor")]
	var active, inactive ids
	for _, id := range replicas {
		if b, ok := x.h.image.Broker(id); ok && b.IsActive() {
			active = append(active, id)
		} else {
			inactive = append(inactive, id)
		}
	}
	elr := x.h.image.Feature(image.FeatureEligibleLeaderReplicas) > 0
	p := part(replicas, nil, none, image.LeaderEpoch(rapid.IntRange(0, 3).Draw(x.T, "le")), image.PartitionEpoch(rapid.IntRange(3, 9).Draw(x.T, "pe")))
	switch {
	case len(active) > 0 && rapid.IntRange(0, 3).Draw(x.T, "led") > 0:
		p.ISR = rapid.Permutation(active).Draw(x.T, "isr")[:rapid.IntRange(1, len(active)).Draw(x.T, "in sync")]
		p.Leader = rapid.SampledFrom(p.ISR).Draw(x.T, "leader")
		p.Recovering = len(p.ISR) == 1 && rapid.IntRange(0, 3).Draw(x.T, "recovering") == 0
		if elr && !p.Recovering && len(p.ISR) < x.h.image.MinInsyncReplicas("", len(replicas)) {
			p.ELR = x.some(image.Without(replicas, p.ISR...), "elr")
		}
	case elr:
		p.ELR = x.some(inactive, "elr")
		if len(inactive) > 0 && rapid.Bool().Draw(x.T, "known") {
			p.LastKnownELR = ids{rapid.SampledFrom(inactive).Draw(x.T, "last known")}
		}
	case len(inactive) > 0:
		p.ISR = ids{rapid.SampledFrom(inactive).Draw(x.T, "last member")}
	default:
		return
	}
	x.topics++
	x.h.place(fmt.Sprintf("t%d", x.topics), p)
	x.note(fmt.Sprintf("place %v", p), "")
}

func (x *history) some(from ids, label string) ids {
	if len(from) == 0 {
		return nil
	}
	list := slices.Clone(rapid.Permutation(from).Draw(x.T, label)[:rapid.IntRange(0, len(from)).Draw(x.T, label+" n")])
	slices.Sort(list)
	return list
}

// grow adds partitions to a topic; asked for again the count is there.
func (x *history) grow() {
	t, ok := x.anyTopic()
	if !ok || x.h.cut >= 0 {
		return
	}
	req := &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{
		Name: t.Name(), Count: int32(t.Len()) + rapid.Int32Range(-1, 2).Draw(x.T, "more"),
	}}}
	d, err := controller.CreatePartitions(x.h.view(), req)
	x.note(fmt.Sprintf("grow %v", req), carryOut(x.h, d, err))
	if again, _ := controller.CreatePartitions(x.h.view(), req); len(again.Records) > 0 {
		x.Fatalf("the same growth again writes %d records", len(again.Records))
	}
}

// updateFeatures turns eligible leader replicas on or off, which may be cut too.
func (x *history) updateFeatures() {
	req := &controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{
		Name: image.FeatureEligibleLeaderReplicas, Level: rapid.Int32Range(0, 1).Draw(x.T, "level"),
		Type: controllerpb.FeatureUpdateType(rapid.Int32Range(1, 3).Draw(x.T, "kind")),
	}}}
	cut := x.h.cut >= 0
	d, err := controller.UpdateFeatures(x.h.view(), req)
	x.note(fmt.Sprintf("update features %v", req), carryOut(x.h, d, err))
	if again, _ := controller.UpdateFeatures(x.h.view(), req); !cut && len(again.Records) > 0 {
		x.Fatalf("the same update again writes %d records", len(again.Records))
	}
}

// producerIDs takes a block, which begins where the last one ended.
func (x *history) producerIDs() {
	b := x.anyBroker()
	next := x.h.image.NextProducerID()
	d, err := controller.AllocateProducerIds(x.h.view(), &controllerpb.AllocateProducerIdsRequest{BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch)})
	x.note("producer ids", carryOut(x.h, d, err))
	if err != nil || d.Response.FirstProducerId != next {
		x.Fatalf("the block is %v (%v), want it to begin with %d", d.Response, err, next)
	}
}

// registerController tells of a controller, which is written once.
func (x *history) registerController() {
	id := uuid(fmt.Sprintf("controller-%d", rapid.IntRange(0, 1).Draw(x.T, "life"))).Bytes()
	req := &controllerpb.RegisterControllerRequest{
		ClusterId: testCluster, ControllerId: 1000 + rapid.Int32Range(0, 1).Draw(x.T, "controller"), IncarnationId: id, DirectoryId: id,
		Listeners: []*metadatapb.Listener{{Name: "GRPC", Host: "localhost", Port: 1}}, Features: registerRequest(1, "a", "b").Features,
	}
	cut := x.h.cut >= 0
	d, err := controller.RegisterController(x.h.view(), req)
	x.note(fmt.Sprintf("register controller %d", req.ControllerId), carryOut(x.h, d, err))
	if again, _ := controller.RegisterController(x.h.view(), req); !cut && len(again.Records) > 0 {
		x.Fatalf("the same registration again writes %d records", len(again.Records))
	}
}

// lateHeartbeat is one that waited too long: it changes no state.
func (x *history) lateHeartbeat() {
	b := x.anyBroker()
	d, err := controller.LateHeartbeat(x.h.view(), &controllerpb.BrokerHeartbeatRequest{
		BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), MetadataOffset: int64(x.h.image.Offset()),
		WantShutDown: rapid.Bool().Draw(x.T, "shutdown"), WantFence: rapid.Bool().Draw(x.T, "fence"),
	})
	x.note("late heartbeat", carryOut(x.h, d, err))
	if len(d.Records) > 0 {
		x.Fatalf("a late heartbeat writes %d records", len(d.Records))
	}
}
