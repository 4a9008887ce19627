package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// history draws requests that may come, in any order, to an active controller; brokers crash, lose logs and come back,
// controllers end in the middle of a decision.
type history struct {
	*rapid.T
	h      *harness
	topics int
	lives  int
	log    []string
}

const historyBrokers = 4

// TestHistoriesKeepInvariants: after every record of every decision of a random history each invariant holds, also if
// the active controller ends between any two records. What can be repeated writes nothing the second time.
func TestHistoriesKeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newHistory(t)
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			x.step()
		}
	})
}

func newHistory(t *rapid.T) *history {
	x := &history{T: t}
	x.h = newHarness(x)
	x.h.defaults.MinInsyncReplicas = rapid.IntRange(1, 3).Draw(t, "min.insync.replicas")
	x.h.defaults.EligibleLeaderReplicas = rapid.Int32Range(0, 1).Draw(t, "elr")
	x.h.defaults.UncleanLeaderElection = rapid.IntRange(0, 3).Draw(t, "unclean") == 0
	x.note("claim", x.h.claim())
	for id := range int32(historyBrokers) {
		x.h.startBroker(id, "")
	}
	return x
}

func (x *history) Fatalf(format string, args ...any) {
	x.T.Helper()
	for _, l := range x.log {
		x.T.Log(l)
	}
	x.T.Fatalf(format, args...)
}

func (x *history) note(what, out string) { x.log = append(x.log, what+"\n"+out) }

func (x *history) step() {
	cut := rapid.IntRange(0, 9).Draw(x.T, "cut") == 0
	if cut {
		x.h.cut = rapid.IntRange(0, 4).Draw(x.T, "records written")
	}
	steps := []func(){x.heartbeat, x.heartbeat, x.heartbeat, x.register, x.alterPartition, x.alterPartition, x.create, x.delete, x.report, x.wait, x.reassigning, x.move, x.move, x.elect, x.unregister, x.configure,
		x.placing, x.grow, x.producerIDs, x.registerController, x.lateHeartbeat, x.updateFeatures}
	steps[rapid.IntRange(0, len(steps)-1).Draw(x.T, "step")]()
	if cut {
		x.h.cut = -1
		x.note("claim", x.h.claim())
	}
}

func (x *history) anyBroker() image.Broker {
	return x.h.broker(rapid.Int32Range(0, historyBrokers-1).Draw(x.T, "broker"))
}

func (x *history) heartbeat() {
	b := x.anyBroker()
	req := &controllerpb.BrokerHeartbeatRequest{
		BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), MetadataOffset: int64(x.h.image.Offset()),
		WantFence: rapid.IntRange(0, 3).Draw(x.T, "fence") == 0, WantShutDown: rapid.IntRange(0, 5).Draw(x.T, "shutdown") == 0,
	}
	d, err := controller.BrokerHeartbeat(x.h.view(), req)
	x.note(fmt.Sprintf("heartbeat %v", req), carryOut(x.h, d, err))
}

// register begins another life of a broker, after its session if it has one.
func (x *history) register() {
	b := x.anyBroker()
	if !b.Fenced && rapid.Bool().Draw(x.T, "session over") {
		for range 95 {
			x.h.now = x.h.now.Add(100 * time.Millisecond)
			x.h.liveness, _ = x.h.liveness.Tick(x.h.now, x.h.limits.HeartbeatInterval)
			for other := range x.h.image.Brokers() {
				if other.ID != b.ID && !other.Fenced {
					x.h.liveness = x.h.liveness.Heard(other.ID, x.h.now, x.h.image.Offset(), 0)
				}
			}
		}
	}
	x.lives++
	directory := fmt.Sprintf("dir-%v", b.ID)
	if rapid.IntRange(0, 4).Draw(x.T, "directory") == 0 {
		directory = fmt.Sprintf("dir-%v-%d", b.ID, x.lives)
	}
	req := registerRequest(int32(b.ID), fmt.Sprintf("life-%d", x.lives), directory)
	req.StopKind = metadatapb.StopKind(rapid.Int32Range(0, 4).Draw(x.T, "stop"))
	req.JudgedOffset = int64(x.h.image.Offset())
	epoch := int64(b.Epoch)
	req.PreviousBrokerEpoch = &epoch
	for id, p := range x.h.image.PartitionsOn(b.ID) {
		if rapid.IntRange(0, 3).Draw(x.T, "lost") == 0 && (image.Contains(p.ISR, b.ID) || image.Contains(p.ELR, b.ID) || image.Contains(p.LastKnownELR, b.ID)) {
			req.LostReplicas = append(req.LostReplicas, &controllerpb.LostReplica{TopicId: id.Topic.Bytes(), Partitions: []int32{id.Partition}})
		}
	}
	cut := x.h.cut >= 0
	d, err := controller.RegisterBroker(x.h.view(), req)
	x.note(fmt.Sprintf("register %v", req), carryOut(x.h, d, err))
	if again, err := controller.RegisterBroker(x.h.view(), req); !cut && err == nil && len(again.Records) > 0 {
		x.Fatalf("the same registration again writes %d records", len(again.Records))
	}
	if err == nil && !cut {
		x.noneOfLost(b.ID, req)
		x.amend(b.ID, req)
	}
}

