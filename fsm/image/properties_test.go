package image

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/quorate/quorate/fsm/record"
	"pgregory.net/rapid"
)

// derived is what indexes and counts have to say, from a scan of everything.
type derived struct {
	brokers map[BrokerID]*struct{ on, isr, elr, leaders int }
	// sets hold the partitions of each index, by its name.
	sets map[string][]string

	leaderless, notPreferred, reassigning, partitions int
}

func (d *derived) of(id BrokerID) *struct{ on, isr, elr, leaders int } {
	if d.brokers[id] == nil {
		d.brokers[id] = &struct{ on, isr, elr, leaders int }{}
	}
	return d.brokers[id]
}

func (d *derived) add(id PartitionID, p Partition) {
	note := func(set string) { d.sets[set] = append(d.sets[set], id.String()) }
	d.partitions++
	for _, b := range p.Replicas {
		d.of(b).on++
		note(fmt.Sprint("on ", b))
	}
	for _, b := range p.ISR {
		d.of(b).isr++
		note(fmt.Sprint("isr ", b))
	}
	for _, b := range With(p.ELR, p.LastKnownELR...) {
		d.of(b).elr++
		note(fmt.Sprint("elr ", b))
	}
	switch {
	case p.Leader == NoBroker:
		d.leaderless++
		note("leaderless")
	case p.Leader != p.Replicas[0]:
		d.notPreferred++
		note("not preferred")
	}
	if p.Leader != NoBroker {
		d.of(p.Leader).leaders++
	}
	if p.IsReassigning() {
		d.reassigning++
		note("reassigning")
	}
}

// checkDerived compares all that is derived with a recomputation from the partitions.
func checkDerived(t fataler, im *Image) {
	t.Helper()
	want := derived{brokers: map[BrokerID]*struct{ on, isr, elr, leaders int }{}, sets: map[string][]string{}}
	for topic := range im.Topics() {
		for i, p := range topic.Partitions() {
			want.add(PartitionID{topic.ID(), i}, p)
		}
	}
	got := map[string][]string{}
	collect := func(set string, seq func(func(PartitionID, Partition) bool)) {
		for id, p := range seq {
			if q, ok := im.Partition(id); !ok || !q.Equal(p) {
				t.Fatalf("%s: %v is %v, in the image %v", set, id, p, q)
			}
			got[set] = append(got[set], id.String())
		}
	}
	brokers := want.brokers
	ids := slices.Collect(maps.Keys(brokers))
	for _, b := range brokerPool {
		ids = With(ids, BrokerID(b))
	}
	for _, b := range ids {
		collect(fmt.Sprint("on ", b), im.PartitionsOn(b))
		collect(fmt.Sprint("isr ", b), im.PartitionsWithISR(b))
		collect(fmt.Sprint("elr ", b), im.PartitionsWithELR(b))
		if n := [4]int{im.ReplicaCount(b), im.ISRCount(b), len(got[fmt.Sprint("elr ", b)]), im.LeaderCount(b)}; brokers[b] != nil &&
			n != [4]int{brokers[b].on, brokers[b].isr, brokers[b].elr, brokers[b].leaders} || brokers[b] == nil && n != [4]int{} {
			t.Fatalf("broker %d: counts %v, recomputed %v", b, n, brokers[b])
		}
	}
	collect("leaderless", im.Leaderless())
	collect("not preferred", im.NotPreferred())
	collect("reassigning", im.Reassigning())
	for _, m := range []map[string][]string{want.sets, got} {
		for _, l := range m {
			slices.Sort(l)
		}
	}
	if d := cmp.Diff(want.sets, got); d != "" {
		t.Fatalf("indexes differ from a scan (-scan +index):\n%s", d)
	}
	for d := range im.PendingDeletions() {
		for _, r := range d.Replicas {
			want.of(r.Broker)
		}
	}
	if got, want := im.StateCounts(), countStates(im); got != want {
		t.Fatalf("states %v, recomputed %v", got, want)
	}
	counts := [5]int{im.PartitionCount(), im.LeaderlessCount(), im.NotPreferredCount(), im.ReassigningCount(), im.indexes.brokers.n}
	if recomputed := [5]int{want.partitions, want.leaderless, want.notPreferred, want.reassigning, len(brokers)}; counts != recomputed {
		t.Fatalf("counts %v, recomputed %v", counts, recomputed)
	}
	checkStorage(t, im)
}

