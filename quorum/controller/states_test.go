package controller_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// replicaMoves are the states that each state of a replica may be reached from, as in Kafka's ReplicaStateMachine.
var replicaMoves = map[image.ReplicaState][]image.ReplicaState{
	image.ReplicaNew:                {image.ReplicaNonExistent},
	image.ReplicaOnline:             {image.ReplicaNew, image.ReplicaOnline, image.ReplicaOffline, image.ReplicaDeletionIneligible},
	image.ReplicaOffline:            {image.ReplicaNew, image.ReplicaOnline, image.ReplicaOffline, image.ReplicaDeletionIneligible},
	image.ReplicaDeletionStarted:    {image.ReplicaOffline},
	image.ReplicaDeletionSuccessful: {image.ReplicaDeletionStarted},
	image.ReplicaDeletionIneligible: {image.ReplicaOffline, image.ReplicaDeletionStarted},
	image.ReplicaNonExistent:        {image.ReplicaDeletionSuccessful},
}

// movesToNew are the two that New as a view has besides: a replica that is still being added is New again when its
// broker comes back, or when it leaves the ISR before the reassignment ends. A state machine with a memory of its own
// would call both Online.
var movesToNew = []image.ReplicaState{image.ReplicaOffline, image.ReplicaOnline}

// partitionMoves are those of Kafka's PartitionStateMachine.
var partitionMoves = map[image.PartitionState][]image.PartitionState{
	image.PartitionNew:         {image.PartitionNonExistent},
	image.PartitionOnline:      {image.PartitionNew, image.PartitionOnline, image.PartitionOffline},
	image.PartitionOffline:     {image.PartitionNew, image.PartitionOnline, image.PartitionOffline},
	image.PartitionNonExistent: {image.PartitionOffline},
}

// watcher follows the visible states through every record.
type watcher struct {
	t     fataler
	at    *image.Image // the same records, through snapshots
	known map[image.PartitionID][]image.BrokerID
	moves map[string]int
}

func newWatcher(t fataler, im *image.Image, moves map[string]int) *watcher {
	return &watcher{t: t, at: im, known: map[image.PartitionID][]image.BrokerID{}, moves: moves}
}

// saw checks the moves of one record, and follows it on an image of its own.
func (w *watcher) saw(before, after *image.Image, r *metadatapb.Record) {
	w.t.Helper()
	for t := range after.Topics() {
		for i, p := range t.Partitions() {
			w.known[image.PartitionID{Topic: t.ID(), Partition: i}] = p.Replicas
		}
	}
	for id, replicas := range w.known {
		w.check(id, image.Crossed(before, after, id, replicas), before, after, r)
	}
	d := w.at.Fork()
	if err := d.Replay(w.at.Offset()+1, r); err != nil {
		w.t.Fatalf("%v: %v", r, err)
	}
	w.at = d.Seal(w.at.Offset()+1, w.at.Chain())
}

func (w *watcher) check(id image.PartitionID, c image.Crossing, before, after *image.Image, r *metadatapb.Record) {
	w.t.Helper()
	from, to := before.PartitionState(id), after.PartitionState(id)
	if p := c.Partition; from != to && (len(p) < 2 || p[0] != from || p[len(p)-1] != to) || from == to && p != nil {
		w.t.Fatalf("%v: %v is %v, then %v, and passes %v", r, id, from, to, p)
	}
	for i := 1; i < len(c.Partition); i++ {
		w.moves[fmt.Sprintf("partition %v → %v", c.Partition[i-1], c.Partition[i])]++
		if !slices.Contains(partitionMoves[c.Partition[i]], c.Partition[i-1]) {
			w.t.Fatalf("%v: %v passes %v", r, id, c.Partition)
		}
	}
	for _, x := range c.Replicas {
		w.moves[fmt.Sprint(x.States)]++
		for i := 1; i < len(x.States); i++ {
			from, to := x.States[i-1], x.States[i]
			again := to == image.ReplicaNew && i == len(x.States)-1 && i == 1 && slices.Contains(movesToNew, from)
			if !again && !slices.Contains(replicaMoves[to], from) {
				w.t.Fatalf("%v: the replica of %v on %v passes %v", r, id, x.Broker, x.States)
			}
		}
	}
}

