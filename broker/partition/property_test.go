package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// world is a leader, its followers, a controller that commits changes, and a network that holds requests, answers and
// records as long as it likes. A request may be delivered more than once.
type world struct {
	t         *rapid.T
	facts     partition.Facts
	brokers   brokers
	state     partition.State
	truth     image.Partition   // at the controller
	records   []image.Partition // committed, not yet seen by the leader
	requests  []*partition.Proposal
	answers   []partition.AlterPartitionAnswered
	slot      *partition.Proposal // of the sender: one item a partition until its own answer
	now       time.Time
	followers map[image.BrokerID]int64 // log ends, as they are
}

func newWorld(t *rapid.T) *world {
	b := brokers{}
	for id := image.BrokerID(1); id <= 4; id++ {
		b[id] = image.Broker{ID: id, Epoch: image.BrokerEpoch(100 + id)}
	}
	w := &world{
		t: t, brokers: b, state: partition.New(), now: time.UnixMilli(0), followers: map[image.BrokerID]int64{},
		facts: partition.Facts{Self: 1, SelfEpoch: 101, LagTimeMax: 10 * time.Second, Brokers: b},
		truth: image.Partition{Leader: 1, LeaderEpoch: 1, Replicas: []image.BrokerID{1, 2, 3}, ISR: []image.BrokerID{1, 2, 3}},
	}
	w.step(partition.BecomeLeader{Partition: w.truth, MinISR: rapid.IntRange(1, 3).Draw(t, "min ISR"), Now: w.now})
	return w
}

func (w *world) step(e partition.Event) {
	old, before := w.state, w.state.String()
	next, fx := w.state.Step(w.facts, e)
	if old.String() != before {
		w.t.Fatalf("the step %T changed the old state %s to %s", e, before, old)
	}
	if next.LeaderEpoch == old.LeaderEpoch && next.Role == old.Role && next.HighWatermark < old.HighWatermark {
		w.t.Fatalf("%T: watermark fell from %d to %d", e, old.HighWatermark, next.HighWatermark)
	}
	if next.PartitionEpoch < old.PartitionEpoch {
		w.t.Fatalf("%T: partition epoch fell from %d to %d", e, old.PartitionEpoch, next.PartitionEpoch)
	}
	w.state = next
	if fx.Submit == nil {
		return
	}
	if w.slot != nil {
		w.step(partition.AlterPartitionAnswered{Proposal: fx.Submit, Code: controllerpb.ErrorCode_ERROR_CODE_OPERATION_NOT_ATTEMPTED, Now: w.now})
		return
	}
	w.slot = fx.Submit
	w.requests = append(w.requests, fx.Submit)
}

// decide is the controller's part: compare and set on the partition epoch.
func (w *world) decide(p *partition.Proposal) {
	a := partition.AlterPartitionAnswered{Proposal: p, Now: w.now}
	switch {
	case p.LeaderEpoch < w.truth.LeaderEpoch:
		a.Code = controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH
	case p.PartitionEpoch < w.truth.PartitionEpoch:
		a.Code = controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION
	default:
		var isr []image.BrokerID
		for _, m := range p.ISR {
			b := w.brokers[m.ID]
			if !b.IsActive() || m.Epoch != image.NoBrokerEpoch && m.Epoch != b.Epoch {
				a.Code = controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA
			}
			isr = append(isr, m.ID)
		}
		if a.Code == 0 {
			w.commit(isr)
		} else {
			w.drop(p)
		}
	}
	a.LeaderEpoch, a.PartitionEpoch, a.ISR = w.truth.LeaderEpoch, w.truth.PartitionEpoch, w.truth.ISR
	w.answers = append(w.answers, a)
}

func (w *world) commit(isr []image.BrokerID) {
	w.truth.ISR = isr
	w.truth.PartitionEpoch++
	w.records = append(w.records, w.truth)
}

func pick[T any](t *rapid.T, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, "which")]
}

