package broker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestBrokerLivesADayWithAFakeController(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		q := startQuorum(t, network)
		defer network.Close()
		defer q.close()
		b := startBroker(t, network, 1, dir)
		eventually(t, "the broker is ready", func() bool { ok, _ := b.Ready(); return ok })
		first := q.registrations[0]
		if first.StopKind != metadatapb.StopKind_STOP_KIND_NEVER_RAN || len(first.LostReplicas) > 0 || first.JudgedOffset != -1 {
			t.Errorf("first registration: %v", first)
		}

		offset := q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1))
		if _, err := b.applied.waitOffset(t.Context(), offset); err != nil {
			t.Fatal(err)
		}
		r, err := b.replicas.get(image.PartitionID{Topic: topicID(1)})
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(3, 10)}.Bytes(), acksAll)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := r.IsReplicated(a.LastOffset+1, a.LeaderEpoch); !done || err != nil {
			t.Errorf("replicated: %v, %v", done, err)
		}
		if id, err := b.producerIDs.Next(t.Context()); err != nil || id != 0 {
			t.Errorf("producer id %d, %v", id, err)
		}
		b.end(t)
		if p, _ := q.image().Partition(image.PartitionID{Topic: topicID(1)}); p.Leader != image.NoBroker {
			t.Errorf("after the controlled shutdown: %v", p)
		}

		again := startBroker(t, network, 1, dir)
		eventually(t, "the restarted broker is ready", func() bool { ok, _ := again.Ready(); return ok })
		second := q.registrations[len(q.registrations)-1]
		if second.StopKind != metadatapb.StopKind_STOP_KIND_CLEAN || second.GetPreviousBrokerEpoch() != int64(b.epoch()) || len(second.LostReplicas) > 0 {
			t.Errorf("second registration: %v", second)
		}
		eventually(t, "it leads again", func() bool {
			r, err := again.replicas.get(image.PartitionID{Topic: topicID(1)})
			return err == nil && r.leads() && r.log.HighWatermark() == 3
		})

		q.put(removeRecord(1))
		eventually(t, "the deletion is reported and settled", func() bool {
			_, pending := q.image().PendingDeletion(topicID(1))
			return !pending
		})
		if n := len(q.reports); n != 1 {
			t.Errorf("%d reports", n)
		}
		again.end(t)
	})
}

// Two brokers replicate; the leader stops in order; nothing acknowledged is lost; the former leader comes back into the
// ISR by itself.
func TestTwoBrokersReplicateAndHandOver(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		q := startQuorum(t, network)
		defer network.Close()
		defer q.close()
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		for _, b := range []*testBroker{b1, b2} {
			eventually(t, "both are ready", func() bool { ok, _ := b.Ready(); return ok })
		}
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		eventually(t, "broker 1 leads", func() bool { r, err := b1.replicas.get(id); return err == nil && r.leads() })
		r, _ := b1.replicas.get(id)
		for range 50 {
			a, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 1000)}.Bytes(), acksAll)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the record is replicated", func() bool {
				done, err := r.IsReplicated(a.LastOffset+1, a.LeaderEpoch)
				return done && err == nil
			})
		}
		b1.end(t)
		eventually(t, "broker 2 leads", func() bool { r, err := b2.replicas.get(id); return err == nil && r.leads() })
		r2, _ := b2.replicas.get(id)
		if end := r2.log.LogEndOffset(); end != 50 {
			t.Errorf("broker 2's log ends at %d", end)
		}
		if _, err := r2.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), 1); err != nil {
			t.Error(err)
		}
		b1 = startBroker(t, network, 1, dirs[0])
		eventually(t, "broker 1 is back in the ISR", func() bool {
			p, _ := q.image().Partition(id)
			return image.Contains(p.ISR, 1)
		})
		r1, err := b1.replicas.get(id)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "broker 1 has everything", func() bool { return r1.log.HighWatermark() == 51 })
		b2.end(t)
		b1.end(t)
	})
}

// A broker whose follower is cut off asks for a smaller ISR after the lag limit, and for the larger one when it is back.
func TestLaggingFollowerLeavesAndComesBack(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		q := startQuorum(t, network)
		defer network.Close()
		defer q.close()
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		for _, b := range []*testBroker{b1, b2} {
			eventually(t, "both are ready", func() bool { ok, _ := b.Ready(); return ok })
		}
		id := image.PartitionID{Topic: topicID(1)}
		q.put(topicRecord("a", 1), partitionRecord(1, 0, 1, 1, 2))
		eventually(t, "broker 1 leads", func() bool { r, err := b1.replicas.get(id); return err == nil && r.leads() })
		r, _ := b1.replicas.get(id)
		network.Partition("b1", "b2")
		if _, err := r.AppendAsLeader(logtest.Batch{Values: logtest.Records(1, 10)}.Bytes(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		p, _ := q.image().Partition(id)
		if !slices.Equal(p.ISR, []image.BrokerID{1}) || r.log.HighWatermark() != 1 {
			t.Errorf("after the lag limit: %v, watermark %d", p, r.log.HighWatermark())
		}
		network.HealAll()
		eventually(t, "the ISR is whole", func() bool {
			p, _ := q.image().Partition(id)
			return len(p.ISR) == 2
		})
		b1.end(t)
		b2.end(t)
	})
}
