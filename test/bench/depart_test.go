package bench

import (
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// The brokers that go, one a round, are so far apart that no partition loses all its replicas.
const (
	firstGone = 7
	goneApart = 3
)

// fencedOut tells whether nothing is left to do for a broker that goes: its own record is the last one.
func fencedOut(id int32) func(*image.Image) bool {
	return func(im *image.Image) bool {
		b, ok := im.Broker(image.BrokerID(id))
		return ok && b.Fenced
	}
}

// verifyGone compares the follower's image with what has to be: a fast wrong answer is none.
func verifyGone(b *testing.B, im *image.Image, id int32) {
	b.Helper()
	gone := image.BrokerID(id)
	if im.LeaderCount(gone) > 0 || im.ISRCount(gone) > 0 || im.LeaderlessCount() > 0 {
		b.Fatalf("broker %d is gone and leads %d, is in %d ISRs; %d partitions have no leader",
			id, im.LeaderCount(gone), im.ISRCount(gone), im.LeaderlessCount())
	}
}

// smallEntry gives the time in which bare Raft commits a small entry, in milliseconds.
func (l *Large) smallEntry(b *testing.B) float64 {
	b.Helper()
	return l.commitBare(b, []int{200})
}

// BenchmarkFenceCommitted lets one of 100 brokers fall silent, with 60,000 memberships and 20,000 leaderships among 2,000,000
// partitions: milliseconds from the end of its session until all records are committed and applied by a follower of the
// metadata stream, beside committing the same bytes by bare hashicorp/raft; and the longest wait of a heartbeat meanwhile.
func BenchmarkFenceCommitted(b *testing.B) {
	l := StartLarge(b)
	var rounds, beats Rounds
	for n := firstGone; b.Loop(); n += goneApart {
		dies, lives := l.Brokers[n], l.Brokers[len(l.Brokers)-1]
		l.Follower.Forget()
		dies.Silence()
		last := time.Now()
		if _, err := dies.Heartbeat(false); err != nil {
			b.Fatal(err)
		}
		stop, longest := make(chan struct{}), make(chan time.Duration, 1)
		timer := time.AfterFunc(time.Until(last.Add(largeSession)), func() {
			longest <- l.probe(lives, stop)
		})
		im, sizes, err := l.Follower.Until(fencedOut(dies.ID))
		ours := milliseconds(time.Since(last.Add(largeSession)))
		close(stop)
		if timer.Stop() {
			b.Fatal("fenced before the session has ended")
		}
		if err != nil {
			b.Fatal(err)
		}
		verifyGone(b, im, dies.ID)
		rounds.Add(ours, l.commitBare(b, sizes))
		beats.Add(milliseconds(<-longest), l.smallEntry(b))
	}
	rounds.Report(b)
	beats.ReportAs(b, "heartbeat-")
}

// BenchmarkControlledShutdown lets such a broker ask to leave: milliseconds from its first request until the controller has
// told it to go and a follower has applied that it is fenced, beside committing the same bytes by bare hashicorp/raft. The
// other brokers tell what they have applied in their heartbeats, two a second.
func BenchmarkControlledShutdown(b *testing.B) {
	l := StartLarge(b)
	var rounds Rounds
	for n := firstGone; b.Loop(); n += goneApart {
		leaves := l.Brokers[n]
		l.Follower.Forget()
		leaves.Silence()
		began := time.Now()
		leave(leaves)
		im, sizes, err := l.Follower.Until(fencedOut(leaves.ID))
		if err != nil {
			b.Fatal(err)
		}
		ours := milliseconds(time.Since(began))
		verifyGone(b, im, leaves.ID)
		rounds.Add(ours, l.commitBare(b, sizes))
	}
	rounds.Report(b)
}

// leave asks until the broker may go. A request that is refused, for it waited, is repeated.
func leave(b *quorumtest.Broker) {
	pause := time.NewTicker(10 * probePause)
	defer pause.Stop()
	for {
		if r, err := b.Heartbeat(true); err == nil && r.GetShouldShutDown() {
			return
		}
		<-pause.C
	}
}
