package alterpartition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// registered says that every broker is.
type registered struct{}

func (registered) Broker(id image.BrokerID) (image.Broker, bool) {
	return image.Broker{ID: id, Epoch: image.BrokerEpoch(100 + id)}, true
}

// leading is a partition that this broker leads, with a manager as its sender.
type leading struct {
	d       *desk
	state   partition.State
	refused int // submissions that were not attempted
}

func (l *leading) step(e partition.Event) {
	facts := partition.Facts{Self: 1, SelfEpoch: 101, LagTimeMax: 30 * time.Second, Brokers: registered{}}
	next, fx := l.state.Step(facts, e)
	l.state = next
	if fx.Submit == nil {
		return
	}
	done := func(a partition.AlterPartitionAnswered) { l.step(a) }
	if l.d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: fx.Submit, Repeat: fx.Answer == partition.Repeated, Done: done}) != nil {
		l.refused++
		l.step(partition.AlterPartitionAnswered{Proposal: fx.Submit, Code: controllerpb.ErrorCode_ERROR_CODE_OPERATION_NOT_ATTEMPTED})
	}
}

func (l *leading) lead(pe image.PartitionEpoch, isr ...image.BrokerID) {
	l.step(partition.BecomeLeader{
		Partition: image.Partition{Leader: 1, LeaderEpoch: 5, PartitionEpoch: pe, Replicas: []image.BrokerID{1, 2, 3, 4}, ISR: isr},
		MinISR:    1, LogEndOffset: 10, HighWatermark: 10, Now: time.Now(),
	})
}

// TestRetriableErrorIsRepeated (PartitionTest): UNKNOWN_SERVER_ERROR, then success with partition epoch 2: exactly two
// requests, an ISR of four, nothing pending.
func TestRetriableErrorIsRepeated(t *testing.T) {
	run(t, nil, func(d *desk) {
		l := &leading{d: d, state: partition.New()}
		l.lead(1, 1, 2, 3)
		l.step(partition.FollowerFetched{Follower: 4, LeaderEpoch: 5, BrokerEpoch: 104, FetchOffset: 10, LeaderLogEndOffset: 10, At: time.Now()})
		d.expect(0).answer(map[int32]controllerpb.ErrorCode{0: -1})
		c := d.expect(0)
		c.reply <- reply{response: accepted(2, 1, 2, 3, 4)}
		synctest.Wait()
		if s := l.state; s.ISR.Pending != nil || s.PartitionEpoch != 2 || len(s.ISR.Committed) != 4 {
			t.Errorf("%v", s)
		}
		if n := d.manager.Pending(); n != 0 {
			t.Errorf("%d items pending", n)
		}
	})
}

// TestF03SlotFreedByItsOwnAnswer: newer metadata resets the partition while its request is unanswered. Its next proposal
// is not attempted; the old answer changes nothing and frees the place; then a proposal is sent again.
func TestF03SlotFreedByItsOwnAnswer(t *testing.T) {
	run(t, nil, func(d *desk) {
		l := &leading{d: d, state: partition.New()}
		l.lead(1, 1, 2)
		l.step(partition.LocalAppend{LogEndOffset: 11, Now: time.Now()})
		<-time.After(31 * time.Second)
		l.step(partition.CheckLag{Now: time.Now()})
		c := d.expect(0)
		l.lead(2, 1, 2)
		l.step(partition.CheckLag{Now: time.Now().Add(time.Second)})
		if l.refused != 1 || l.state.ISR.Pending != nil {
			t.Errorf("refused %d times, %v", l.refused, l.state)
		}
		c.reply <- reply{response: accepted(10, 1)}
		synctest.Wait()
		if l.state.PartitionEpoch != 2 || len(l.state.ISR.Committed) != 2 {
			t.Errorf("the old answer was taken: %v", l.state)
		}
		l.step(partition.CheckLag{Now: time.Now().Add(time.Second)})
		d.expect(0).reply <- reply{response: accepted(3, 1)}
		synctest.Wait()
		if l.state.PartitionEpoch != 3 || len(l.state.ISR.Committed) != 1 {
			t.Errorf("%v", l.state)
		}
	})
}

// accepted is the answer to a change of partition 0.
func accepted(pe int32, isr ...int32) *controllerpb.AlterPartitionResponse {
	leader := int32(1)
	return &controllerpb.AlterPartitionResponse{Topics: []*controllerpb.AlterPartitionTopicResult{{
		TopicId: image.UUID{1}.Bytes(),
		Partitions: []*controllerpb.AlterPartitionResult{{
			Leader: &leader, LeaderEpoch: 5, PartitionEpoch: pe, Isr: isr, LeaderRecoveryState: 1,
		}},
	}}}
}
