package controller_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/invariant"
)

// decided is a decision without its type of response.
type decided struct {
	records []*metadatapb.Record
	atomic  bool
	err     error
}

// fuzzed is an API whose request is any bytes.
type fuzzed struct {
	name string
	// decide returns false if the bytes are no such request.
	decide func(controller.View, []byte) (decided, bool)
	// seeds are requests to begin with.
	seeds []proto.Message
	// repeats: the request is not recognised when it comes again.
	repeats bool
}

func fuzzedAPI[Q any, P interface {
	*Q
	proto.Message
}, R any](name string, decide func(controller.View, P) (controller.Decision[R], error), seeds ...P) fuzzed {
	f := fuzzed{name: name, decide: func(v controller.View, raw []byte) (decided, bool) {
		req := P(new(Q))
		if proto.Unmarshal(raw, req) != nil {
			return decided{}, false
		}
		d, err := decide(v, req)
		return decided{records: d.Records, atomic: d.Atomic, err: err}, true
	}}
	for _, s := range seeds {
		f.seeds = append(f.seeds, s)
	}
	return f
}

// fuzzHarness has brokers and partitions in every state that decisions look at, with or without eligible leader replicas.
func fuzzHarness(t fataler, elr bool) *harness {
	h := newHarness(t)
	h.defaults.MinInsyncReplicas = 2
	if !elr {
		h.defaults.EligibleLeaderReplicas, h.defaults.UncleanLeaderElection = 0, true
	}
	h.claim()
	for id := range int32(6) {
		h.startBroker(id, []string{"", "r1", "r2"}[id%3])
	}
	active := part(ids{0, 1, 2}, ids{0, 1, 2}, 0, 3, 5)
	h.place("healthy", active)
	shrunk := part(ids{1, 2, 3}, ids{1}, 1, 1, 2)
	if elr {
		shrunk = withELR(shrunk, ids{2, 3}, nil)
	}
	h.place("shrunk", shrunk)
	h.place("moving", moving(part(ids{4, 0, 1, 2}, ids{0, 1, 2}, 0, 1, 2), ids{4}, ids{2}, ids{0, 1, 2}))
	h.place("recovering", recovering(part(ids{0, 3}, ids{0}, 0, 1, 2)))
	h.place("alone", part(ids{5}, ids{5}, 5, 0, 0))
	h.place("handing-over", part(ids{4, 5, 0}, ids{4, 5, 0}, 4, 0, 0))
	h.place("dropped", part(ids{1, 2, 5}, ids{1, 2}, 1, 0, 0))
	for _, req := range []*controllerpb.BrokerHeartbeatRequest{{BrokerId: 4, WantShutDown: true}, {BrokerId: 5, WantFence: true}} {
		req.BrokerEpoch, req.MetadataOffset = int64(h.broker(req.BrokerId).Epoch), int64(h.image.Offset())
		d, err := controller.BrokerHeartbeat(h.view(), req)
		carryOut(h, d, err)
	}
	d, err := controller.DeleteTopics(h.view(), &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{TopicId: uuid("dropped").Bytes()}}})
	carryOut(h, d, err)
	return h
}

