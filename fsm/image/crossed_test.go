package image

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// crossedText is what each line passes, in the form "partition …; broker …".
func crossedText(c Crossing) string {
	var parts []string
	if c.Partition != nil {
		parts = append(parts, "partition "+joined(c.Partition))
	}
	for _, r := range c.Replicas {
		text := fmt.Sprintf("%d %s", r.Broker, joined(r.States))
		if r.Reason != "" {
			text += " (" + r.Reason + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func joined[S fmt.Stringer](states []S) string {
	var names []string
	for _, s := range states {
		names = append(names, s.String())
	}
	return strings.Join(names, " → ")
}

// TestCrossed: a record that passes several states shows each, in order (Kafka, ReplicaStateMachine and
// PartitionStateMachine).
func TestCrossed(t *testing.T) {
	lines := []struct{ record, want string }{
		{"register id=1 directory=1 fenced=false", ""},
		{"register id=2 directory=2 fenced=false", ""},
		{"register id=3 directory=3", ""},
		{"topic name=t id=1", ""},
		{"partition topic=t n=0 replicas=1,3 isr=1 leader=1", "partition NonExistent → New → Online; 1 NonExistent → New → Online; 3 NonExistent → New → Offline (is fenced)"},
		{"broker id=3 fenced=false", "3 Offline → Online"},
		{"change topic=t n=0 replicas=1,3,2 adding=2 original=1,3", "2 NonExistent → New"},
		{"broker id=2 fenced=true", "2 New → Offline (is fenced)"},
		{"broker id=2 fenced=false", "2 Offline → New"},
		{"change topic=t n=0 isr=1,2", "2 New → Online"},
		{"change topic=t n=0 replicas=1,2 adding= original=", "3 Online → Offline → DeletionStarted → DeletionSuccessful → NonExistent"},
		{"change topic=t n=0 leader=none isr=1", "partition Online → Offline"},
		{"broker id=1 fenced=true", "1 Online → Offline (is fenced)"},
		{"remove topic=t", "1 Offline → DeletionIneligible (is fenced); 2 Online → Offline → DeletionStarted"},
		{"broker id=1 fenced=false", "1 DeletionIneligible → Offline → DeletionStarted"},
		{"failed id=1 topic=1 failure=disk", "1 DeletionStarted → DeletionIneligible (disk)"},
		{"deleted id=2 topic=1", "2 DeletionStarted → DeletionSuccessful"},
		{"broker id=2 fenced=true", ""},
		{"deleted id=1 topic=1", "partition Offline → NonExistent; 1 DeletionIneligible → Offline → DeletionStarted → DeletionSuccessful → NonExistent; 2 DeletionSuccessful → NonExistent"},
		// Nobody can hold data of it: the deletion is over when it begins.
		{"topic name=t id=1", ""},
		{"partition topic=t n=0 replicas=9 isr=9 leader=9", "partition NonExistent → New → Online; 9 NonExistent → New → Offline (is not registered)"},
		{"remove topic=t", "partition Online → Offline → NonExistent; 9 Offline → DeletionStarted → DeletionSuccessful → NonExistent"},
		// A broker that is unregistered is not waited for.
		{"topic name=t id=1", ""},
		{"partition topic=t n=0 replicas=1,3 isr=1 leader=1", "partition NonExistent → New → Online; 1 NonExistent → New → Online; 3 NonExistent → New → Online"},
		{"remove topic=t", "partition Online → Offline; 1 Online → Offline → DeletionStarted; 3 Online → Offline → DeletionStarted"},
		{"unregister id=1", "1 DeletionStarted → DeletionSuccessful → NonExistent"},
		{"unregister id=3", "partition Offline → NonExistent; 3 DeletionStarted → DeletionSuccessful → NonExistent"},
	}
	im := Empty()
	id := PartitionID{Topic: TopicID(testID(1))}
	for i, l := range lines {
		d := im.Fork()
		if err := d.Replay(im.Offset()+1, parseRecord(t, im, l.record)); err != nil {
			t.Fatal(err)
		}
		next := d.Seal(im.Offset()+1, 0)
		if diff := cmp.Diff(l.want, crossedText(Crossed(im, next, id, nil))); diff != "" {
			t.Errorf("%d %s (-want +got):\n%s", i, l.record, diff)
		}
		im = next
	}
}

// TestCrossedRemembersTheReplicas: a deleted topic is kept by broker, so the caller says which of them had the partition.
func TestCrossedRemembersTheReplicas(t *testing.T) {
	im := imageOf(t, "register id=1 directory=1 fenced=false", "register id=2 directory=2 fenced=false", "topic name=t id=1",
		"partition topic=t n=0 replicas=1 isr=1 leader=1", "partition topic=t n=1 replicas=2 isr=2 leader=2", "remove topic=t")
	d := im.Fork()
	mustReplay(t, d, recDeleted(2, testID(1)))
	next := d.Seal(0, 0)
	for _, c := range []struct {
		partition int32
		of        []BrokerID
		want      string
	}{{0, []BrokerID{1}, ""}, {1, []BrokerID{2}, "2 DeletionStarted → DeletionSuccessful"}, {0, nil, "2 DeletionStarted → DeletionSuccessful"}, {2, nil, ""}} {
		if got := crossedText(Crossed(im, next, PartitionID{TopicID(testID(1)), c.partition}, c.of)); got != c.want {
			t.Errorf("partition %d of %v: %q, want %q", c.partition, c.of, got, c.want)
		}
	}
}
