package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// historyOf is what one controller tells of a partition, from its own history. One that has just been started may not answer yet.
func historyOf(o operator, node int, args string) (head, events string, err error) {
	o.t.Helper()
	out, errs, code := o.c.CLI(o.t, strings.Fields(fmt.Sprintf("metadata history %s --node %d", args, node))...)
	if code != 0 {
		return "", "", fmt.Errorf("exit %d: %s", code, errs)
	}
	// The first line names the newest offset, which differs from moment to moment.
	head, events, _ = strings.Cut(out, "\n")
	return head, events, nil
}

// sameHistory waits until all controllers tell the same of a partition, complete from the first record, up to an event.
func sameHistory(o operator, args, until string) string {
	o.t.Helper()
	var text string
	cluster.Eventually(o.t, 60*time.Second, "equal histories of "+args, func() error {
		text = ""
		for _, id := range o.c.IDs("controller") {
			head, events, err := historyOf(o, id, args)
			if err != nil {
				return fmt.Errorf("node %d: %w", id, err)
			}
			if !strings.HasSuffix(head, "complete from offset 0") || !strings.Contains(events, until) {
				return fmt.Errorf("node %d:\n%s\n%s", id, head, events)
			}
			if text != "" && events != text {
				return fmt.Errorf("node %d:\n%s\nanother:\n%s", id, events, text)
			}
			text = events
		}
		return nil
	})
	return text
}

// What happened to a partition, told by every controller alike: through the death of its leader, of the active controller,
// with Raft logs so short that most of it is in the history only, and after its topic is gone.
func TestHistoryOfAPartition(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{
		"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500",
		"metadata.log.snapshot.entries=20", "metadata.log.trailing.entries=5",
	}})
	o := operator{t, c}
	o.does("topic create orders --replica-assignment 3:1:2", 0)
	dump := o.does("metadata dump", 0)
	o.does("partition reassign orders-0 --replicas 3,1 --wait=data", 0)
	o.does("partition reassign orders-0 --replicas 3,1,2 --wait=data", 0)

	// The leader dies, another leads, and the first comes back.
	c.Kill(t, 3)
	c.AwaitBroker(t, 3, "FENCED")
	c.Restart(t, 3)
	c.WholeISRs(t, 60*time.Second, "orders")
	o.does("partition elect --preferred orders-0", 0)

	// The active controller dies in between, and comes back to an installed snapshot or to the log.
	dead := c.Active(t)
	c.Kill(t, dead)
	for i := range 40 {
		o.does(fmt.Sprintf("topic create filler-%d --partitions 1 --replication-factor 1 --no-wait", i), 0)
	}
	c.Restart(t, dead)
	c.AwaitReady(t, dead, 60*time.Second)

	told := sameHistory(o, "orders-0", "asked for the preferred leader")
	next := 0
	for _, want := range []string{
		"created leader=3 leaderEpoch=0 partitionEpoch=0 replicas=[3,1,2] isr=[3,1,2]",
		"state=NonExistent->New->Online replicas 1,2,3:NonExistent->New->Online  <- operator ANONYMOUS created the topic",
		"<- operator ANONYMOUS moved the replicas to [3,1]",
		"the move is complete",
		"changed leader=3->1 leaderEpoch=",
		"<- broker 3's session ended",
		"<- leader 1 expanded the ISR: broker 3 caught up",
		"changed leader=1->3",
		"<- operator ANONYMOUS asked for the preferred leader",
	} {
		at := strings.Index(told[next:], want)
		if at < 0 {
			t.Fatalf("no %q from byte %d on in\n%s", want, next, told)
		}
		next += at
	}
	t.Logf("told:\n%s", told)

	// The image of then is built again, the same bytes on every controller.
	var then struct {
		MetadataOffset int64 `json:"metadataOffset"`
	}
	if err := json.Unmarshal([]byte(dump), &then); err != nil {
		t.Fatal(err)
	}
	for _, id := range c.IDs("controller") {
		if again := o.does(fmt.Sprintf("metadata dump --at %d --node %d", then.MetadataOffset, id), 0); again != dump {
			t.Errorf("node %d at offset %d:\n%s\nthen\n%s", id, then.MetadataOffset, again, dump)
		}
		o.does(fmt.Sprintf("metadata log --to 30 --node %d", id), 0, "\n  0 ", `Topic name="orders"`)
	}

	deletedTopicIsTold(o, told)
}

// deletedTopicIsTold deletes the topic and makes another of the same name.
func deletedTopicIsTold(o operator, told string) {
	o.t.Helper()
	topics, err := o.c.Describe(o.t, "orders")
	if err != nil {
		o.t.Fatal(err)
	}
	id := topics[0].TopicID
	o.does("topic delete orders --wait=data", 0)
	o.does("metadata history orders-0", 1, "error: UNKNOWN_TOPIC_OR_PARTITION", id)
	gone := sameHistory(o, "0 --topic-id "+id, "state=Offline->NonExistent")
	if !strings.HasPrefix(gone, strings.TrimSuffix(told, "\n")) || !strings.Contains(gone, "removed state=Online->Offline replicas 1,2,3:Online->Offline->DeletionStarted  <- operator ANONYMOUS deleted the topic") {
		o.t.Errorf("after the deletion:\n%s", gone)
	}
	o.does("topic create orders --partitions 1 --replication-factor 2", 0)
	if fresh := sameHistory(o, "orders-0", "created"); strings.Contains(fresh, "session ended") || !strings.Contains(fresh, id) {
		o.t.Errorf("of the new topic:\n%s", fresh)
	}
}
