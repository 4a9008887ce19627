package replica_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// TestReplicates: records come at once, and the watermark a moment later, not after the long poll's 500 ms.
func TestReplicates(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(10, 0, 1)
		r.host(0, 2)
		r.follow(1, 0, 1, 2)
		r.after(15 * time.Millisecond)
		r.want(0, "1:0-9 hw=10")
		r.want(1, "1:0-9 hw=10")
		r.want(2, "hw=0")
		r.after(100 * time.Millisecond)
		r.leader.write(pid(2), 3, 0)
		synctest.Wait()
		r.want(2, "1:0-2 hw=0")
		r.after(10 * time.Millisecond)
		r.want(2, "1:0-2 hw=3")
		if e := r.leader.epochs[0]; e != 102 {
			t.Errorf("fetched with broker epoch %d", e)
		}
	})
}

// TestIdleStreamIsQuiet: many idle partitions cost one request each 500 ms, and each of these counts as a fetch of all.
func TestIdleStreamIsQuiet(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		all := make([]int32, 1000)
		for i := range all {
			all[i] = int32(i)
		}
		r.host(1, all...)
		r.follow(1, all...)
		r.after(time.Second)
		r.leader.takeReads()
		r.after(10 * time.Second)
		reads := len(r.leader.takeReads())
		if sweeps := reads / len(all); reads%len(all) != 0 || sweeps < 18 || sweeps > 21 {
			t.Errorf("%d reads in 10 s for %d partitions", reads, len(all))
		}
	})
}

// TestNewPartitionDoesNotWait: a request that waits at the leader does not keep a new partition from being fetched.
func TestNewPartitionDoesNotWait(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0, 1)
		r.follow(1, 0)
		r.after(200 * time.Millisecond)
		r.follow(1, 1)
		synctest.Wait()
		r.want(1, "1:0-0 hw=0")
		r.after(15 * time.Millisecond)
		r.want(1, "1:0-0 hw=1")
	})
}

// TestF13FetchCutsByEpoch: the follower has led in epochs that the leader never saw, goes back round by round, and is never
// counted before both agree (F12). Its own watermark cuts nothing.
func TestF13FetchCutsByEpoch(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(0, 0)
		l := &memLog{}
		l.write(1, 50, 0)
		l.write(3, 40, 0)
		l.lead(6)
		l.write(6, 5, 0)
		*r.leader.partitions[pid(0)] = hosted{log: l, epoch: 6}
		f := &memLog{}
		f.write(1, 40, 0)
		f.write(2, 20, 0)
		f.write(4, 20, 0)
		f.write(5, 19, 0)
		f.high = 8
		r.logs[0] = f
		r.follow(6, 0)
		r.after(20 * time.Millisecond)
		r.want(0, "1:0-49 3:50-89 6:90-94 hw=95")
		if got := r.leader.takeReads(); got[0] != "0@40" {
			t.Errorf("counted %v; positions before the logs agreed must not count", got)
		}
	})
}

// TestDivergingAnswerLeavesWatermark: the cut alone; the watermark moves with a later answer.
func TestDivergingAnswerLeavesWatermark(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(0, 0)
		l := &memLog{}
		l.write(1, 140, 0)
		l.lead(2)
		l.high = 140
		*r.leader.partitions[pid(0)] = hosted{log: l, epoch: 2}
		f := &memLog{}
		f.write(1, 150, 0)
		f.high = 130
		r.logs[0] = f
		f.entered, f.leave = make(chan struct{}, 9), make(chan struct{})
		r.follow(2, 0)
		synctest.Wait()
		r.want(0, "1:0-139 hw=130")
		r.after(15 * time.Millisecond)
		r.want(0, "1:0-139 hw=140")
	})
}

