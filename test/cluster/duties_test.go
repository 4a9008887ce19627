package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/test/cluster"
)

// Every duty of the active controller, shown by the commands that an operator types. It reads from top to bottom: each
// function is a duty, each line a command, its exit code, and what must be in its output.
func TestDuties(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{
		"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500", "auto.leader.rebalance.enable=false",
	}})
	o := operator{t, c}
	createThreeWays(o)
	place(o)
	showStates(o)
	addPartitions(o)
	configure(o)
	reassign(o)
	elect(o)
	updateFeatures(o)
	deleteTopics(o)
	loseAndRegainABroker(o)
	electUncleanly(o)
	explain(o)
	c.SameDumps(t)
	changeTheQuorum(o)
}

// Topics are created by command, by Kafka's CreateTopics, and by asking for them.
func createThreeWays(o operator) {
	o.t.Helper()
	o.does("topic create orders --replica-assignment 1:2:3,2:3:1 --config retention.ms=86400000 --dry-run", 0, "would have created topic orders", `Topic name="orders"`, "Partition ")
	o.does("topic list", 0, "metadataOffset=")
	o.does("topic create orders --replica-assignment 1:2:3,2:3:1 --config retention.ms=86400000", 0, "created topic orders", "partitions=2 replicationFactor=3")

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := o.c.Client(o.t, kgo.AllowAutoTopicCreation())
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 3, 3, nil, "billing"); err != nil {
		o.t.Fatalf("CreateTopics: %v", err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "clicks", Value: []byte("the first")}).FirstErr(); err != nil {
		o.t.Fatalf("produce to a topic that is not there: %v", err)
	}
	o.does("topic list", 0, "billing", "clicks", "orders")
	o.does("topic describe billing clicks", 0, "topic billing", "topic clicks", "  2 replicas=[")

	// Names, counts and collisions, also between topics of one request.
	o.does("topic create a.b a_b", 1, "created topic a.b", "error: INVALID_TOPIC_EXCEPTION: a_b: ")
	o.does("topic create orders", 1, "error: TOPIC_ALREADY_EXISTS")
	o.does("topic create no/slash", 1, "error: INVALID_TOPIC_EXCEPTION")
	o.does("topic create wide --replication-factor 4", 1, "error: INVALID_REPLICATION_FACTOR", "3")
	o.does("topic create huge --partitions 10000 --replication-factor 1", 1, "error: POLICY_VIOLATION", "10001 records", "metadata.max.records.per.batch is 10000")
	o.does("topic create odd --config foo=1", 1, `error: INVALID_CONFIG: topic config "foo" is unknown`)
}

// Replicas and leaders are spread evenly. (Racks: quorum/controller/placement_test.go; all nodes of dev are in one.)
func place(o operator) {
	o.t.Helper()
	o.does("topic create spread --partitions 6 --replication-factor 2", 0, "created topic spread", "partitions=6 replicationFactor=2")
	described := o.does("topic describe spread", 0)
	for broker := 1; broker <= 3; broker++ {
		if n := strings.Count(described, fmt.Sprintf("leader=%d ", broker)); n != 2 {
			o.t.Errorf("broker %d leads %d of 6 partitions:\n%s", broker, n, described)
		}
	}
	o.does("topic delete spread", 0, "deleted topic spread")
	o.does("topic create far --replica-assignment 1:9", 1, "error: INVALID_REPLICA_ASSIGNMENT", "broker 9, which is not registered", "quorate broker list")
}

// The states of the older controller are views of the image.
func showStates(o operator) {
	o.t.Helper()
	o.does("topic describe orders --states", 0, "0 replicas=[1,2,3] leader=1 isr=[1,2,3]", "state=Online replicas 1:Online 2:Online 3:Online")
	o.does("topic describe --unhealthy", 0, "metadataOffset=")
	o.does("topic list --deleting", 0, "metadataOffset=")
}

