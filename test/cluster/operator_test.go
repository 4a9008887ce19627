package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// operator types commands and reads what comes back.
type operator struct {
	t *testing.T
	c *cluster.Cluster
}

// does runs a command line, wants its exit code, and wants each of the texts in its output.
func (o operator) does(line string, code int, texts ...string) string {
	o.t.Helper()
	out, errs, got := o.c.CLI(o.t, strings.Fields(line)...)
	if got != code {
		o.t.Fatalf("quorate %s: exit %d, expected %d\n%s%s", line, got, code, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			o.t.Errorf("quorate %s: no %q in\n%s%s", line, text, out, errs)
		}
	}
	return out
}

// The day of an operator on a cluster of three brokers, command by command.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Set: []string{"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"}})
	o := operator{t, c}

	// More partitions, where the operator wants them.
	o.does("topic create orders --replica-assignment 1:2:3,2:3:1", 0, "created topic orders")
	o.does("topic add-partitions orders --partitions 3 --replica-assignment 3:1:2", 0, "extended topic orders partitions=3")
	o.does("topic add-partitions orders --partitions 2", 1, "error: INVALID_PARTITIONS")
	o.does("topic describe orders --states", 0, "2 replicas=[3,1,2] leader=3", "state=Online replicas 3:Online 1:Online 2:Online")

	// Configs, each with its source.
	o.does("config set --topic orders retention.ms=3600000 --dry-run", 0, "would have set topic orders")
	o.does("config set --topic orders retention.ms=3600000", 0)
	o.does("config describe --topic orders", 0, "retention.ms=3600000 DYNAMIC_TOPIC_CONFIG", "min.insync.replicas=2 DYNAMIC_DEFAULT_BROKER_CONFIG")
	o.does("config unset --topic orders retention.ms", 0)
	o.does("config describe --topic orders", 0, "retention.ms=604800000 DEFAULT_CONFIG")
	o.does("config set --topic orders retention.mss=1", 1, "error: INVALID_CONFIG", "retention.ms")
	o.does("config describe --broker 1 --broker-defaults", 0, "broker 1", "broker-defaults", "min.insync.replicas=2")

	// May a broker stop? With all three in sync yes, but not if one in-sync replica more is wanted.
	o.does("check stop 3", 0, "may stop: yes")
	o.does("check stop 3 --margin 1", 1, "may stop: no", "partition orders-0: 2 in sync, 3 wanted")
	o.does("check stop 1001", 0, "voters left 2 of 2 wanted")
	o.does("check stop 77", 3, "error: BROKER_ID_NOT_REGISTERED")

	moveReplicas(o)
	loseABroker(o)

	// The log tells all of it.
	o.does("metadata log", 0, `Topic name="orders"`, "<- CreateTopics", "<- CreatePartitions", "<- AlterConfigs", "<- AlterPartitionReassignments")
}

// moveReplicas moves by a plan and by hand, and takes a move back.
func moveReplicas(o operator) {
	o.t.Helper()
	plan := filepath.Join(o.t.TempDir(), "plan.json")
	write := func(text string) {
		o.t.Helper()
		if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
			o.t.Fatal(err)
		}
	}
	write("{\"version\":1,\"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[1,2]},\n  {\"topic\":\"orders\",,}]}")
	o.does("partition reassign --plan "+plan, 2, "line 3, column 21")
	write(`{"version":1,"partitions":[
  {"topic":"orders","partition":0,"replicas":[1,2]},
  {"topic":"orders","partition":1,"replicas":[3,2]},
  {"topic":"nothing","partition":0,"replicas":[1]}]}`)
	o.does("partition reassign --plan "+plan+" --wait=data", 1, "reassigned partition orders-0", "error: UNKNOWN_TOPIC_OR_PARTITION: nothing-0")
	o.does("topic describe orders", 0, "0 replicas=[1,2] leader=1", "1 replicas=[3,2]")
	o.does("partition reassign orders-0 --replicas 2,1 --wait=data", 0)
	o.does("partition elect --preferred orders-0", 0, "elected partition orders-0 leader=2")
	o.does("partition elect --preferred orders-0", 1, "error: ELECTION_NOT_NEEDED")
	o.does("partition cancel orders-0", 1, "error: NO_REASSIGNMENT_IN_PROGRESS")
}

// loseABroker lets a broker die in the middle of a move, and comes out without it.
func loseABroker(o operator) {
	o.t.Helper()
	o.c.Kill(o.t, 3)
	o.c.AwaitBroker(o.t, 3, "FENCED")
	o.does("broker describe 3", 0, "state=FENCED")
	o.does("topic describe orders --states", 0, "3:Offline(is fenced)")
	o.does("check stop 2", 1, "may stop: no")

	// A move to the dead broker does not end; it is taken back, and the replicas are as they were.
	o.does("partition reassign orders-0 --replicas 2,3", 0)
	o.does("partition reassignments", 0, "partition orders-0 target=[2,3] waiting-for=[3]")
	o.does("partition cancel orders-0", 0, "cancelled the move of partition orders-0")
	o.does("topic describe orders", 0, "0 replicas=[2,1]")

	// A deleted topic is not gone while a broker that holds data of it is away.
	o.does("topic create short --replica-assignment 1:2:3", 0)
	o.does("topic delete short", 0)
	cluster.Eventually(o.t, 30*time.Second, "the live brokers have deleted", func() error {
		out := o.does("topic list --deleting", 0, "3:DeletionIneligible(is fenced)")
		if !strings.Contains(out, "1:DeletionSuccessful 2:DeletionSuccessful 3:") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})

	// It does not come back: without its registration nothing waits for it.
	o.does("broker unregister 3 --dry-run", 0, "UnregisterBroker broker_id=3")
	o.does("broker unregister 3", 0, "unregistered broker 3")
	o.does("broker describe 3", 1, "error: BROKER_ID_NOT_REGISTERED")
	o.does("partition elect --unclean orders-0", 1, "error: ELECTION_NOT_NEEDED")

	// One that runs may be unregistered as well. It leads nothing any more, and says that it is not ready and why.
	o.does("broker unregister 2", 0, "unregistered broker 2")
	cluster.Eventually(o.t, 30*time.Second, "broker 2 knows that it is unregistered", func() error {
		if err := o.c.Readyz(o.t, 2); err == nil || !strings.Contains(err.Error(), "broker 2 is not registered any more") {
			return fmt.Errorf("readyz: %w", err)
		}
		return nil
	})
	o.c.Kill(o.t, 2)
	o.c.Restart(o.t, 2)
	o.c.AwaitReady(o.t, 2, time.Minute)
}