// fuzzedAPIs are all requests that come by gRPC, with seeds that fit the image.
func fuzzedAPIs(im *image.Image) []fuzzed {
	epoch := func(id int32) int64 { b, _ := im.Broker(image.BrokerID(id)); return int64(b.Epoch) }
	topic := func(name string) []byte { return uuid(name).Bytes() }
	text := func(s string) *string { return &s }
	number := func(n int32) *int32 { return &n }
	lost := registerRequest(5, "another", "dir-5")
	lost.JudgedOffset, lost.StopKind = int64(im.Offset()), metadatapb.StopKind_STOP_KIND_PROCESS_CRASH
	lost.LostReplicas = []*controllerpb.LostReplica{{TopicId: topic("alone"), Partitions: []int32{0}}}
	id := uuid("controller").Bytes()
	apis := []fuzzed{
		fuzzedAPI("RegisterBroker", controller.RegisterBroker, lost, registerRequest(0, "inc-0", "dir-0"), registerRequest(9, "inc-9", "dir-9")),
		fuzzedAPI("BrokerHeartbeat", controller.BrokerHeartbeat,
			&controllerpb.BrokerHeartbeatRequest{BrokerId: 0, BrokerEpoch: epoch(0), MetadataOffset: int64(im.Offset()), WantFence: true},
			&controllerpb.BrokerHeartbeatRequest{BrokerId: 4, BrokerEpoch: epoch(4), MetadataOffset: 9, WantShutDown: true},
			&controllerpb.BrokerHeartbeatRequest{BrokerId: 5, BrokerEpoch: epoch(5), MetadataOffset: int64(im.Offset())}),
		fuzzedAPI("LateHeartbeat", controller.LateHeartbeat, &controllerpb.BrokerHeartbeatRequest{BrokerId: 0, BrokerEpoch: epoch(0)}),
		fuzzedAPI("AlterPartition", controller.AlterPartition, &controllerpb.AlterPartitionRequest{BrokerId: 0, BrokerEpoch: epoch(0), Topics: []*controllerpb.AlterPartitionTopic{
			{TopicId: topic("healthy"), Partitions: []*controllerpb.AlterPartitionItem{{LeaderEpoch: 3, PartitionEpoch: 5, LeaderRecoveryState: 1, Isr: []*controllerpb.IsrMember{{BrokerId: 0}, {BrokerId: 1}}}}},
			{TopicId: topic("moving"), Partitions: []*controllerpb.AlterPartitionItem{{LeaderEpoch: 1, PartitionEpoch: 2, LeaderRecoveryState: 1, Isr: []*controllerpb.IsrMember{{BrokerId: 0}, {BrokerId: 1}, {BrokerId: 4}}}}},
			{TopicId: topic("recovering"), Partitions: []*controllerpb.AlterPartitionItem{{LeaderEpoch: 1, PartitionEpoch: 2, LeaderRecoveryState: 1, Isr: []*controllerpb.IsrMember{{BrokerId: 0}}}}},
		}}),
		fuzzedAPI("ReportDeletions", controller.ReportDeletions, &controllerpb.ReportDeletionsRequest{BrokerId: 1, BrokerEpoch: epoch(1), Deleted: [][]byte{topic("dropped")}},
			&controllerpb.ReportDeletionsRequest{BrokerId: 2, BrokerEpoch: epoch(2), Failed: []*controllerpb.FailedDeletion{{TopicId: topic("dropped"), Failure: "disk"}}}),
		fuzzedAPI("RegisterController", controller.RegisterController, &controllerpb.RegisterControllerRequest{ClusterId: testCluster, ControllerId: 1000, IncarnationId: id, DirectoryId: id,
			Listeners: []*metadatapb.Listener{{Name: "GRPC", Host: "h", Port: 1}}, Features: registerRequest(1, "a", "b").Features}),
		fuzzedAPI("CreateTopics", controller.CreateTopics, &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{
			{Name: "a.b", Partitions: number(3), ReplicationFactor: number(3), Configs: []*controllerpb.ConfigEntry{{Name: "retention.ms", Value: text("5")}}},
			{Name: "c", TopicId: id, Assignments: []*controllerpb.ReplicaAssignment{{BrokerIds: []int32{0, 5}}, {Partition: 1, BrokerIds: []int32{1, 0}}}}}}),
		fuzzedAPI("CreatePartitions", controller.CreatePartitions, &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{
			{Name: "healthy", Count: 4}, {Name: "moving", Count: 2, Assignments: []*metadatapb.BrokerIds{{Ids: []int32{1, 2, 3}}}}}}),
		fuzzedAPI("DeleteTopics", controller.DeleteTopics, &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{Name: text("healthy")}, {TopicId: topic("moving")}}}),
		fuzzedAPI("ElectLeaders", controller.ElectLeaders, &controllerpb.ElectLeadersRequest{Type: 1, AllPartitions: true},
			&controllerpb.ElectLeadersRequest{Type: 2, Partitions: []*controllerpb.ElectablePartition{{Topic: "alone"}, {Topic: "moving", Candidate: number(0)}}}),
		fuzzedAPI("AlterPartitionReassignments", controller.AlterPartitionReassignments, &controllerpb.AlterPartitionReassignmentsRequest{Partitions: []*controllerpb.ReassignablePartition{
			{Topic: "healthy", Replicas: &metadatapb.BrokerIds{Ids: []int32{3, 2, 1}}}, {Topic: "moving"}, {Topic: "shrunk", Replicas: &metadatapb.BrokerIds{Ids: []int32{1}}}}}),
		fuzzedAPI("AlterConfigs", controller.AlterConfigs, &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{
			{Type: 2, Name: "shrunk", Changes: []*controllerpb.ConfigChange{{Name: "min.insync.replicas", Operation: 1, Value: text("1")}}},
			{Type: 4, Changes: []*controllerpb.ConfigChange{{Name: "unclean.leader.election.enable", Operation: 1, Value: text("true")}, {Name: "retention.ms", Operation: 2}}},
			{Type: 4, Name: "1", Replace: true, Changes: []*controllerpb.ConfigChange{{Name: "leader.replication.throttled.rate", Operation: 1, Value: text("7")}}}}}),
		fuzzedAPI("UnregisterBroker", controller.UnregisterBroker, &controllerpb.UnregisterBrokerRequest{BrokerId: 0}),
		fuzzedAPI("UpdateFeatures", controller.UpdateFeatures,
			&controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{Name: image.FeatureEligibleLeaderReplicas, Type: 3}}},
			&controllerpb.UpdateFeaturesRequest{Updates: []*controllerpb.FeatureUpdate{{Name: image.FeatureMetadataVersion, Level: 1, Type: 1}}}),
		fuzzedAPI("ConfirmLineage", controller.ConfirmLineage, &controllerpb.ConfirmLineageRequest{}),
		fuzzedAPI("AllocateProducerIds", controller.AllocateProducerIds, &controllerpb.AllocateProducerIdsRequest{BrokerId: 1, BrokerEpoch: epoch(1)}),
	}
	apis[len(apis)-1].repeats = true
	return append(apis, fuzzedMembership()...)
}