func addPartitions(o operator) {
	o.t.Helper()
	o.does("topic add-partitions orders --partitions 3 --replica-assignment 3:1:2 --dry-run", 0, "would have extended topic orders", "partition=2 replicas=[3,1,2]")
	o.does("topic add-partitions orders --partitions 3 --replica-assignment 3:1:2", 0, "extended topic orders partitions=3")
	o.does("topic add-partitions orders --partitions 3", 1, "error: INVALID_PARTITIONS: topic orders has 3 partitions")
	o.does("topic add-partitions nothing --partitions 3", 1, "error: UNKNOWN_TOPIC_OR_PARTITION")
}

// Values of topics, of one broker and of all, each shown with its source.
func configure(o operator) {
	o.t.Helper()
	o.does("config describe --topic orders", 0, "retention.ms=86400000 DYNAMIC_TOPIC_CONFIG", "min.insync.replicas=2 DYNAMIC_DEFAULT_BROKER_CONFIG", "segment.bytes=1073741824 DEFAULT_CONFIG")
	o.does("config set --broker-defaults retention.bytes=1000000 --dry-run", 0, `Config resource_type=BROKER key="retention.bytes" value="1000000"`)
	o.does("config set --broker-defaults retention.bytes=1000000", 0)
	o.does("config describe --topic orders", 0, "retention.bytes=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG")
	o.does("config set --topic orders retention.bytes=-1", 0)
	o.does("config describe --topic orders", 0, "retention.bytes=-1 DYNAMIC_TOPIC_CONFIG")
	o.does("config unset --topic orders retention.bytes retention.ms --dry-run", 0, "would have unset topic orders")
	o.does("config unset --topic orders retention.bytes retention.ms", 0)
	o.does("config unset --broker-defaults retention.bytes", 0)
	o.does("config describe --topic orders", 0, "retention.bytes=-1 DEFAULT_CONFIG", "retention.ms=604800000 DEFAULT_CONFIG")
	o.does("config set --broker 2 leader.replication.throttled.rate=1000", 0)
	o.does("config describe --broker 2", 0, "leader.replication.throttled.rate=1000 DYNAMIC_BROKER_CONFIG")
	o.does("config set --topic orders min.insync.replicas=none", 1, "error: INVALID_CONFIG", "whole number from 1")
	o.does("config set --topic orders retention.mss=1", 1, `did you mean "retention.ms"?`)
}

// Moves by hand and by Kafka's plan files, in steps, and back.
func reassign(o operator) {
	o.t.Helper()
	plan := filepath.Join(o.t.TempDir(), "plan.json")
	write := func(text string) {
		o.t.Helper()
		if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
			o.t.Fatal(err)
		}
	}
	write(`{"version":1,"partitions":[{"topic":"billing","partition":0,"replicas":[1,2]},{"topic":"billing","partition":1,"replicas":[2,3]}]}`)
	o.does("partition reassign --plan "+plan+" --dry-run", 0, "would have reassigned partition billing-0 replicas=[1,2]", "PartitionChange ")
	o.does("partition reassign --plan "+plan+" --wait=data", 0, "reassigned partition billing-0", "reassigned partition billing-1")
	o.does("topic describe billing", 0, "0 replicas=[1,2] leader=", "1 replicas=[2,3] leader=")
	o.does("partition reassign billing-0 --replicas 2,3,1 --wait=data", 0)
	o.does("partition reassign billing-1 --replicas 2,3,1 --wait=data", 0)
	o.does("topic describe billing", 0, "0 replicas=[2,3,1] leader=", "1 replicas=[2,3,1] leader=")
	o.does("partition reassignments", 0, "metadataOffset=")
	o.does("partition cancel billing-0 --dry-run", 1, "error: NO_REASSIGNMENT_IN_PROGRESS")

	// What is wrong in a plan is said with its place; what it names twice or what is not there, with its name.
	write("{\"version\":1,\"partitions\":[\n  {\"topic\":\"billing\",\"partition\":0,\"replicas\":[1,}]}")
	o.does("partition reassign --plan "+plan, 2, "line 2, column")
	write(`{"version":1,"partitions":[{"topic":"billing","partition":0,"replicas":[1,2]},{"topic":"billing","partition":0,"replicas":[2,1]}]}`)
	o.does("partition reassign --plan "+plan, 2, "billing-0")
	write(`{"version":1,"partitions":[{"topic":"nothing","partition":0,"replicas":[1]}]}`)
	o.does("partition reassign --plan "+plan, 1, "error: UNKNOWN_TOPIC_OR_PARTITION")
	o.does("partition reassign billing-0 --replicas 1,9", 1, "error: INVALID_REPLICA_ASSIGNMENT", "broker 9, which is not registered")
}