// amend names as lost, in the same life and while it is fenced, what loading the logs showed to be.
func (x *history) amend(b image.BrokerID, req *controllerpb.RegisterBrokerRequest) {
	req.LostReplicas, req.JudgedOffset = nil, int64(x.h.image.Offset())
	for id, p := range x.h.image.PartitionsOn(b) {
		if image.Contains(slices.Concat(p.ISR, p.ELR, p.LastKnownELR), b) && rapid.IntRange(0, 3).Draw(x.T, "damaged") == 0 {
			req.LostReplicas = append(req.LostReplicas, &controllerpb.LostReplica{TopicId: id.Topic.Bytes(), Partitions: []int32{id.Partition}})
		}
	}
	before, _ := x.h.image.Broker(b)
	d, err := controller.RegisterBroker(x.h.view(), req)
	x.note(fmt.Sprintf("amend %v", req), carryOut(x.h, d, err))
	if err != nil {
		x.Fatalf("amended while fenced: %v", err)
	}
	if after, _ := x.h.image.Broker(b); after.Epoch != before.Epoch || !after.Fenced {
		x.Fatalf("amended %+v to %+v", before, after)
	}
	x.noneOfLost(b, req)
}

// noneOfLost: what is lost is in no list that a leader may come from cleanly.
func (x *history) noneOfLost(b image.BrokerID, req *controllerpb.RegisterBrokerRequest) {
	for _, l := range req.LostReplicas {
		id, _ := image.UUIDFrom(l.TopicId)
		p, _ := x.h.image.Partition(image.PartitionID{Topic: id, Partition: l.Partitions[0]})
		if image.Contains(p.ISR, b) || image.Contains(p.ELR, b) || image.Contains(p.LastKnownELR, b) {
			x.Fatalf("broker %v lost its log of %v and is still in %v", b, id, p)
		}
	}
}

// alterPartition proposes some set of members for some partitions of one leader.
func (x *history) alterPartition() {
	b := x.anyBroker()
	req := &controllerpb.AlterPartitionRequest{BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch)}
	for t := range x.h.image.Topics() {
		topic := &controllerpb.AlterPartitionTopic{TopicId: t.ID().Bytes()}
		for i, p := range t.Partitions() {
			if rapid.Bool().Draw(x.T, "partition") {
				topic.Partitions = append(topic.Partitions, x.item(i, p))
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	cut := x.h.cut >= 0
	d, err := controller.AlterPartition(x.h.view(), req)
	x.note(fmt.Sprintf("alter %v", req), carryOut(x.h, d, err))
	if again, err := controller.AlterPartition(x.h.view(), req); !cut && err == nil && len(again.Records) > 0 {
		x.Fatalf("the same AlterPartition again writes %d records", len(again.Records))
	}
	if err != nil || cut {
		return
	}
	for _, t := range d.Response.Topics {
		id, _ := image.UUIDFrom(t.TopicId)
		for _, r := range t.Partitions {
			p, _ := x.h.image.Partition(image.PartitionID{Topic: id, Partition: r.Partition})
			if r.Error == nil && (int32(p.PartitionEpoch) != r.PartitionEpoch || !slices.Equal(image.Int32s(p.ISR), r.Isr) || int32(p.LeaderEpoch) != r.LeaderEpoch) {
				x.Fatalf("answered %v, the image has %v", r, p)
			}
		}
	}
}

func (x *history) item(i int32, p image.Partition) *controllerpb.AlterPartitionItem {
	item := &controllerpb.AlterPartitionItem{
		Partition: i, LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
	}
	if rapid.IntRange(0, 9).Draw(x.T, "epoch") == 0 {
		item.PartitionEpoch += rapid.Int32Range(-1, 1).Draw(x.T, "off by")
	}
	if p.Recovering && rapid.Bool().Draw(x.T, "still recovering") {
		item.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	}
	members := rapid.Permutation(p.Replicas).Draw(x.T, "members")
	n := rapid.IntRange(1, len(members)).Draw(x.T, "size")
	for _, id := range members[:n] {
		item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: int32(id)})
	}
	if p.Leader != image.NoBroker && !slices.Contains(members[:n], p.Leader) {
		item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: int32(p.Leader)})
	}
	return item
}

