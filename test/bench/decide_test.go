package bench

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// viewOf is what the active controller would decide on, right after its claim.
func viewOf(im *image.Image, now time.Time) controller.View {
	return controller.View{
		Image: im, NextOffset: im.Offset() + 1, Liveness: controller.NewLiveness(im, now),
		Limits: controller.DefaultLimits(), Defaults: controller.DefaultDefaults(),
		Now: now, Rand: rand.New(rand.NewPCG(1, 2)), NewID: func() image.UUID { return image.UUID{1, 6: 0x40, 8: 0x80} },
	}
}

// BenchmarkFence decides and encodes what the death of one of 100 brokers writes, 60,000 memberships and 20,000 leaderships
// among 2,000,000 partitions, in milliseconds of processor time, beside a scan of all partitions.
func BenchmarkFence(b *testing.B) {
	im := TwoMillion.mustBuild(b)
	began := time.Unix(1_000_000, 0)
	view := viewOf(im, began)
	limits := controller.DefaultLimits()
	dead := image.BrokerID(7)
	view.Now = began.Add(limits.SessionTimeout + time.Second)
	for id := range image.BrokerID(TwoMillion.Brokers) {
		if id != dead {
			view.Liveness = view.Liveness.Heard(id, view.Now, im.Offset(), im.Chain())
		}
	}
	memberships := 0
	for range im.PartitionsWithISR(dead) {
		memberships++
	}
	var rounds Rounds
	for b.Loop() {
		runtime.GC()
		started := cpuTime()
		decision, err := controller.FenceStaleBrokers(view)
		if err != nil {
			b.Fatal(err)
		}
		data, err := record.EncodeDecision(&metadatapb.Decision{Cause: &metadatapb.Cause{Name: "SessionExpired"}, Records: decision.Records})
		if err != nil {
			b.Fatal(err)
		}
		ours := (cpuTime() - started) / 1000
		if len(decision.Records) != memberships+1 || len(data) == 0 {
			b.Fatalf("%d records for %d memberships", len(decision.Records), memberships)
		}
		runtime.GC()
		started = cpuTime()
		if found := scan(im, dead); found != memberships {
			b.Fatalf("the scan finds %d memberships, the index %d", found, memberships)
		}
		rounds.Add(ours, (cpuTime()-started)/1000)
	}
	rounds.Report(b)
	b.ReportMetric(float64(memberships), "memberships")
}

// scan looks at every partition for a broker in its ISR.
func scan(im *image.Image, broker image.BrokerID) int {
	found := 0
	for topic := range im.Topics() {
		for _, p := range topic.Partitions() {
			if image.Contains(p.ISR, broker) {
				found++
			}
		}
	}
	return found
}

// BenchmarkAlterPartition decides 10,000 ISR changes in requests of 1,000, in milliseconds: ten times the middle request of a
// round. Its reference is a scan of all partitions of the image.
func BenchmarkAlterPartition(b *testing.B) {
	shape := Shape{Topics: 30_000, Partitions: 10, Brokers: 30}
	im := shape.mustBuild(b)
	requests := shrinks(b, im, 7, 10_000, 1_000)
	view := viewOf(im, time.Unix(1_000_000, 0))
	var rounds Rounds
	for b.Loop() {
		var took []float64
		runtime.GC()
		for _, request := range requests {
			began := time.Now()
			decision, err := controller.AlterPartition(view, request)
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, milliseconds(time.Since(began)))
			if len(decision.Records) != 1_000 {
				b.Fatalf("%d records", len(decision.Records))
			}
		}
		runtime.GC()
		began := cpuTime()
		scan(im, 7)
		rounds.Add(Median(took)*float64(len(requests)), (cpuTime()-began)/1000)
	}
	rounds.Report(b)
}

// shrinks asks, as the leader of count partitions, to take the last replica out of each ISR.
func shrinks(b *testing.B, im *image.Image, leader image.BrokerID, count, each int) []*controllerpb.AlterPartitionRequest {
	b.Helper()
	registered, _ := im.Broker(leader)
	epochs := map[image.BrokerID]*int64{}
	for broker := range im.Brokers() {
		epochs[broker.ID] = proto.Int64(int64(broker.Epoch))
	}
	var requests []*controllerpb.AlterPartitionRequest
	n := 0
	for id, p := range im.PartitionsWithISR(leader) {
		if p.Leader != leader {
			continue
		}
		if n%each == 0 {
			requests = append(requests, &controllerpb.AlterPartitionRequest{BrokerId: int32(leader), BrokerEpoch: int64(registered.Epoch)})
		}
		item := &controllerpb.AlterPartitionItem{
			Partition: id.Partition, LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
			LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
		}
		for _, member := range p.ISR[:2] {
			item.Isr = append(item.Isr, &controllerpb.IsrMember{BrokerId: int32(member), BrokerEpoch: epochs[member]})
		}
		request := requests[len(requests)-1]
		request.Topics = append(request.Topics, &controllerpb.AlterPartitionTopic{
			TopicId: id.Topic.Bytes(), Partitions: []*controllerpb.AlterPartitionItem{item},
		})
		if n++; n == count {
			return requests
		}
	}
	b.Fatalf("broker %d leads %d partitions, want %d", leader, n, count)
	return nil
}