// TestReplicationQuorumSuperset: whatever the network does, the maximal ISR holds every member of the ISR that the
// controller elects from, as long as the controller has not moved leadership; so no clean leader misses a record below
// the watermark.
func TestReplicationQuorumSuperset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { w.step(partition.LocalAppend{LogEndOffset: w.state.LogEndOffset + 1, Now: w.now}) },
			"fetch":  func(t *rapid.T) { w.fetch(t) },
			"advance": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 6).Draw(t, "seconds")) * time.Second)
			},
			"timer": func(t *rapid.T) { w.step(partition.CheckLag{Now: w.now}) },
			"request": func(t *rapid.T) {
				if len(w.requests) > 0 {
					w.decide(pick(t, w.requests)) // it stays, and may be delivered again
				}
			},
			"answer": func(t *rapid.T) {
				if len(w.answers) > 0 {
					w.deliver(pick(t, w.answers))
				}
			},
			"record": func(t *rapid.T) {
				if len(w.records) > 0 {
					w.step(partition.BecomeLeader{Partition: w.records[0], MinISR: w.state.MinISR, LogEndOffset: w.state.LogEndOffset, Now: w.now})
					w.records = w.records[1:]
				}
			},
			"repeated record": func(t *rapid.T) {
				p := image.Partition{Leader: 1, LeaderEpoch: 1, PartitionEpoch: w.state.PartitionEpoch, Replicas: w.state.Replicas, ISR: w.state.ISR.Committed}
				w.step(partition.BecomeLeader{Partition: p, MinISR: w.state.MinISR, LogEndOffset: w.state.LogEndOffset, Now: w.now})
			},
			"fence": func(t *rapid.T) {
				id := image.BrokerID(rapid.IntRange(2, 3).Draw(t, "broker"))
				b := w.brokers[id]
				b.Fenced, b.StateSinceMs = !b.Fenced, b.StateSinceMs+1
				w.brokers[id] = b
				if b.Fenced && image.Contains(w.truth.ISR, id) {
					w.commit(image.Without(w.truth.ISR, id))
				}
			},
			"": func(t *rapid.T) { w.check() },
		})
	})
}

func (w *world) fetch(t *rapid.T) {
	id := image.BrokerID(rapid.IntRange(2, 3).Draw(t, "follower"))
	offset := w.followers[id]
	w.step(partition.FollowerFetched{
		Follower: id, LeaderEpoch: w.state.LeaderEpoch, BrokerEpoch: w.brokers[id].Epoch, FetchOffset: offset,
		LeaderLogEndOffset: w.state.LogEndOffset, At: w.now,
	})
	w.followers[id] = offset + int64(rapid.IntRange(0, int(w.state.LogEndOffset-offset)).Draw(t, "records"))
}

// deliver gives the answer to the sender, which forgets the item and tells the partition. A copy of a request that was
// answered may still be decided, but its answer finds no item.
func (w *world) deliver(a partition.AlterPartitionAnswered) {
	if w.slot == nil || !w.slot.Equal(a.Proposal) {
		return
	}
	w.slot = nil
	a.Now = w.now
	w.step(a)
}

// drop takes every copy of a request off the network. The sender passes INELIGIBLE_REPLICA on only when no other copy can
// be under way; without that it would prove nothing (see alterpartition, Config.ProofDelay).
func (w *world) drop(p *partition.Proposal) {
	var kept []*partition.Proposal
	for _, q := range w.requests {
		if !q.Equal(p) {
			kept = append(kept, q)
		}
	}
	w.requests = kept
}

func (w *world) check() {
	s := &w.state
	if !image.ContainsAll(s.ISR.Maximal, s.ISR.Committed) || !image.Contains(s.ISR.Committed, 1) {
		w.t.Fatalf("ISR out of shape: %v", s.ISR)
	}
	if !image.ContainsAll(s.ISR.Maximal, w.truth.ISR) {
		w.t.Fatalf("controller has ISR %v, leader has %v", w.truth.ISR, s)
	}
	for _, id := range w.truth.ISR {
		if id != 1 && w.followers[id] < s.HighWatermark {
			w.t.Fatalf("member %v ends at %d, below the watermark: %v", id, w.followers[id], s)
		}
	}
}