// Preferred elections by request: the order of the replicas is changed, and leadership follows.
func elect(o operator) {
	o.t.Helper()
	o.does("partition reassign orders-0 --replicas 2,3,1 --wait=data", 0)
	o.does("topic describe orders", 0, "0 replicas=[2,3,1] leader=1")
	o.does("partition elect --preferred orders-0 --dry-run", 0, "would have elected partition orders-0 leader=2", "reason=PREFERRED_ELECTION")
	o.does("partition elect --preferred --all", 0, "elected partition orders-0 leader=2")
	o.does("topic describe orders", 0, "0 replicas=[2,3,1] leader=2")
	o.does("partition elect --preferred orders-0", 1, "error: ELECTION_NOT_NEEDED")
	o.does("partition elect --unclean orders-0", 1, "error: ELECTION_NOT_NEEDED")
}

// Finalized levels: shown, refused with who supports what, taken down and up again.
func updateFeatures(o operator) {
	o.t.Helper()
	const elr = "eligible.leader.replicas.version"
	o.does("feature describe", 0, "feature "+elr+" level=1 supported=0-1", "feature metadata.version level=1 supported=1-1")
	o.does("feature upgrade metadata.version=2", 1, "error: INVALID_UPDATE_VERSION", "level 2 is supported by no node",
		"controllers 1001, 1002, 1003 support 1-1", "brokers 1, 2, 3 support 1-1")
	o.does("feature upgrade "+elr+"=0", 1, "ask for a downgrade")
	o.does("feature downgrade nosuch=0", 1, "error: INVALID_UPDATE_VERSION: feature nosuch: no node knows it", elr)
	o.does("feature downgrade "+elr+"=0 --dry-run", 0, "would have downgraded feature "+elr, "FeatureLevel ")
	o.does("feature downgrade "+elr+"=0", 0, "downgraded feature "+elr+" level=0")
	o.does("feature describe", 0, "feature "+elr+" level=0")
	o.does("feature upgrade "+elr+"=1", 0)
}

// A deleted topic is another one when it is back; its bytes are removed everywhere.
func deleteTopics(o operator) {
	o.t.Helper()
	before := o.does("topic describe clicks", 0)
	o.does("topic delete clicks --dry-run", 0, "RemoveTopic ")
	o.does("topic delete clicks --wait=data", 0, "deleted topic clicks")
	o.does("topic describe clicks", 1, "error: UNKNOWN_TOPIC_OR_PARTITION")
	o.does("topic create clicks --partitions 1", 0)
	if after := o.does("topic describe clicks", 0); idLine(after) == idLine(before) {
		o.t.Errorf("the topic has its old id: %s", after)
	}
	o.does("topic delete clicks nothing --wait=data", 1, "deleted topic clicks", "error: UNKNOWN_TOPIC_OR_PARTITION: nothing: ")
}

// idLine is the line that names topic and id.
func idLine(described string) string {
	for line := range strings.Lines(described) {
		if strings.HasPrefix(line, "topic ") {
			return line
		}
	}
	return ""
}