func TestOutOfRange(t *testing.T) {
	t.Run("behind the leader's start", func(t *testing.T) {
		bubble(t, tune{}, func(r *rig) {
			r.host(30, 0)
			l := r.leader.partitions[pid(0)].log
			l.high = 30
			if err := l.AdvanceLogStart(20); err != nil {
				t.Fatal(err)
			}
			r.logs[0] = &memLog{}
			r.logs[0].write(1, 10, 0)
			r.follow(1, 0)
			r.after(20 * time.Millisecond)
			r.want(0, "1:20-29 hw=30")
		})
	})
	t.Run("an empty log beyond the leader's end", func(t *testing.T) {
		bubble(t, tune{}, func(r *rig) {
			r.host(30, 0)
			r.logs[0] = &memLog{start: 40, high: 40}
			r.follow(1, 0)
			r.after(20 * time.Millisecond)
			r.want(0, "hw=30")
			r.leader.write(pid(0), 1, 0)
			r.after(20 * time.Millisecond)
			r.want(0, "1:30-30 hw=31")
		})
	})
}

// TestLogStartFollows: the leader's log start is taken over.
func TestLogStartFollows(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(30, 0)
		r.follow(1, 0)
		r.after(20 * time.Millisecond)
		if err := r.leader.partitions[pid(0)].log.AdvanceLogStart(12); err != nil {
			t.Fatal(err)
		}
		r.leader.server.Notify(pid(0))
		r.after(20 * time.Millisecond)
		r.want(0, "1:12-29 hw=30")
	})
}

// TestRefusals: a later leader epoch ends the fetching, everything else only delays it, longer each time; others go on.
func TestRefusals(t *testing.T) {
	for code, want := range map[controllerpb.ErrorCode]replica.Status{
		controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH:        replica.StatusFailed,
		controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH:       replica.StatusDelayed,
		controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER:     replica.StatusDelayed,
		controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION: replica.StatusDelayed,
		controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID:           replica.StatusDelayed,
		controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_TOPIC_ID:      replica.StatusDelayed,
		controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR:        replica.StatusDelayed,
	} {
		t.Run(code.KafkaName(), func(t *testing.T) {
			bubble(t, tune{}, func(r *rig) {
				r.host(5, 0, 1)
				bad := r.leader.partitions[pid(0)]
				bad.refuse, bad.sticky = []controllerpb.ErrorCode{code}, true
				r.follow(1, 0, 1)
				r.after(20 * time.Millisecond)
				r.wantStatus(0, want)
				r.want(1, "1:0-4 hw=5")
				before := r.leader.readingsSoFar()
				r.after(10 * time.Second)
				if n := r.leader.readingsSoFar() - before; n > 60 {
					t.Errorf("%d reads in 10 s", n)
				}
				r.leader.mu.Lock()
				bad.refuse = nil
				r.leader.mu.Unlock()
				r.after(1100 * time.Millisecond)
				if want == replica.StatusFailed {
					r.want(0, "hw=0")
					r.follow(1, 0) // added again
					r.after(20 * time.Millisecond)
				}
				r.want(0, "1:0-4 hw=5")
				r.wantStatus(0, replica.StatusFetching)
			})
		})
	}
}

// TestLeaderEpochBehindOurs: the leader has not applied the newest metadata yet; it is asked again until it has.
func TestLeaderEpochBehindOurs(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.follow(2, 0)
		r.after(60 * time.Millisecond)
		r.wantStatus(0, replica.StatusDelayed)
		r.leader.mu.Lock()
		p := r.leader.partitions[pid(0)]
		p.epoch = 2
		p.log.lead(2)
		r.leader.mu.Unlock()
		r.after(200 * time.Millisecond)
		r.want(0, "1:0-4 hw=5")
	})
}

// TestBadRecordsAreFetchedAgain: the same offset, after a delay.
func TestBadRecordsAreFetchedAgain(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.logs[0] = &memLog{appendErrors: []error{fmt.Errorf("checksum: %w", replica.ErrBadRecords)}}
		r.follow(1, 0)
		synctest.Wait()
		r.wantStatus(0, replica.StatusDelayed)
		r.after(80 * time.Millisecond)
		r.want(0, "1:0-4 hw=5")
		if r.logs[0].appends != 2 {
			t.Errorf("%d appends", r.logs[0].appends)
		}
	})
}

// TestStorageFailureEndsFetching: until it is added again.
func TestStorageFailureEndsFetching(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0, 1)
		r.logs[0] = &memLog{appendErrors: []error{errors.New("disk on fire")}}
		r.follow(1, 0, 1)
		r.after(5 * time.Second)
		r.wantStatus(0, replica.StatusFailed)
		r.want(0, "hw=0")
		r.want(1, "1:0-4 hw=5")
		r.follow(2, 0)
		r.wantStatus(0, replica.StatusFetching)
	})
}

