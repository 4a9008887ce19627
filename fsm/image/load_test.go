package image

import (
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// drawPartition makes the record of a topic's next partition, nearly always one that fits, now and then of an unusual form.
func drawPartition(t *rapid.T, topic int, next int32) *metadatapb.Partition {
	id := rapid.SampledFrom(loadBrokers)
	replicas := rapid.SliceOfNDistinct(id, 1, 5, rapid.ID[int32]).Draw(t, "replicas")
	within := rapid.SliceOfNDistinct(rapid.SampledFrom(replicas), 0, len(replicas), rapid.ID[int32])
	p := &metadatapb.Partition{
		TopicId: testID(topic), Partition: next, Replicas: replicas, Isr: replicas,
		LeaderEpoch: rapid.SampledFrom([]int32{0, 1, 200, 1 << 30, -1}).Draw(t, "leader epoch"), PartitionEpoch: rapid.Int32Range(0, 1<<20).Draw(t, "epoch"),
		LeaderRecoveryState: metadatapb.LeaderRecoveryState(rapid.Int32Range(0, 3).Draw(t, "recovery")),
	}
	if rapid.Bool().Draw(t, "led") {
		p.Leader = ptr(rapid.SampledFrom(replicas).Draw(t, "leader"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "unusual") {
	case 0:
		p.Isr = within.Draw(t, "isr")
	case 1:
		p.Elr, p.LastKnownElr = within.Draw(t, "elr"), within.Draw(t, "last elr")
	case 2:
		p.AddingReplicas = within.Draw(t, "adding")
	case 3:
		p.Partition++
	case 4:
		p.Isr = rapid.SliceOfN(id, 0, 5).Draw(t, "any isr")
	case 5:
		p.TopicId = testID(9)
	}
	return p
}

// loadBrokers take one, two and three bytes in a record; the largest fits no page. The indexes of 0 and 1024, and of 2 and
// 1026, cannot be kept at hand at once.
var loadBrokers = []int32{-1, 0, 1, 2, 127, 128, 300, 1024, 1026, 16383, 16384, 65535, 70000}

// sameIndexes compares every set by broker and the sets of all.
func sameIndexes(t *rapid.T, a, b *Image) {
	list := func(seq iter.Seq2[PartitionID, Partition]) string {
		var out []string
		for id := range seq {
			out = append(out, id.String())
		}
		return strings.Join(out, " ")
	}
	for name, of := range map[string]func(*Image) string{
		"leaderless":    func(im *Image) string { return list(im.Leaderless()) },
		"not preferred": func(im *Image) string { return list(im.NotPreferred()) },
		"reassigning":   func(im *Image) string { return list(im.Reassigning()) },
	} {
		if of(a) != of(b) {
			t.Fatalf("%s: %s, want %s", name, of(a), of(b))
		}
	}
	for id := range b.indexes.brokers.all() {
		got := []any{list(a.PartitionsOn(id)), list(a.PartitionsWithISR(id)), list(a.PartitionsWithELR(id)), a.LeaderCount(id), a.ReplicaCount(id), a.ISRCount(id)}
		want := []any{list(b.PartitionsOn(id)), list(b.PartitionsWithISR(id)), list(b.PartitionsWithELR(id)), b.LeaderCount(id), b.ReplicaCount(id), b.ISRCount(id)}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("broker %d: %s", id, d)
		}
	}
	if a.indexes.brokers.n != b.indexes.brokers.n {
		t.Fatalf("%d brokers are indexed, want %d", a.indexes.brokers.n, b.indexes.brokers.n)
	}
}

// A snapshot's partition is taken from its bytes: the same bytes are accepted and refused, for the same state and indexes,
// as by decoding them into a message and replaying it.
func TestLoadingFromBytesEqualsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short, long := Load(), Load()
		counts := map[int]int32{}
		for topic := 1; topic <= 2; topic++ {
			for _, d := range []*Delta{short, long} {
				if err := d.Replay(0, recTopic(string(rune('a'+topic)), topic)); err != nil {
					t.Fatal(err)
				}
			}
		}
		taken := 0
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			topic := rapid.IntRange(1, 2).Draw(t, "topic")
			raw, err := record.Encode(recPartition(drawPartition(t, topic, counts[topic])))
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 4).Draw(t, "damage") == 0 {
				raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
			err1 := loadRecord(short, raw)
			r, err2 := record.Decode(raw)
			if err2 == nil {
				err2 = long.Replay(0, r)
			}
			if (err1 == nil) != (err2 == nil) {
				t.Fatalf("%x: from bytes %v, by replay %v", raw, err1, err2)
			}
			if err1 == nil && r.GetPartition() != nil {
				taken++
				for topic := range 3 {
					if id, err := UUIDFrom(r.GetPartition().TopicId); err == nil && id == UUID(testID(topic)) {
						counts[topic]++
					}
				}
			}
		}
		a, b := short.Seal(1, 1), long.Seal(1, 1)
		if a.Fingerprint() != b.Fingerprint() || a.PartitionCount() != b.PartitionCount() || dump(t, a) != dump(t, b) {
			t.Fatalf("after %d partitions:\n%s\nwant:\n%s", taken, dump(t, a), dump(t, b))
		}
		sameIndexes(t, a, b)
		checkStorage(t, a)
	})
}

// loadRecord replays a record as loading a snapshot does: from a block, in which bytes of others follow.
func loadRecord(d *Delta, raw []byte) error {
	if len(raw) < 0x80 {
		block := append(append([]byte{byte(len(raw))}, raw...), make([]byte, record.ScanWindow)...)
		if n, rest := d.LoadPartitions(block); n > 0 {
			if n != 1 || len(rest) != record.ScanWindow {
				panic("more was taken than the record")
			}
			return nil
		}
	}
	return d.ReplayEncoded(0, raw)
}

// The form that nearly all of a snapshot has is taken the short way: the benchmark of loading rests on it.
func TestUsualPartitionsAreShort(t *testing.T) {
	for _, replicas := range [][]int32{{0, 1, 2}, {100, 127, 128}, {3}, {16383, 7, 300, 1}} {
		raw, err := record.Encode(recPartition(&metadatapb.Partition{
			TopicId: testID(1), Partition: 77, Replicas: replicas, Isr: replicas, Leader: &replicas[0], LeaderEpoch: 300, PartitionEpoch: 9,
			LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
		}))
		if err != nil {
			t.Fatal(err)
		}
		var p record.ShortPartition
		end := len(raw)
		raw = append(raw, make([]byte, record.ScanWindow)...)
		if !p.Scan(raw, end) || p.Partition != 77 || p.Replicas.N != len(replicas) || !p.Healthy && p.Replicas != p.ISR || p.LeaderEpoch != 300 {
			t.Errorf("%v: %+v", replicas, p)
		}
		if p.Scan(raw, end-1) || p.Scan(raw, end+1) || p.Scan(raw[:record.ScanWindow-1], end) {
			t.Errorf("%v: a record that is cut or longer was taken", replicas)
		}
	}
}
