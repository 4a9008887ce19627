package image

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// imageOf replays lines in the form of the transcripts.
func imageOf(t testing.TB, lines ...string) *Image {
	t.Helper()
	im := Empty()
	for _, line := range lines {
		d := im.Fork()
		if err := d.Replay(im.Offset()+1, parseRecord(t, im, line)); err != nil {
			t.Fatal(err)
		}
		im = d.Seal(im.Offset()+1, 0xab)
	}
	return im
}

func wholeImage(t *testing.T) *Image {
	im := imageOf(t,
		"feature name=metadata.version level=1", "register id=1 directory=1 fenced=false", "register id=2 directory=2", "broker id=2 stopping=true since=9",
		"topic name=old id=9", "partition topic=old n=0 replicas=1,2 isr=1", "remove topic=old", "failed id=1 topic=9 failure=disk since=8",
		"topic name=t.a id=1", "partition topic=t.a n=0 replicas=1,2 isr=2,1 leader=1 le=3", "partition topic=t.a n=1 replicas=2,1 isr= elr=2 last=2",
		"topic name=s id=2", "config type=TOPIC of=s key=k value=v", "config type=TOPIC of=s key=j value=v", "config type=BROKER of= key=k value=v",
		"producer-ids next=1000")
	d := im.Fork()
	c := &metadatapb.RegisterController{ControllerId: 100, IncarnationId: testID(1), DirectoryId: testID(2),
		Listeners: []*metadatapb.Listener{{Name: "GRPC", Host: "a\"\\\n\t\r\x01é\xff", Port: 1}}, Features: []*metadatapb.FeatureRange{{Name: "f", Max: 3}}}
	if err := d.Replay(im.Offset()+1, &metadatapb.Record{Kind: &metadatapb.Record_RegisterController{RegisterController: c}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Replay(im.Offset()+2, recRemovedController(101, 3, 12)); err != nil {
		t.Fatal(err)
	}
	offset := im.Offset() + 2
	for _, r := range []*metadatapb.Record{recLineage(1), recConfirmed(1, 60)} {
		offset++
		if err := d.Replay(offset, r); err != nil {
			t.Fatal(err)
		}
	}
	return d.Seal(offset, 0xab)
}

// TestDumpIsStable: the dump is a format that scripts rely on. Fields may be added, never renamed.
func TestDumpIsStable(t *testing.T) {
	got := dump(t, wholeImage(t))
	var v any
	if err := json.Unmarshal([]byte(got), &v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, got)
	}
	pretty, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"testdata/dump.json": got, "testdata/dump-indented.json": string(pretty) + "\n", "testdata/dump-empty.json": dump(t, Empty())} {
		if os.Getenv("REWRITE") != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), text); d != "" {
			t.Errorf("%s:\n%s", path, d)
		}
	}
}

// TestJSONString holds the quoting against the standard library's reader.
func TestJSONString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		var got string
		if err := json.Unmarshal(AppendJSONString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && !strings.Contains(got, "\ufffd") {
			t.Fatalf("%q is read as %q (%v)", s, got, err)
		}
	})
}