func (x *history) create() {
	x.topics++
	id := uuid(fmt.Sprintf("topic-%d", x.topics))
	partitions, factor := rapid.Int32Range(1, 3).Draw(x.T, "partitions"), rapid.Int32Range(1, historyBrokers).Draw(x.T, "factor")
	req := &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
		Name: fmt.Sprintf("t%d", x.topics), TopicId: id[:], Partitions: &partitions, ReplicationFactor: &factor,
	}}}
	cut := x.h.cut >= 0
	if cut {
		x.h.cut = -1 // atomic: all or nothing
		return
	}
	d, err := controller.CreateTopics(x.h.view(), req)
	x.note(fmt.Sprintf("create %v", req), carryOut(x.h, d, err))
	again, err := controller.CreateTopics(x.h.view(), req)
	if err != nil || len(again.Records) > 0 {
		x.Fatalf("the same creation again: %v, %d records", err, len(again.Records))
	}
	if d.Response.Topics[0].Error == nil && !proto.Equal(again.Response.Topics[0], d.Response.Topics[0]) {
		x.Fatalf("the same creation again is answered %v, before %v", again.Response.Topics[0], d.Response.Topics[0])
	}
}

func (x *history) anyTopic() (image.Topic, bool) {
	var topics []image.Topic
	for t := range x.h.image.Topics() {
		topics = append(topics, t)
	}
	if len(topics) == 0 {
		return image.Topic{}, false
	}
	return topics[rapid.IntRange(0, len(topics)-1).Draw(x.T, "topic")], true
}

func (x *history) delete() {
	t, ok := x.anyTopic()
	if !ok || x.h.cut >= 0 {
		return
	}
	d, err := controller.DeleteTopics(x.h.view(), &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{TopicId: t.ID().Bytes()}}})
	x.note("delete "+t.Name(), carryOut(x.h, d, err))
}

func (x *history) report() {
	b := x.anyBroker()
	req := &controllerpb.ReportDeletionsRequest{BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch)}
	for p := range x.h.image.PendingDeletions() { // those that do not wait for the broker are reported all the same
		if rapid.Bool().Draw(x.T, "deleted") {
			req.Deleted = append(req.Deleted, p.TopicID.Bytes())
		} else {
			req.Failed = append(req.Failed, &controllerpb.FailedDeletion{TopicId: p.TopicID.Bytes(), Failure: "disk"})
		}
	}
	cut := x.h.cut >= 0
	d, err := controller.ReportDeletions(x.h.view(), req)
	x.note(fmt.Sprintf("report %v", req), carryOut(x.h, d, err))
	if again, err := controller.ReportDeletions(x.h.view(), req); !cut && (err != nil || len(again.Records) > 0) {
		x.Fatalf("the same report again: %v, %d records", err, len(again.Records))
	}
}