// restart goes on from a snapshot, as a controller does that starts again.
func (w *watcher) restart() {
	w.t.Helper()
	d := image.Load()
	for raw := range w.at.EncodedRecords() {
		if err := d.ReplayEncoded(0, raw); err != nil {
			w.t.Fatalf("%v", err)
		}
	}
	w.at = d.Seal(w.at.Offset(), w.at.Chain())
}

// same: a controller that replayed entry by entry and one that came from a snapshot show the same.
func (w *watcher) same(im *image.Image) {
	w.t.Helper()
	if a, b := visible(im, w.known), visible(w.at, w.known); a != b {
		w.t.Fatalf("one controller shows\n%s\nanother\n%s", a, b)
	}
	var a, b bytes.Buffer
	if err := im.WriteJSON(&a); err != nil || w.at.WriteJSON(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		w.t.Fatalf("one controller has\n%s\nanother\n%s\n%v", a.String(), b.String(), err)
	}
}

// visible prints the state of everything.
func visible(im *image.Image, known map[image.PartitionID][]image.BrokerID) string {
	var lines []string
	for id := range known {
		lines = append(lines, fmt.Sprintf("%v %v", id, im.PartitionState(id)))
	}
	for t := range im.Topics() {
		for i, p := range t.Partitions() {
			for _, b := range p.Replicas {
				state, reason := im.ReplicaState(p, b)
				lines = append(lines, fmt.Sprintf("%s-%d %v %v %s", t.Name(), i, b, state, reason))
			}
		}
	}
	for d := range im.PendingDeletions() {
		for _, r := range d.Replicas {
			state, reason := im.DeletionState(r)
			lines = append(lines, fmt.Sprintf("deleted %v %v %v %s", d.TopicID, r.Broker, state, reason))
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\n%v", strings.Join(lines, "\n"), im.StateCounts())
}

// TestVisibleStatesMove: over random histories with failovers and restarts, the visible states make only the moves of
// Kafka's older state machines, and controllers that came to an offset in different ways show the same.
func TestVisibleStatesMove(t *testing.T) {
	moves := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		x := newHistory(t)
		w := newWatcher(x, x.h.image, moves)
		x.h.saw = w.saw
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			x.step()
			if rapid.IntRange(0, 4).Draw(t, "deletions end") == 0 {
				x.endDeletions()
			}
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				w.restart()
			}
			w.same(x.h.image)
		}
	})
	for _, want := range []string{ // those that are frequent; TestCrossed has all
		"partition NonExistent → New", "partition New → Online", "partition Online → Offline", "partition Offline → Online", "partition Offline → NonExistent",
		"[NonExistent New]", "[NonExistent New Online]", "[NonExistent New Offline]", "[New Offline]", "[Online Offline]", "[Offline Online]",
		"[Online Offline DeletionStarted]", "[Offline DeletionIneligible]", "[DeletionStarted DeletionSuccessful]", "[DeletionSuccessful NonExistent]",
	} {
		if moves[want] == 0 {
			t.Errorf("%s never happened, of %v", want, moves)
		}
	}
	for m, n := range moves {
		t.Logf("%6d %s", n, m)
	}
}

// endDeletions lets every broker that is registered report that it holds nothing more.
func (x *history) endDeletions() {
	for b := range x.h.image.Brokers() {
		req := &controllerpb.ReportDeletionsRequest{BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch)}
		for p := range x.h.image.PendingDeletions() {
			req.Deleted = append(req.Deleted, p.TopicID.Bytes())
		}
		d, err := controller.ReportDeletions(x.h.view(), req)
		x.note(fmt.Sprintf("report %v", req), carryOut(x.h, d, err))
	}
}