// TestRemoveWaitsForTheLog: while an append is under way Remove does not return; afterwards the log is not touched.
func TestRemoveWaitsForTheLog(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		l := &memLog{entered: make(chan struct{}), leave: make(chan struct{})}
		r.logs[0] = l
		r.follow(1, 0)
		<-l.entered
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			r.manager.Remove([]image.PartitionID{pid(0), pid(9)})
		}()
		// Remove waits for a lock here, and a bubble does not know that everybody waits: a moment must do.
		select {
		case <-removed:
			t.Error("removed while the log was being changed")
		default:
		}
		l.leave <- struct{}{}
		<-removed
		r.wantStatus(0, replica.StatusNone)
		if _, _, end := l.Offsets(); end != 5 {
			t.Errorf("the log ends at %d", end)
		}
		r.leader.write(pid(0), 5, 0)
		r.after(time.Second)
		r.want(0, "1:0-4 hw=0")
	})
}

// TestAddIsIdempotent: the same leader epoch goes on without another fetch of the position; a new one is told.
func TestAddIsIdempotent(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.follow(1, 0)
		r.after(20 * time.Millisecond)
		r.leader.takeReads()
		r.follow(1, 0)
		synctest.Wait()
		if got := r.leader.takeReads(); len(got) != 0 {
			t.Errorf("fetched anew: %v", got)
		}
		r.leader.mu.Lock()
		r.leader.partitions[pid(0)].epoch = 2
		r.leader.partitions[pid(0)].log.lead(2)
		r.leader.mu.Unlock()
		r.follow(2, 0)
		synctest.Wait()
		if got := r.leader.takeReads(); !slices.Contains(got, "0@5") {
			t.Errorf("not fetched in the new leader epoch: %v", got)
		}
		r.leader.write(pid(0), 1, 0)
		r.after(20 * time.Millisecond)
		r.want(0, "1:0-4 2:5-5 hw=6")
	})
}

// TestFollowsAnotherLeader: a partition that moves to another broker is fetched there, from its log end.
func TestFollowsAnotherLeader(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.follow(1, 0)
		r.after(20 * time.Millisecond)
		other := r.serve("n3", "n3:9000", 3, nil)
		l := &memLog{}
		l.write(1, 4, 0) // it had not fetched the last record
		l.lead(2)
		l.write(2, 2, 0)
		other.partitions[pid(0)] = &hosted{log: l, epoch: 2}
		r.manager.Add([]replica.Assignment{{Partition: pid(0), Replica: r.logs[0], Leader: 3, Address: "n3:9000", LeaderEpoch: 2}})
		r.after(20 * time.Millisecond)
		r.want(0, "1:0-3 2:4-5 hw=6")
		if c := r.manager.Counts(); c.Fetchers != 2 || c.Fetching != 1 {
			t.Errorf("%+v", c)
		}
		r.after(10 * time.Second) // the stream to the first leader has nothing to fetch
		if c := r.manager.Counts(); c.Fetchers != 1 || r.leader.server.Sessions() != 0 {
			t.Errorf("%+v, %d sessions at the former leader", c, r.leader.server.Sessions())
		}
		r.manager.Remove([]image.PartitionID{pid(0)})
		r.after(10 * time.Second)
		if c := r.manager.Counts(); c.Fetchers != 0 {
			t.Errorf("%+v", c)
		}
		other.close()
	})
}

// TestWrongBroker: the address belongs to another broker by now. The whole request is refused, and asked again in peace.
func TestWrongBroker(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.logs[0] = &memLog{}
		a := replica.Assignment{Partition: pid(0), Replica: r.logs[0], Leader: 9, Address: leaderAddress, LeaderEpoch: 1}
		r.manager.Add([]replica.Assignment{a})
		r.after(10 * time.Second)
		if r.leader.readingsSoFar() != 0 {
			t.Errorf("%d reads", r.leader.readingsSoFar())
		}
		r.want(0, "hw=0")
	})
}