// countStates counts by looking at everything.
func countStates(im *Image) StateCounts {
	var c StateCounts
	for topic := range im.Topics() {
		for _, p := range topic.Partitions() {
			c.Partitions[p.State()]++
			for _, b := range p.Replicas {
				state, _ := im.ReplicaState(p, b)
				c.Replicas[state]++
			}
		}
	}
	for d := range im.PendingDeletions() {
		c.Partitions[PartitionOffline] += int(d.Partitions)
		for _, r := range d.Replicas {
			state, _ := im.DeletionState(r)
			c.Replicas[state] += int(r.Partitions)
		}
	}
	return c
}

// checkStorage checks that ordinals are either in use once or free, and that nothing unused is kept.
func checkStorage(t fataler, im *Image) {
	t.Helper()
	used := map[uint32]bool{}
	take := func(start, n uint32) {
		for o := start; o < start+n; o++ {
			if used[o] || o >= im.ordinals.next {
				t.Fatalf("ordinal %d is used twice or beyond the end", o)
			}
			used[o] = true
		}
	}
	pages := map[uint32]bool{}
	for topic := range im.Topics() {
		for _, x := range topic.entry.extents {
			take(x.start, uint32(x.n))
			for o := x.start; o < x.start+uint32(x.n); o++ {
				pages[o/pageLen] = true
			}
		}
	}
	for start, n := range im.ordinals.free.all() {
		take(start, n)
	}
	if len(used) != int(im.ordinals.next) {
		t.Fatalf("%d ordinals known, %d handed out", len(used), im.ordinals.next)
	}
	im.partitions.each(func(page uint32, p *partitionPage) bool {
		if !pages[page] {
			t.Fatalf("page %d is kept without a partition", page)
		}
		return true
	})
	spilled := 0
	for o := range im.spill.all() {
		if !im.packedAt(o).spilled() {
			t.Fatalf("spill table keeps ordinal %d", o)
		}
		spilled++
	}
	if spilled != im.spill.n {
		t.Fatalf("spill table says %d, holds %d", im.spill.n, spilled)
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func dump(t fataler, im *Image) string {
	var b bytes.Buffer
	if err := im.WriteJSON(&b); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	return b.String()
}

func reload(t fataler, im *Image) *Image {
	d := Load()
	n := 0
	next, stop := iter.Pull(im.EncodedRecords())
	defer stop()
	for r := range im.Records() {
		want, err := record.Encode(r)
		if got, ok := next(); err != nil || !ok || !bytes.Equal(got, want) {
			t.Fatalf("record %d: encoded by hand %x, generated %x (%v)", n, got, want, err)
		}
		if err := d.Replay(im.Offset(), r); err != nil {
			t.Fatalf("replaying the image's own record %v: %v", r, err)
		}
		n++
	}
	if n != im.RecordCount() {
		t.Fatalf("%d records, RecordCount says %d", n, im.RecordCount())
	}
	return d.Seal(im.Offset(), im.Chain())
}

// TestImageEqualsItsHistory drives an image with drawn records: old images stay as they were, derived state equals a
// scan, the records of an image give an equal image, and a fork beside it changes nothing.
func TestImageEqualsItsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t}
		im := Empty()
		type kept struct {
			im   *Image
			dump string
			sum  uint64
		}
		var old []kept
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			d := im.Fork()
			next := im.Offset()
			step := im
			for range rapid.IntRange(1, 8).Draw(t, "records") {
				r := g.record(step, next+1)
				if r == nil {
					continue
				}
				next++
				if err := d.Replay(next, r); err != nil {
					t.Fatalf("%v: %v", r, err)
				}
				// The generator looks at an image after each record: a chain of forks of its own, beside d.
				sd := step.Fork()
				if err := sd.Replay(next, r); err != nil {
					t.Fatalf("%v on the side chain: %v", r, err)
				}
				step = sd.Seal(next, 0)
			}
			old = append(old, kept{im, dump(t, im), im.Fingerprint()})
			im = d.Seal(next, 0)
			if dump(t, im) != dump(t, step) || im.Fingerprint() != step.Fingerprint() {
				t.Fatalf("one fork gives\n%v\na chain of forks\n%v", im, step)
			}
			checkDerived(t, im)
			checkDiff(t, old[len(old)-1].im, im, d)
		}
		for _, k := range old {
			if dump(t, k.im) != k.dump || k.im.Fingerprint() != k.sum {
				t.Fatalf("image at %d changed:\n%s\nwas\n%s", k.im.Offset(), dump(t, k.im), k.dump)
			}
		}
		again := reload(t, im)
		checkDerived(t, again)
		if dump(t, again) != dump(t, im) || again.Fingerprint() != im.Fingerprint() || again.String() != im.String() {
			t.Fatalf("reloaded\n%v\noriginal\n%v", again, im)
		}
		if c := Diff(im, again); len(c.Partitions)+len(c.Brokers)+len(c.CreatedTopics)+len(c.RemovedTopics) > 0 || c.Configs || c.PendingDeletions {
			t.Fatalf("a reloaded image differs: %+v", c)
		}
		for _, b := range brokerPool {
			if c := LocalChanges(im, again, BrokerID(b)); !c.IsEmpty() {
				t.Fatalf("a reloaded image differs for broker %d: %+v", b, c)
			}
		}
	})
}

