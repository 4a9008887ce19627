package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quorate/quorate/test/cluster"
)

// The first thing a newcomer does: start, create, describe, be refused, delete, stop.
func TestDevCreateDescribeRefuseDelete(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	if len(c.Nodes) != 6 || len(c.Kafka) != 3 || len(c.Controllers) != 3 {
		t.Fatalf("cluster.json has %d nodes, %d bootstrap addresses, %d controllers", len(c.Nodes), len(c.Kafka), len(c.Controllers))
	}
	c.Must(t, "topic", "create", "orders", "--partitions", "12", "--replication-factor", "3")
	topics, err := c.Describe(t, "orders")
	if err != nil {
		t.Fatal(err)
	}
	if len(topics) != 1 || len(topics[0].Partitions) != 12 {
		t.Fatalf("described %+v", topics)
	}
	for _, p := range topics[0].Partitions {
		if len(p.Replicas) != 3 || len(p.ISR) != 3 || p.Leader != p.Replicas[0] {
			t.Errorf("partition %+v", p)
		}
	}
	for name, refused := range map[string]struct {
		args  []string
		wants []string
	}{
		"replication factor": {[]string{"topic", "create", "wide", "--partitions", "1", "--replication-factor", "4"}, []string{"INVALID_REPLICATION_FACTOR", "4", "3"}},
		"exists":             {[]string{"topic", "create", "orders", "--partitions", "1"}, []string{"TOPIC_ALREADY_EXISTS", "orders"}},
		"name":               {[]string{"topic", "create", "no/slash", "--partitions", "1"}, []string{"INVALID_TOPIC_EXCEPTION", "no/slash"}},
		"partitions":         {[]string{"topic", "create", "none", "--partitions", "0"}, []string{"INVALID_PARTITIONS", "0"}},
		"config":             {[]string{"topic", "create", "conf", "--partitions", "1", "--config", "retention.ms=soon"}, []string{"INVALID_CONFIG", "retention.ms", "soon"}},
		"unknown":            {[]string{"topic", "delete", "nothing-here"}, []string{"UNKNOWN_TOPIC_OR_PARTITION", "nothing-here"}},
	} {
		_, errs, code := c.CLI(t, refused.args...)
		if code != 1 {
			t.Errorf("%s: exit %d, want 1: %s", name, code, errs)
		}
		for _, want := range refused.wants {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q is not in %q", name, want, errs)
			}
		}
	}
	if _, _, code := c.CLI(t, "topic", "create"); code != 2 {
		t.Errorf("a command without its argument: exit %d, want 2", code)
	}
	dump := c.Must(t, "metadata", "dump")
	if !json.Valid([]byte(dump)) || !strings.Contains(dump, `"orders"`) {
		t.Errorf("dump is not JSON with the topic: %.200s", dump)
	}
	out := c.Must(t, "topic", "create", "dry", "--partitions", "2", "--dry-run")
	if !strings.Contains(out, "Topic") || !strings.Contains(out, "dry") {
		t.Errorf("dry run printed %q", out)
	}
	c.Must(t, "topic", "delete", "orders", "--wait=data")
	if list := c.Must(t, "topic", "list"); strings.Contains(list, "orders") || strings.Contains(list, "dry") {
		t.Errorf("list after delete: %q", list)
	}
}