// A broker dies: it is fenced, its partitions go on, and what may not be done meanwhile is refused. It comes back, catches
// up, and is let into every ISR by the leaders.
func loseAndRegainABroker(o operator) {
	o.t.Helper()
	o.does("broker list", 0, "broker 1 epoch=", "broker 3 epoch=")
	o.does("check stop 3", 0, "node 3 may stop: yes")
	o.does("check stop 3 --margin 1", 1, "partition orders-0: 2 in sync, 3 wanted")
	o.c.Kill(o.t, 3)
	o.c.AwaitBroker(o.t, 3, "FENCED")
	o.does("broker describe 3", 0, "state=FENCED", "feature metadata.version levels 1 to 1")
	o.does("topic describe orders --states", 0, "3:Offline(is fenced)")
	if n := o.c.Metric(o.t, `quorate_metadata_replica_states{state="Offline"}`); n < 3 {
		o.t.Errorf("metrics tell of %v replicas that are offline, want those of three partitions of orders at least", n)
	}
	o.does("topic describe --unhealthy", 0, "under-replicated: broker 3 is fenced")
	o.does("check stop 2", 1, "node 2 may stop: no")
	o.does("partition reassign orders-0 --replicas 1,3", 0)
	o.does("partition reassignments", 0, "partition orders-0", "waiting-for=[3]")
	o.does("partition reassign orders-0 --replicas 3,1", 0)
	o.does("partition reassignments orders", 0, "partition orders-0 target=[3,1]", "original=[2,3,1]", "in all partitions=1")
	o.does("partition cancel orders-0 --dry-run", 0, "would have cancelled the move of partition orders-0", "REASSIGNMENT_CANCELLED")
	o.does("partition cancel orders-0", 0, "cancelled the move of partition orders-0")
	o.does("topic describe orders", 0, "0 replicas=[2,3,1]")
	o.does("topic delete billing", 0, "deleted topic billing")
	o.does("topic list --deleting", 0, "topic billing", "3:DeletionIneligible(is fenced)")
	o.does("broker unregister 3 --dry-run", 0, "UnregisterBroker broker_id=3")
	o.c.Restart(o.t, 3)
	o.c.AwaitBroker(o.t, 3, "UNFENCED")
	o.c.WholeISRs(o.t, time.Minute, "orders")
	cluster.Eventually(o.t, time.Minute, "nothing is wrong", func() error {
		if out := o.does("topic describe --unhealthy", 0); strings.Contains(out, "topic ") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	o.does("broker describe 3", 0, "state=UNFENCED", "lastStop=process-crash")
	cluster.Eventually(o.t, time.Minute, "the data of the deleted topic is gone, on the broker that was away too", func() error {
		if out := o.does("topic list --deleting", 0); strings.Contains(out, "topic ") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

// The last replica in sync is gone and another one is there: nobody leads until an operator says so, for one partition by
// request, for the other by the topic's setting.
func electUncleanly(o operator) {
	o.t.Helper()
	o.does("topic create ledger --replica-assignment 2:3,2:3 --config min.insync.replicas=1", 0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := o.c.Client(o.t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	produce := func(value string) {
		o.t.Helper()
		for p := range int32(2) {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: "ledger", Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	produce("on both disks")
	o.c.Signal(o.t, 3, syscall.SIGTERM) // an orderly stop: it hands over and leaves every ISR
	o.c.AwaitGone(o.t, 3)
	o.does("topic describe ledger", 0, "0 replicas=[2,3] leader=2 isr=[2]", "1 replicas=[2,3] leader=2 isr=[2]")
	produce("on one disk")
	o.c.Kill(o.t, 2)
	o.c.AwaitBroker(o.t, 2, "FENCED")
	o.does("topic describe ledger", 0, "0 replicas=[2,3] leader=none", "1 replicas=[2,3] leader=none")
	o.c.Restart(o.t, 3)
	o.c.AwaitBroker(o.t, 3, "UNFENCED")
	o.does("broker describe 3", 0, "lastStop=clean")
	o.does("topic describe --unhealthy ledger", 0, "no leader", "broker 2 is fenced")
	o.does("partition elect --preferred ledger-0", 1, "error: PREFERRED_LEADER_NOT_AVAILABLE")
	o.does("partition elect --unclean ledger-0 --dry-run", 0, "does not answer", "shall lead", "would have elected partition ledger-0 leader=3", "UNCLEAN_ELECTION")
	o.does("partition elect --unclean ledger-0", 0, "elected partition ledger-0 leader=3 (acknowledged records from offset 1 on may be lost")
	o.does("config set --topic ledger unclean.leader.election.enable=true --dry-run", 0, "would have set topic ledger", "PartitionChange ", "leader=3")
	o.does("config set --topic ledger unclean.leader.election.enable=true", 0)
	o.does("topic describe ledger", 0, "0 replicas=[2,3] leader=3", "1 replicas=[2,3] leader=3")
	o.c.Restart(o.t, 2)
	o.c.AwaitBroker(o.t, 2, "UNFENCED")
	o.c.WholeISRs(o.t, time.Minute, "ledger", "orders")
	o.does("broker unregister 7", 1, "error: BROKER_ID_NOT_REGISTERED", "quorate broker list")
	o.does("broker unregister 3 --dry-run", 0, "would have unregistered broker 3", "UnregisterBroker broker_id=3")
}

// Controllers join, leave and hand over. (With deaths in between: membership_test.go; after the loss of the majority:
// recover_test.go.)
func changeTheQuorum(o operator) {
	o.t.Helper()
	o.does("quorum add 1004", 1, "error: BROKER_ID_NOT_REGISTERED: controller 1004", "--no-initial-controllers")
	o.c.StartController(o.t, 1004)
	cluster.Eventually(o.t, time.Minute, "the new controller has registered", func() error {
		if _, errs, code := o.c.CLI(o.t, "quorum", "add", "1004", "--dry-run"); code != 0 {
			return errors.New(errs)
		}
		return nil
	})
	o.does("quorum add 1004", 0, "added controller 1004")
	o.does("quorum status", 0, "node 1004 voter")
	o.does("check stop 1004", 0, "voters left 3 of 3 wanted")
	o.does("check stop 1004 --margin 1", 1, "voters left 3 of 4 wanted")
	o.does("quorum transfer 1004 --dry-run", 0, "would have transferred the active role", "to controller 1004")
	o.does("quorum transfer 1004", 0, "to controller 1004")
	o.does("quorum remove 1004 --dry-run", 0, "would have removed controller 1004", "RemovedController controller_id=1004")
	o.does("quorum remove 1004", 0, "removed controller 1004")
	o.does("quorum status", 0, "removed 1004")
	o.does("quorum remove 1009", 1, "error: VOTER_NOT_FOUND")
	o.does("quorum recover --confirm", 1, "it was never recovered")
	o.does("quorum recover --offline --config "+o.c.Node(o.t, 1001).Config, 1, "stop it first")
}

// The quorum, the log, the image and the life of a partition.
func explain(o operator) {
	o.t.Helper()
	o.does("quorum status", 0, "node 1001 voter", "node 1002 voter", "node 1003 voter", "state=leader")
	o.does("check stop 1001", 0, "node 1001 may stop: yes")
	o.does("metadata log", 0, "<- CreateTopics", "<- CreatePartitions", "<- AlterConfigs", "<- AlterPartitionReassignments", "<- ElectLeaders",
		"<- UpdateFeatures", "<- DeleteTopics", "<- AlterPartition broker ")
	o.does("metadata log --from 3 --to 3", 0, "entry raftIndex=", "  3 ")
	o.does("metadata dump", 0, `"name":"orders"`, `"features":[{"name":"eligible.leader.replicas.version","level":1}`)
	o.does("metadata dump --at 2", 0, `{"metadataOffset":2,`, `"topics":[]`)
	o.does("metadata history orders-0", 0, "complete from offset 0", "created the topic", "moved the replicas to [2,3,1]", "moved the replicas to [3,1] ",
		"asked for the preferred leader", "cancelled the move", "broker 3's session ended")
	o.does("metadata history ledger-0", 0, "unclean")
}