// TestDumpStopsAtTheFirstError: the error of the writer is told, and nothing more is written.
func TestDumpStopsAtTheFirstError(t *testing.T) {
	im := buildImage(t, 100, 100, 5)
	broken := errors.New("broken pipe")
	writes := 0
	err := im.WriteJSON(writerFunc(func([]byte) (int, error) { writes++; return 0, broken }))
	if !errors.Is(err, broken) || writes != 1 {
		t.Fatalf("%v after %d writes", err, writes)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestUnhealthy(t *testing.T) {
	im := imageOf(t, "register id=1 directory=1 fenced=false", "register id=2 directory=2 fenced=false", "register id=3 directory=3",
		"register id=4 directory=4 fenced=false", "broker id=4 stopping=true", "topic name=t id=1", "config type=TOPIC of=t key=min.insync.replicas value=2")
	for _, c := range []struct {
		name, want string
		p          Partition
	}{
		{"whole", "", Partition{Replicas: []BrokerID{1, 2}, ISR: []BrokerID{2, 1}, Leader: 1}},
		{"not the preferred leader", "", Partition{Replicas: []BrokerID{1, 2}, ISR: []BrokerID{2, 1}, Leader: 2}},
		{"one replica is enough for one", "", Partition{Replicas: []BrokerID{1}, ISR: []BrokerID{1}, Leader: 1}},
		{"being added", "", Partition{Replicas: []BrokerID{1, 2, 3}, ISR: []BrokerID{1, 2}, AddingReplicas: []BrokerID{3}, Leader: 1}},
		{"leaderless, ISR", "no leader: ISR [3], broker 3 is fenced", Partition{Replicas: []BrokerID{1, 3}, ISR: []BrokerID{3}, Leader: NoBroker}},
		{"leaderless, ELR", "no leader: ELR [9], broker 9 is not registered", Partition{Replicas: []BrokerID{1, 9}, ELR: []BrokerID{9}, Leader: NoBroker}},
		{"leaderless, last known", "no leader: last known ELR [4], broker 4 is shutting down", Partition{Replicas: []BrokerID{4}, LastKnownELR: []BrokerID{4}, Leader: NoBroker}},
		{"leaderless, nobody", "no leader: no replica is eligible", Partition{Replicas: []BrokerID{1}, Leader: NoBroker}},
		{"under min ISR", "under min ISR: 1 of 2 in sync", Partition{Replicas: []BrokerID{1, 2, 3}, ISR: []BrokerID{1}, Leader: 1}},
		{"recovering", "unclean leader: broker 1 has not recovered", Partition{Replicas: []BrokerID{1}, ISR: []BrokerID{1}, Leader: 1, Recovering: true}},
		{"fenced follower", "under-replicated: broker 3 is fenced", Partition{Replicas: []BrokerID{1, 2, 3}, ISR: []BrokerID{1, 2}, Leader: 1}},
		{"slow follower", "under-replicated: broker 2 is not in sync", Partition{Replicas: []BrokerID{1, 2, 4}, ISR: []BrokerID{1, 4}, Leader: 1}},
	} {
		if got := im.Unhealthy("t", c.p); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestEffectiveConfig: topic before cluster default before static default; min.insync.replicas never above the number
// of replicas (KIP-966).
func TestEffectiveConfig(t *testing.T) {
	im := imageOf(t, "topic name=t id=1", "topic name=u id=2", "config type=TOPIC of=t key=a value=topic", "config type=BROKER of= key=a value=cluster",
		"config type=BROKER of=3 key=a value=broker", "config type=BROKER of= key=min.insync.replicas value=2", "config type=TOPIC of=t key=min.insync.replicas value=5")
	static := map[string]string{"a": "static", "b": "static"}
	for _, c := range []struct {
		topic, key, want string
		source           ConfigSource
	}{{"t", "a", "topic", ConfigSourceTopic}, {"u", "a", "cluster", ConfigSourceClusterDefault}, {"u", "b", "static", ConfigSourceStatic}, {"u", "c", "", ConfigSourceNone}} {
		if got, source := im.EffectiveConfig(c.topic, c.key, static); got != c.want || source != c.source {
			t.Errorf("%s %s: %q from %v, want %q from %v", c.topic, c.key, got, source, c.want, c.source)
		}
	}
	if got, source := im.EffectiveBrokerConfig(3, "a", nil); got != "broker" || source != ConfigSourceBroker {
		t.Errorf("broker 3: %q from %v", got, source)
	}
	if got, source := im.EffectiveBrokerConfig(4, "a", nil); got != "cluster" || source != ConfigSourceClusterDefault {
		t.Errorf("broker 4: %q from %v", got, source)
	}
	for _, c := range []struct {
		topic          string
		replicas, want int
	}{{"t", 3, 3}, {"t", 9, 5}, {"u", 3, 2}, {"u", 1, 1}, {"u", 0, 1}} {
		if got := im.MinInsyncReplicas(c.topic, c.replicas); got != c.want {
			t.Errorf("min ISR of %s with %d replicas: %d, want %d", c.topic, c.replicas, got, c.want)
		}
	}
	if got := Empty().MinInsyncReplicas("t", 3); got != 1 {
		t.Errorf("without a setting %d", got)
	}
}

// TestCollidingTopic: names that differ in '.' and '_' only collide (KAFKA-2337).
func TestCollidingTopic(t *testing.T) {
	im := imageOf(t, "topic name=a.b id=1", "topic name=ab id=2", "topic name=c_d id=3")
	for name, want := range map[string]string{"a_b": "a.b", "a.b": "", "ab": "", "c.d": "c_d", "a.b_": "", "x": ""} {
		if got, ok := im.CollidingTopic(name); got != want || ok != (want != "") {
			t.Errorf("%s collides with %q, want %q", name, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	id := UUID{1, 2, 3, 255}
	again, err := ParseUUID(id.String())
	if err != nil || again != id || len(id.String()) != 22 || id.IsZero() || !(UUID{}).IsZero() {
		t.Errorf("%v %v", again, err)
	}
	for _, s := range []string{"", "short", id.String() + "A", id.String()[:21] + "=", strings.Repeat("!", 22)} {
		if _, err := ParseUUID(s); !errors.Is(err, ErrUUID) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := UUIDFrom(make([]byte, 15)); !errors.Is(err, ErrUUID) {
		t.Errorf("15 bytes: %v", err)
	}
	b := id.Bytes()
	b[0] = 9
	if id[0] != 1 {
		t.Error("Bytes gives the id itself")
	}
}

func TestReplicaLists(t *testing.T) {
	list := []BrokerID{3, 1, 2}
	for _, c := range []struct {
		name      string
		got, want []BrokerID
	}{
		{"without", Without(list, 1, 9), []BrokerID{3, 2}},
		{"with", With(list, 4, 1, 4), []BrokerID{3, 1, 2, 4}},
		{"intersect", Intersect(list, []BrokerID{2, 3}), []BrokerID{3, 2}},
	} {
		if !Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if !slices.Equal(list, []BrokerID{3, 1, 2}) {
		t.Error("a helper changed its argument")
	}
	if !SameSet(list, []BrokerID{1, 2, 3}) || SameSet(list, []BrokerID{1, 2}) || SameSet(list, []BrokerID{1, 2, 4}) {
		t.Error("SameSet")
	}
	if HasDuplicates(list) || !HasDuplicates([]BrokerID{1, 2, 1}) {
		t.Error("HasDuplicates")
	}
	if FormatReplicas(list) != "[3,1,2]" || FormatReplicas(nil) != "[]" {
		t.Error("FormatReplicas")
	}
}

// TestSealedDeltaTakesNothing: a delta that went on after Seal would change an image.
func TestSealedDeltaTakesNothing(t *testing.T) {
	d := Empty().Fork()
	d.Seal(0, 0)
	defer func() {
		if recover() == nil {
			t.Error("a sealed delta took a record")
		}
	}()
	_ = d.Replay(1, recFeature(FeatureMetadataVersion, 1))
}

// TestOrdinalsAreUsedAgain: creating and deleting topics for ever does not make the image grow.
func TestOrdinalsAreUsedAgain(t *testing.T) {
	im := imageOf(t, "topic name=keep id=1", "partition topic=keep n=0 replicas=1,2 isr=1")
	sum := im.Fingerprint()
	for i := range 200 {
		d := im.Fork()
		mustReplay(t, d, recTopic("t", 2+i))
		for p := range 70 {
			mustReplay(t, d, recPartition(&metadatapb.Partition{TopicId: testID(2 + i), Partition: int32(p), Replicas: []int32{1, 2, 3}, Isr: []int32{1}}))
		}
		im = d.Seal(0, 0)
		d = im.Fork()
		mustReplay(t, d, recRemove(testID(2+i)))
		im = d.Seal(0, 0)
	}
	pages := 0
	im.partitions.each(func(uint32, *partitionPage) bool { pages++; return true })
	if pages != 1 || im.ordinals.next > 1 || im.topicOrdinals.next > 1 || im.Fingerprint() != sum {
		t.Errorf("%d pages, %d ordinals, %d topic ordinals kept", pages, im.ordinals.next, im.topicOrdinals.next)
	}
	checkDerived(t, im)
}

func mustReplay(t testing.TB, d *Delta, r *metadatapb.Record) {
	t.Helper()
	if err := d.Replay(0, r); err != nil {
		t.Fatal(err)
	}
}

// TestLocalChanges: what a change means to one broker; a replica removed inside a topic that lives on is seen.
func TestLocalChanges(t *testing.T) {
	lines := []string{"topic name=t id=1", "partition topic=t n=0 replicas=1,2 isr=1,2 leader=1", "partition topic=t n=1 replicas=2,1 isr=2,1 leader=2",
		"partition topic=t n=2 replicas=1,2 isr=1,2 leader=1", "topic name=u id=2", "partition topic=u n=0 replicas=1 isr=1 leader=1"}
	old := imageOf(t, lines...)
	new := imageOf(t, append(slices.Clone(lines), "change topic=t n=0 replicas=2,3 isr=2 leader=2", "change topic=t n=1 isr=1 leader=1",
		"change topic=t n=2 isr=1", "remove topic=u", "topic name=u id=3", "partition topic=u n=0 replicas=2,1 isr=2 leader=2")...)
	name := func(l []LocalPartition) (out []string) {
		for _, p := range l {
			out = append(out, p.ID.String())
		}
		return out
	}
	topic := func(n int, p int32) string { return PartitionID{TopicID(testID(n)), p}.String() }
	c := LocalChanges(old, new, 1)
	var deletes []string
	for _, id := range c.Deletes {
		deletes = append(deletes, id.String())
	}
	slices.Sort(deletes)
	want := []string{topic(1, 0), topic(2, 0)}
	slices.Sort(want)
	if d := cmp.Diff([][]string{want, {topic(1, 1), topic(1, 2)}, {topic(1, 1)}, {topic(3, 0)}},
		[][]string{deletes, name(c.Leaders), name(c.ElectedLeaders), name(c.Followers)}); d != "" {
		t.Error(d)
	}
	if !LocalChanges(new, new, 1).IsEmpty() {
		t.Error("an image differs from itself")
	}
	if diff := Diff(old, new); len(diff.CreatedTopics) != 1 || len(diff.RemovedTopics) != 1 || diff.CreatedTopics[0].Name != "u" || len(diff.Brokers) != 0 {
		t.Errorf("diff %+v", diff)
	}
}
