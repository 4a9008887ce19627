package kafka

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

func partitionID(n int) image.PartitionID {
	return image.PartitionID{Topic: image.TopicID{1}, Partition: int32(n)}
}

// inPurgatory runs a test in a bubble with a running purgatory.
func inPurgatory(t *testing.T, test func(t *testing.T, p *purgatory)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(env.OS("").Clock)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.run(ctx)
		}()
		test(t, p)
		cancel()
		<-done
	})
}

func TestWaiterCompletesOnce(t *testing.T) {
	inPurgatory(t, func(t *testing.T, p *purgatory) {
		var checks, expiries int
		satisfied := false
		p.add(&waiter{
			keys: []image.PartitionID{partitionID(0), partitionID(1)}, deadline: time.Now().Add(time.Second), ctx: t.Context(),
			check:  func(image.PartitionID) bool { checks++; return satisfied },
			expire: func() { expiries++ },
		})
		synctest.Wait()
		if checks != 2 {
			t.Errorf("%d checks after adding, want one a key", checks)
		}
		p.notify(partitionID(2))
		synctest.Wait()
		if checks != 2 {
			t.Error("a change of another partition was checked")
		}
		satisfied = true
		p.notify(partitionID(1))
		synctest.Wait()
		p.notify(partitionID(0))
		p.notify(partitionID(1))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if checks != 3 || expiries != 0 {
			t.Errorf("%d checks and %d expiries, want 3 and 0", checks, expiries)
		}
		if len(p.watched) != 0 || len(p.lists) != 0 || len(p.due) != 0 {
			t.Errorf("left behind: %v, %v, %v", p.watched, p.lists, p.due)
		}
	})
}

// Changes of a few partitions by turns are held once each until the loop looks, however many there are.
func TestChangesWaitOnceAPartition(t *testing.T) {
	p := newPurgatory(env.OS("").Clock) // its loop does not run
	checks := map[image.PartitionID]int{}
	for n := range 2 {
		p.add(&waiter{keys: []image.PartitionID{partitionID(n)}, deadline: time.Now().Add(time.Hour), ctx: t.Context(), check: func(id image.PartitionID) bool {
			checks[id]++
			return false
		}})
	}
	p.work()
	for range 1000 {
		p.notify(partitionID(0))
		p.notify(partitionID(1))
	}
	if n := len(p.inbox.changed); n != 2 {
		t.Errorf("%d changes wait, want 2", n)
	}
	p.work()
	for id, n := range checks {
		if n != 2 {
			t.Errorf("%v was checked %d times, want once when it was listed and once when it had changed", id, n)
		}
	}
}

func TestWaiterExpiresAtItsDeadline(t *testing.T) {
	inPurgatory(t, func(t *testing.T, p *purgatory) {
		start := time.Now()
		var order []time.Duration
		for _, d := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second} {
			p.add(&waiter{keys: []image.PartitionID{partitionID(0)}, deadline: start.Add(d), ctx: t.Context(),
				check: func(image.PartitionID) bool { return false }, expire: func() { order = append(order, time.Since(start)) }})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(order, want) {
			t.Errorf("expired after %v, want %v", order, want)
		}
	})
}

func TestDrainHurriesFetchesOnly(t *testing.T) {
	inPurgatory(t, func(t *testing.T, p *purgatory) {
		expired := map[string]int{}
		add := func(name string, hurry bool) {
			p.add(&waiter{keys: []image.PartitionID{partitionID(0)}, deadline: time.Now().Add(time.Hour), ctx: t.Context(), hurry: hurry,
				check: func(image.PartitionID) bool { return false }, expire: func() { expired[name]++ }})
		}
		add("fetch", true)
		add("produce", false)
		synctest.Wait()
		p.drain()
		synctest.Wait()
		add("later fetch", true)
		synctest.Wait()
		if expired["fetch"] != 1 || expired["produce"] != 0 || expired["later fetch"] != 1 {
			t.Errorf("expired: %v", expired)
		}
	})
}

func TestCanceledWaiterIsForgotten(t *testing.T) {
	inPurgatory(t, func(t *testing.T, p *purgatory) {
		ctx, cancel := context.WithCancel(t.Context())
		never := func(image.PartitionID) bool { return false }
		first := &waiter{keys: []image.PartitionID{partitionID(0)}, deadline: time.Now().Add(time.Hour), ctx: ctx, check: never}
		p.add(first)
		synctest.Wait()
		cancel()
		p.cancel(first)
		// A waiter that comes after its connection has ended, and one that is canceled before it is listed.
		p.add(&waiter{keys: []image.PartitionID{partitionID(1)}, deadline: time.Now().Add(time.Hour), ctx: ctx, check: never})
		third := &waiter{keys: []image.PartitionID{partitionID(2)}, deadline: time.Now().Add(time.Hour), ctx: t.Context(), check: never}
		p.cancel(third)
		p.add(third)
		synctest.Wait()
		if len(p.watched) != 0 || len(p.lists) != 0 || len(p.due) != 0 {
			t.Errorf("left behind: %v, %v, %v", p.watched, p.lists, p.due)
		}
	})
}

// Whatever comes in whatever order, each waiter ends exactly once, when its condition holds or its time is over, and
// the lists hold exactly those that have not.
func TestPurgatoryAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPurgatory(env.OS("").Clock)
		now := time.Unix(0, 0)
		value := map[image.PartitionID]int{}
		var all []*modelWaiter
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				m := &modelWaiter{}
				keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 1, 3, func(i int) int { return i }).Draw(rt, "keys")
				wanted := rapid.IntRange(1, 5).Draw(rt, "value")
				m.w = &waiter{deadline: now.Add(time.Duration(rapid.IntRange(1, 10).Draw(rt, "wait"))), ctx: context.Background(),
					check: func(id image.PartitionID) bool {
						if value[id] < wanted {
							return false
						}
						m.ended++
						return true
					},
					expire: func() { m.ended++ }}
				for _, k := range keys {
					m.w.keys = append(m.w.keys, partitionID(k))
				}
				all = append(all, m)
				p.add(m.w)
			case 2:
				id := partitionID(rapid.IntRange(0, 3).Draw(rt, "partition"))
				value[id]++
				p.notify(id)
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 4).Draw(rt, "pass")))
			case 4:
				if len(all) > 0 {
					p.cancel(all[rapid.IntRange(0, len(all)-1).Draw(rt, "victim")].w)
				}
			}
			p.work()
			p.expireDue(now)
			checkLists(rt, p, now, all)
		}
	})
}

// modelWaiter is a waiter and how often it has ended.
type modelWaiter struct {
	w     *waiter
	ended int
}

func checkLists(rt *rapid.T, p *purgatory, now time.Time, all []*modelWaiter) {
	listed := 0
	for _, m := range all {
		if m.ended > 1 {
			rt.Fatalf("a waiter ended %d times", m.ended)
		}
		if m.w.state != waiterDone {
			listed += len(m.w.keys)
			if !m.w.deadline.After(now) {
				rt.Fatal("a waiter is past its deadline")
			}
		}
	}
	inLists, watched := 0, 0
	for id, list := range p.lists {
		inLists += len(list)
		for i, l := range list {
			if l.w.keys[l.k] != id || l.w.pos[l.k] != i {
				rt.Fatal("a waiter does not know its place")
			}
		}
	}
	for _, n := range p.watched {
		watched += n
	}
	if inLists != listed || watched != listed {
		rt.Fatalf("%d entries in lists, %d watched, want %d", inLists, watched, listed)
	}
}