// checkDiff compares the diff of two images, with and without shared pages, with a comparison by name.
func checkDiff(t fataler, a, b *Image, d *Delta) {
	t.Helper()
	all := func(im *Image) map[string]string {
		m := map[string]string{}
		for topic := range im.Topics() {
			for i, p := range topic.Partitions() {
				m[PartitionID{topic.ID(), i}.String()] = p.String()
			}
		}
		return m
	}
	old, new := all(a), all(b)
	want := map[string]bool{}
	for id, p := range new {
		if old[id] != p {
			want[id] = true
		}
	}
	for id := range old {
		if _, ok := new[id]; !ok {
			want[id] = true
		}
	}
	for _, other := range []*Image{b, reload(t, b)} {
		got := map[string]bool{}
		for _, p := range Diff(a, other).Partitions {
			got[p.ID.String()] = true
		}
		if df := cmp.Diff(want, got); df != "" {
			t.Fatalf("diff by name and Diff differ:\n%s", df)
		}
		for _, id := range brokerPool {
			checkLocal(t, a, other, BrokerID(id))
		}
	}
	changed := d.Partitions()
	for id := range want {
		if _, ok := new[id]; ok && !slices.ContainsFunc(changed, func(c PartitionID) bool { return c.String() == id }) {
			t.Fatalf("the delta does not name %s", id)
		}
	}
}

// checkLocal compares LocalChanges with the definition, partition by partition.
func checkLocal(t fataler, a, b *Image, id BrokerID) {
	t.Helper()
	want := map[string]string{}
	for p, old := range a.PartitionsOn(id) {
		if new, ok := b.Partition(p); !ok || !Contains(new.Replicas, id) {
			want[p.String()] = "delete"
		} else if !old.Equal(new) {
			want[p.String()] = "follower"
		}
	}
	for p, new := range b.PartitionsOn(id) {
		old, ok := a.Partition(p)
		had := ok && Contains(old.Replicas, id)
		switch {
		case had && old.Equal(new):
		case new.Leader != id:
			want[p.String()] = "follower"
		case had && old.LeaderEpoch == new.LeaderEpoch:
			want[p.String()] = "leader"
		default:
			want[p.String()] = "elected leader"
		}
	}
	got := map[string]string{}
	c := LocalChanges(a, b, id)
	for _, p := range c.Deletes {
		got[p.String()] = "delete"
	}
	for _, p := range c.Leaders {
		got[p.ID.String()] = "leader"
	}
	for _, p := range c.ElectedLeaders {
		got[p.ID.String()] = "elected leader"
	}
	for _, p := range c.Followers {
		got[p.ID.String()] = "follower"
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("local changes of broker %d:\n%s", id, d)
	}
}
