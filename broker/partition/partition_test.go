package partition_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

func TestBecomeLeaderAndFollower(t *testing.T)       { transcript(t, "testdata/become.txt") }
func TestEveryNewLeaderEpochForgets(t *testing.T)    { transcript(t, "testdata/reelected.txt") }
func TestCatchUpBookkeeping(t *testing.T)            { transcript(t, "testdata/catch_up.txt") }
func TestLag(t *testing.T)                           { transcript(t, "testdata/lag.txt") }
func TestShrink(t *testing.T)                        { transcript(t, "testdata/shrink.txt") }
func TestExpand(t *testing.T)                        { transcript(t, "testdata/expand.txt") }
func TestAlterPartitionAnswers(t *testing.T)         { transcript(t, "testdata/answers.txt") }
func TestHighWatermark(t *testing.T)                 { transcript(t, "testdata/high_watermark.txt") }
func TestProduceVerdicts(t *testing.T)               { transcript(t, "testdata/produce.txt") }
func TestReadChecks(t *testing.T)                    { transcript(t, "testdata/read.txt") }
func TestF03OneRequestInFlight(t *testing.T)         { transcript(t, "testdata/f03.txt") }
func TestF04ChangeWithoutLeaderEpoch(t *testing.T)   { transcript(t, "testdata/f04.txt") }
func TestF05HighWatermarkAfterShrink(t *testing.T)   { transcript(t, "testdata/f05.txt") }
func TestF06PendingISRCounts(t *testing.T)           { transcript(t, "testdata/f06.txt") }
func TestF07AdmissionAfterLeaderChange(t *testing.T) { transcript(t, "testdata/f07.txt") }
func TestF08FencedMembers(t *testing.T)              { transcript(t, "testdata/f08.txt") }
func TestF09FormerLife(t *testing.T)                 { transcript(t, "testdata/f09.txt") }
func TestF10ProposedISR(t *testing.T)                { transcript(t, "testdata/f10.txt") }
func TestF11LastMember(t *testing.T)                 { transcript(t, "testdata/f11.txt") }
func TestAnswerOvertakesMinISR(t *testing.T)         { transcript(t, "testdata/min_isr_overtaken.txt") }

// leaderOf steps a new state to leadership.
func leaderOf(t *testing.T, minISR int, logEnd, highWatermark int64, replicas, isr []image.BrokerID) (partition.State, partition.Facts) {
	t.Helper()
	f := partition.Facts{Self: 1, SelfEpoch: 101, LagTimeMax: 30 * time.Second, Brokers: brokers{}}
	s, _ := partition.New().Step(f, partition.BecomeLeader{
		Partition: image.Partition{Leader: 1, LeaderEpoch: 3, Replicas: replicas, ISR: isr},
		MinISR:    minISR, LogEndOffset: logEnd, HighWatermark: highWatermark, Now: time.UnixMilli(0),
	})
	return s, f
}

func TestMinISRStates(t *testing.T) {
	for _, c := range []struct {
		name                       string
		minISR                     int
		replicas, isr              []image.BrokerID
		under, at, underReplicated bool
	}{
		{"min 1, one of three", 1, []image.BrokerID{1, 2, 3}, []image.BrokerID{1}, false, true, true},
		{"min 2, one of two", 2, []image.BrokerID{1, 2}, []image.BrokerID{1}, true, false, true},
		{"min 3 of two", 3, []image.BrokerID{1, 2}, []image.BrokerID{1, 2}, false, true, false},
		{"min 1, all of three", 1, []image.BrokerID{1, 2, 3}, []image.BrokerID{1, 2, 3}, false, false, false},
	} {
		s, _ := leaderOf(t, c.minISR, 0, 0, c.replicas, c.isr)
		if s.IsUnderMinISR() != c.under || s.IsAtMinISR() != c.at || s.IsUnderReplicated() != c.underReplicated {
			t.Errorf("%s: under %v, at %v, under-replicated %v", c.name, s.IsUnderMinISR(), s.IsAtMinISR(), s.IsUnderReplicated())
		}
	}
}

// TestLatestOffsetWaitsForEpochStart: log end 5, watermark 2, elected: no answer to "latest" until the ISR has reached 5.
func TestLatestOffsetWaitsForEpochStart(t *testing.T) {
	s, f := leaderOf(t, 1, 5, 2, []image.BrokerID{1, 2}, []image.BrokerID{1, 2})
	if s.IsLatestOffsetKnown() {
		t.Error("known before the watermark reached the start of the epoch")
	}
	s, _ = s.Step(f, partition.FollowerFetched{Follower: 2, LeaderEpoch: 3, FetchOffset: 5, LeaderLogEndOffset: 5})
	if !s.IsLatestOffsetKnown() {
		t.Error("unknown although the watermark reached the start of the epoch")
	}
}

func TestFollowerHighWatermark(t *testing.T) {
	for _, c := range []struct{ leader, start, end, want int64 }{
		{99, 0, 100, 99}, {100, 0, 100, 100}, {101, 0, 100, 100}, {3, 5, 100, 5},
	} {
		if got := partition.FollowerHighWatermark(c.leader, c.start, c.end); got != c.want {
			t.Errorf("leader %d, log %d to %d: %d, want %d", c.leader, c.start, c.end, got, c.want)
		}
	}
}

// TestWrongRolePanics: a record that contradicts the event is a bug of the caller.
func TestWrongRolePanics(t *testing.T) {
	f := partition.Facts{Self: 1, Brokers: brokers{}}
	for _, e := range []partition.Event{
		partition.BecomeLeader{Partition: image.Partition{Leader: 2}},
		partition.BecomeFollower{Partition: image.Partition{Leader: 1}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T was accepted", e)
				}
			}()
			partition.New().Step(f, e)
		}()
	}
}

// BenchmarkFollowerFetched is the step of every follower fetch.
func BenchmarkFollowerFetched(b *testing.B) {
	f := partition.Facts{Self: 1, SelfEpoch: 101, LagTimeMax: 30 * time.Second, Brokers: brokers{}}
	ids := []image.BrokerID{1, 2, 3}
	s, _ := partition.New().Step(f, partition.BecomeLeader{Partition: image.Partition{Leader: 1, Replicas: ids, ISR: ids}, MinISR: 2, LogEndOffset: int64(b.N)})
	b.ReportAllocs()
	for i := range b.N {
		s, _ = s.Step(f, partition.FollowerFetched{Follower: 2, FetchOffset: int64(i), LeaderLogEndOffset: int64(b.N)})
	}
}