// fuzzedMembership are the requests about the quorum, which also see who is in it.
func fuzzedMembership() []fuzzed {
	q := controller.Quorum{Active: 1001, Members: []controller.QuorumMember{
		{ID: 1001, DirectoryID: uuid("q1"), Address: "h:1", Voter: true, CaughtUp: true, Match: 9},
		{ID: 1002, DirectoryID: uuid("q2"), Address: "h:2", Voter: true, CaughtUp: true, Match: 9},
		{ID: 1003, DirectoryID: uuid("q3"), Address: "h:3", Voter: true},
		{ID: 1004, DirectoryID: uuid("q4"), Address: "h:4"},
	}}
	to := int32(1002)
	return []fuzzed{
		fuzzedAPI("AddController", func(v controller.View, req *controllerpb.AddControllerRequest) (controller.Decision[controller.QuorumMember], error) {
			return controller.AddController(v, q, req)
		}, &controllerpb.AddControllerRequest{ControllerId: 1005, DirectoryId: uuid("q5").Bytes(), RaftAddress: "h:5"}),
		fuzzedAPI("RemoveController", func(v controller.View, req *controllerpb.RemoveControllerRequest) (controller.Decision[controller.Removal], error) {
			return controller.RemoveController(v, q, req)
		}, &controllerpb.RemoveControllerRequest{ControllerId: 1003, DirectoryId: uuid("q3").Bytes()}, &controllerpb.RemoveControllerRequest{ControllerId: 1001, Force: true}),
		fuzzedAPI("TransferLeadership", func(v controller.View, req *controllerpb.TransferLeadershipRequest) (controller.Decision[controller.QuorumMember], error) {
			return controller.TransferLeadership(v, q, req)
		}, &controllerpb.TransferLeadershipRequest{ControllerId: &to}),
	}
}

// FuzzRequests gives any bytes to every decision that a request can reach: no panic, the records decode and replay, and
// every invariant holds after each of them. What is asked for again writes nothing.
func FuzzRequests(f *testing.F) {
	starts := map[bool]*harness{true: fuzzHarness(f, true), false: fuzzHarness(f, false)}
	apis := fuzzedAPIs(starts[true].image)
	for elr, start := range starts {
		for i, a := range fuzzedAPIs(start.image) {
			for _, s := range a.seeds {
				raw, err := proto.Marshal(s)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(byte(i), elr, raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which byte, elr bool, raw []byte) {
		a := apis[int(which)%len(apis)]
		h := *starts[elr]
		h.t = t
		d, ok := a.decide(h.view(), raw)
		if !ok {
			return
		}
		if d.err != nil {
			if _, coded := controllerpb.CodeOf(d.err); !coded || len(d.records) > 0 {
				t.Fatalf("%s is refused with %v and %d records", a.name, d.err, len(d.records))
			}
			return
		}
		h.writeEncoded(a.name, d)
		if err := invariant.Rest(h.image); err != nil && a.name != "AlterConfigs" { // ApplyConfigs follows it
			t.Fatalf("after %s: %v", a.name, err)
		}
		if again, _ := a.decide(h.view(), raw); len(again.records) > 0 && !a.repeats {
			t.Fatalf("%s again writes %s", a.name, recordLine(h.image, again.records[0]))
		}
	})
}

// writeEncoded writes what a decision wants, by way of the bytes that stand in the log.
func (h *harness) writeEncoded(name string, d decided) {
	h.t.Helper()
	var decoded []*metadatapb.Record
	for _, r := range d.records {
		raw, err := record.Encode(r)
		if err != nil {
			h.t.Fatalf("%s: a record does not encode: %v", name, err)
		}
		if len(raw) > h.limits.BytesMax {
			h.t.Fatalf("%s: a record of %d bytes is larger than an entry", name, len(raw))
		}
		got, err := record.Decode(raw)
		if err != nil {
			h.t.Fatalf("%s: a record does not decode: %v", name, err)
		}
		decoded = append(decoded, got)
	}
	if name != "AlterConfigs" {
		h.write(decoded)
		return
	}
	h.lenient = true // the ELR follows the configs in a decision of its own
	h.write(decoded)
	h.lenient = false
	applied, err := controller.ApplyConfigs(h.view(), controller.Concern{Everything: true})
	carryOut(h, applied, err)
}