// wait lets some sessions end; the fences of all stale brokers are one decision.
func (x *history) wait() {
	var heard []image.BrokerID
	for b := range x.h.image.Brokers() {
		if rapid.Bool().Draw(x.T, "heard") {
			heard = append(heard, b.ID)
		}
	}
	for range 95 {
		x.h.now = x.h.now.Add(100 * time.Millisecond)
		x.h.liveness, _ = x.h.liveness.Tick(x.h.now, x.h.limits.HeartbeatInterval)
	}
	for _, id := range heard {
		x.h.liveness = x.h.liveness.Heard(id, x.h.now, x.h.image.Offset(), 0)
	}
	cut := x.h.cut >= 0
	d, err := controller.FenceStaleBrokers(x.h.view())
	x.note(fmt.Sprintf("sessions end, heard %v", heard), carryOut(x.h, d, err))
	if !cut && controller.HasStale(x.h.view()) {
		x.Fatalf("still stale after fencing")
	}
}

// reassigning places a partition in the middle of a reassignment.
func (x *history) reassigning() {
	var active ids
	for b := range x.h.image.Brokers() {
		if b.IsActive() {
			active = append(active, b.ID)
		}
	}
	if len(active) == 0 {
		return
	}
	replicas := rapid.Permutation(ids{0, 1, 2, 3}).Draw(x.T, "replicas")[:rapid.IntRange(2, 4).Draw(x.T, "factor")]
	members := image.Intersect(replicas, active)
	if len(members) == 0 {
		return
	}
	members = members[:rapid.IntRange(1, len(members)).Draw(x.T, "in sync")]
	n := rapid.IntRange(1, len(replicas)).Draw(x.T, "moving")
	adding := rapid.IntRange(0, n).Draw(x.T, "adding")
	p := part(replicas, members, members[0], 0, 0)
	p.AddingReplicas, p.RemovingReplicas = replicas[:adding], replicas[adding:n]
	if adding == len(replicas) || len(p.RemovingReplicas) == len(replicas) || image.ContainsAll(members, image.Without(replicas, p.RemovingReplicas...)) {
		return // there is nothing to move to, or it is finished
	}
	p.OriginalReplicas = image.Without(replicas, p.AddingReplicas...)
	x.topics++
	x.h.place(fmt.Sprintf("t%d", x.topics), p)
	x.note(fmt.Sprintf("place %v", p), "")
}

// move starts, re-targets or cancels the reassignment of some partition.
func (x *history) move() {
	t, ok := x.anyTopic()
	if !ok || x.h.cut >= 0 {
		return
	}
	partition := rapid.Int32Range(0, int32(t.Len())-1).Draw(x.T, "partition")
	req := &controllerpb.AlterPartitionReassignmentsRequest{Partitions: []*controllerpb.ReassignablePartition{{Topic: t.Name(), Partition: partition}}}
	target := image.Int32s(rapid.Permutation(ids{0, 1, 2, 3}).Draw(x.T, "target")[:rapid.IntRange(1, 4).Draw(x.T, "factor")])
	cancel := rapid.IntRange(0, 2).Draw(x.T, "cancel") == 0
	if !cancel {
		req.Partitions[0].Replicas = &metadatapb.BrokerIds{Ids: target}
	}
	before, _ := t.Partition(partition)
	d, err := controller.AlterPartitionReassignments(x.h.view(), req)
	x.note(fmt.Sprintf("move %s-%d to %v", t.Name(), partition, req.Partitions[0].Replicas), carryOut(x.h, d, err))
	after, _ := x.h.image.Partition(image.PartitionID{Topic: t.ID(), Partition: partition})
	if d.Response.Results[0].Error == nil && cancel && !image.Equal(after.Replicas, before.OriginalReplicas) {
		x.Fatalf("cancelled %v, the replicas are %v", before, after)
	}
	if again, _ := controller.AlterPartitionReassignments(x.h.view(), req); len(again.Records) > 0 {
		x.Fatalf("the same move again writes %d records", len(again.Records))
	}
}