// TestHungLeader: no answer within the wait and the margin; the stream is given up, and a new one works when the leader
// is back.
func TestHungLeader(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.follow(1, 0)
		r.after(time.Second)
		r.network.Cut("n1", "n2")
		r.leader.write(pid(0), 5, 0)
		r.after(30 * time.Second)
		r.want(0, "1:0-4 hw=5")
		r.network.HealAll()
		r.after(3 * time.Second)
		r.want(0, "1:0-9 hw=10")
		if n := r.leader.server.Sessions(); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestBrokenConnection: a stream that breaks is opened again, and everything is told anew.
func TestBrokenConnection(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0, 1)
		r.follow(1, 0, 1)
		r.after(time.Second)
		r.network.Sever("n1", "n2")
		r.leader.write(pid(0), 5, 0)
		r.after(200 * time.Millisecond)
		r.want(0, "1:0-9 hw=10")
		r.want(1, "1:0-4 hw=5")
	})
}

// TestServerCloseEndsStreams: parked ones too, at once; the follower tries again in peace.
func TestServerCloseEndsStreams(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		r.follow(1, 0)
		r.after(100 * time.Millisecond)
		r.leader.server.Close()
		synctest.Wait()
		if n := r.leader.server.Sessions(); n != 0 {
			t.Errorf("%d sessions", n)
		}
		r.after(5 * time.Second)
		r.wantStatus(0, replica.StatusFetching)
	})
}

// TestManyPartitionsInSeveralRequests: what does not fit into one request goes with the next, without a wait between.
func TestManyPartitionsInSeveralRequests(t *testing.T) {
	bubble(t, tune{client: func(c *replica.Config) { c.PartitionsPerRequestMax = 7 }}, func(r *rig) {
		all := make([]int32, 100)
		for i := range all {
			all[i] = int32(i)
		}
		r.host(2, all...)
		r.follow(1, all...)
		r.after(20 * time.Millisecond)
		for _, p := range all {
			r.want(p, "1:0-1 hw=2")
		}
	})
}

// TestTurns: an answer is bounded; a batch larger than the bound comes alone; every partition gets its turn.
func TestTurns(t *testing.T) {
	bubble(t, tune{client: func(c *replica.Config) { c.AnswerBytesMax, c.PartitionBytesMax = 1000, 400 }}, func(r *rig) {
		r.host(0, 0, 1, 2, 3)
		for p := range int32(4) {
			r.leader.write(pid(p), 50, 84) // batches of 100 bytes
		}
		r.leader.write(pid(1), 1, 5000)
		r.follow(1, 0, 1, 2, 3)
		r.after(20 * time.Millisecond)
		r.want(1, "1:0-50 hw=51")
		for _, p := range []int32{0, 2, 3} {
			r.want(p, "1:0-49 hw=50")
		}
		seen := map[string]int{}
		for i, read := range r.leader.takeReads() {
			if i < 12 {
				seen[read[:1]]++
			}
		}
		for p, n := range seen {
			if n > 4 {
				t.Errorf("partition %s had %d of the first 12 turns", p, n)
			}
		}
	})
}

// TestNoProgressIsDelayed: a leader that says the same again and again does not get the follower to spin.
func TestNoProgressIsDelayed(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(5, 0)
		p := r.leader.partitions[pid(0)]
		p.refuse, p.sticky = []controllerpb.ErrorCode{controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE}, true
		r.follow(1, 0)
		r.after(10 * time.Second)
		if r.leader.readingsSoFar() > 60 {
			t.Errorf("%d reads in 10 s", r.leader.readingsSoFar())
		}
	})
}

// TestOvertakenAnswerIsDropped: records that were asked for in the leader epoch before are not appended in the next one.
func TestOvertakenAnswerIsDropped(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(0, 0)
		r.follow(1, 0)
		r.after(300 * time.Millisecond)
		r.network.Delay("n1", "n2", 100*time.Millisecond)
		r.leader.write(pid(0), 1, 0) // its answer takes 100 ms
		r.after(10 * time.Millisecond)
		r.leader.mu.Lock()
		r.leader.partitions[pid(0)].epoch = 2
		r.leader.partitions[pid(0)].log.lead(2)
		r.leader.mu.Unlock()
		r.follow(2, 0)
		r.after(95 * time.Millisecond)
		r.want(0, "hw=0")
		r.after(200 * time.Millisecond)
		r.want(0, "1:0-0 hw=1")
	})
}