// elect asks for elections everywhere.
func (x *history) elect() {
	req := &controllerpb.ElectLeadersRequest{Type: controllerpb.ElectionType(rapid.Int32Range(1, 2).Draw(x.T, "type")), AllPartitions: true}
	cut := x.h.cut >= 0
	d, err := controller.ElectLeaders(x.h.view(), req)
	x.note(fmt.Sprintf("elect %v", req.Type), carryOut(x.h, d, err))
	if again, _ := controller.ElectLeaders(x.h.view(), req); !cut && len(again.Records) > 0 {
		x.Fatalf("the same election again writes %d records", len(again.Records))
	}
	for _, round := range []func(controller.View) (controller.Decision[controller.BackgroundElections], error){
		func(v controller.View) (controller.Decision[controller.BackgroundElections], error) {
			return controller.BalanceLeaders(v, time.Second)
		}, controller.ElectUnclean,
	} {
		if cut {
			return
		}
		d, err := round(x.h.view())
		x.note("background elections", carryOut(x.h, d, err))
		if again, _ := round(x.h.view()); len(again.Records) > 0 {
			x.Fatalf("the same round again writes %d records", len(again.Records))
		}
	}
}

// unregister removes a broker, which registers again with what it finds on its disk.
func (x *history) unregister() {
	b := x.anyBroker()
	if x.h.cut >= 0 {
		return
	}
	d, err := controller.UnregisterBroker(x.h.view(), &controllerpb.UnregisterBrokerRequest{BrokerId: int32(b.ID)})
	x.note(fmt.Sprintf("unregister %v", b.ID), carryOut(x.h, d, err))
	x.lives++
	directory := fmt.Sprintf("dir-%v", b.ID)
	if rapid.Bool().Draw(x.T, "another directory") {
		directory = fmt.Sprintf("dir-%v-%d", b.ID, x.lives)
	}
	req := registerRequest(int32(b.ID), fmt.Sprintf("life-%d", x.lives), directory)
	req.StopKind = metadatapb.StopKind(rapid.Int32Range(0, 4).Draw(x.T, "stop"))
	again, err := controller.RegisterBroker(x.h.view(), req)
	x.note(fmt.Sprintf("register %v", b.ID), carryOut(x.h, again, err))
	for id, p := range x.h.image.PartitionsOn(b.ID) {
		if image.Contains(slices.Concat(p.ISR, p.ELR, p.LastKnownELR), b.ID) {
			x.Fatalf("broker %v was unregistered, and %v (%v) counts on what it holds now", b.ID, id, p)
		}
	}
}

// configure changes the topic's min.insync.replicas upwards, which leaves every partition as it is, or the topic's word on
// unclean elections.
func (x *history) configure() {
	t, ok := x.anyTopic()
	if !ok || x.h.cut >= 0 {
		return
	}
	change := &controllerpb.ConfigChange{Name: "unclean.leader.election.enable", Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET}
	value := fmt.Sprint(rapid.Bool().Draw(x.T, "unclean"))
	if rapid.Bool().Draw(x.T, "min.insync.replicas") {
		change.Name, value = "min.insync.replicas", "3"
	}
	change.Value = &value
	req := &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{{
		Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: t.Name(), Changes: []*controllerpb.ConfigChange{change},
	}}}
	// A random image may hold partitions of other topics that wait for an election; they go on waiting.
	waiting, _ := controller.ApplyConfigs(x.h.view(), controller.Concern{Everything: true})
	d, err := controller.AlterConfigs(x.h.view(), req)
	x.note(fmt.Sprintf("configure %s %s=%s", t.Name(), change.GetName(), value), carryOut(x.h, d, err))
	if again, _ := controller.AlterConfigs(x.h.view(), req); len(again.Records) > 0 {
		x.Fatalf("the same configs again write %d records", len(again.Records))
	}
	concern := controller.ConcernOf(d.Records)
	applied, err := controller.ApplyConfigs(x.h.view(), concern)
	x.note("apply configs", carryOut(x.h, applied, err))
	again, _ := controller.ApplyConfigs(x.h.view(), controller.Concern{Everything: true})
	for _, r := range again.Records {
		isDecided := !concern.IsNone() && string(r.GetPartitionChange().GetTopicId()) == string(t.ID().Bytes())
		if isDecided || !slices.ContainsFunc(waiting.Records, func(w *metadatapb.Record) bool { return proto.Equal(w, r) }) {
			x.Fatalf("applying configs again writes %v", r)
		}
	}
}
