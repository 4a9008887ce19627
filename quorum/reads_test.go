package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// readLog collects what a member sends of its log.
func readLog(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, from int64) ([]*controllerpb.EntryFrame, error) {
	t.Helper()
	stream, err := controllerpb.NewReaderApiClient(c.Conn(t, m)).ReadLog(soon(t), &controllerpb.ReadLogRequest{
		FromOffset: from, Options: &controllerpb.ReadOptions{Local: true},
	})
	if err != nil {
		return nil, err
	}
	var out []*controllerpb.EntryFrame
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r.GetEntry())
	}
}

// The log of any controller, read from any offset, has every record from there on, the entry around the offset whole.
func TestLogIsReadFromAnyOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "orders", 5, 1) // one entry of six records
		c.SameImages(t)
		m := c.Members[2]
		end := int64(offsetOf(m))
		for from := range end + 1 {
			entries, err := readLog(t, c, m, from)
			if err != nil || len(entries) == 0 {
				t.Fatalf("from %d: %d entries, %v", from, len(entries), err)
			}
			first := entries[0]
			if first.GetBaseOffset() > from || first.GetBaseOffset()+int64(first.GetRecords()) <= from {
				t.Errorf("from %d the first entry is %d+%d", from, first.GetBaseOffset(), first.GetRecords())
			}
			next := first.GetBaseOffset()
			for _, e := range entries {
				if e.GetBaseOffset() != next || record.ChainAfter(e.GetEntry()) != record.Chain(e.GetChain()) {
					t.Errorf("from %d: entry at %d, expected %d", from, e.GetBaseOffset(), next)
				}
				next += int64(e.GetRecords())
			}
			if next != end+1 {
				t.Errorf("from %d the log ends before %d, expected %d", from, next, end+1)
			}
		}
		if entries, err := readLog(t, c, m, end+1); err != nil || len(entries) != 0 {
			t.Errorf("after the end: %d entries, %v", len(entries), err)
		}
	})
}

// What a snapshot has swallowed is refused, and the refusal names an offset from which the log can be read.
func TestCompactedLogNamesWhereItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1, Configure: func(cfg *quorum.Config) {
			cfg.SnapshotEntries, cfg.TrailingEntries, cfg.HistoryRetentionBytes = 10, 2, -1 // no history
		}})
		c.RegisterBroker(t, 1)
		for i := range 20 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), 1, 1)
		}
		<-time.After(10 * time.Second) // several snapshot intervals
		m := c.Members[0]
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Run(t, m)
		c.Active(t)
		c.CreateTopic(t, "after", 1, 1)
		_, err := readLog(t, c, m, 0)
		if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE) {
			t.Fatalf("offset 0: %v", err)
		}
		var node, asked, begins int64
		text := err.Error()[len("rpc error: code = OutOfRange desc = OFFSET_OUT_OF_RANGE: "):]
		if _, err := fmt.Sscanf(text, "log and history of node %d do not reach back to metadata offset %d; they begin at %d;",
			&node, &asked, &begins); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if entries, err := readLog(t, c, m, begins); err != nil || len(entries) == 0 {
			t.Errorf("from %d: %d entries, %v", begins, len(entries), err)
		}
		if begins > int64(offsetOf(m))-1 {
			t.Errorf("the log begins at %d and ends at %d, though a topic was created after the start", begins, offsetOf(m))
		}
		if _, err := readLog(t, c, m, begins-1); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE) {
			t.Errorf("from %d: %v", begins-1, err)
		}
	})
}

// A stop is judged by the members of the ISR that would be left, all from one image.
func TestCheckStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "alone", 1, 1)
		c.RegisterBroker(t, 2)
		c.CreateTopic(t, "shared", 2, 2)
		check := func(id, margin int32) string {
			r, err := controllerpb.NewReaderApiClient(c.Client).CheckStop(soon(t), &controllerpb.CheckStopRequest{BrokerId: id, Margin: margin})
			if err != nil {
				t.Fatal(err)
			}
			out := fmt.Sprintf("registered=%t harmed=%d", r.GetRegistered(), r.GetHarmedPartitions())
			for _, h := range r.GetHarms() {
				out += fmt.Sprintf(" %s-%d:%t,%d/%d", h.GetTopic(), h.GetPartition(), h.GetLeaderless(), h.GetInSync(), h.GetWanted())
			}
			return out
		}
		for _, x := range []struct {
			id, margin int32
			want       string
		}{
			{1, 0, "registered=true harmed=1 alone-0:true,0/1"},
			{2, 0, "registered=true harmed=0"},
			{2, 1, "registered=true harmed=2 shared-0:false,1/2 shared-1:false,1/2"},
			{1, 1, "registered=true harmed=3 alone-0:true,0/2 shared-0:false,1/2 shared-1:false,1/2"},
			{9, 0, "registered=false harmed=0"},
		} {
			if got := check(x.id, x.margin); got != x.want {
				t.Errorf("broker %d margin %d: %s, expected %s", x.id, x.margin, got, x.want)
			}
		}
	})
}

// The derived states follow broker and deletion.
func TestVisibleStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		one := c.RegisterBroker(t, 1)
		two := c.RegisterBroker(t, 2)
		c.CreateTopic(t, "orders", 1, 2)
		if got := states(t, c); got != "ONLINE 1:ONLINE 2:ONLINE" {
			t.Error(got)
		}
		two.Silence()
		awaitState(t, c, 2, true)
		if got := states(t, c); got != "ONLINE 1:ONLINE 2:OFFLINE(is fenced)" {
			t.Error(got)
		}
		name := "orders"
		if _, err := controllerpb.NewOperatorApiClient(c.Client).DeleteTopics(soon(t), &controllerpb.DeleteTopicsRequest{
			Topics: []*controllerpb.DeletableTopic{{Name: &name}},
		}); err != nil {
			t.Fatal(err)
		}
		r, err := controllerpb.NewReaderApiClient(c.Client).ListDeletions(soon(t), &controllerpb.ListDeletionsRequest{})
		if err != nil || len(r.GetTopics()) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		if got := replicas(r.GetTopics()[0].GetReplicas()); got != " 1:DELETION_STARTED 2:DELETION_INELIGIBLE(is fenced)" {
			t.Error(got)
		}
		if _, err := controllerpb.NewBrokerApiClient(c.Client).ReportDeletions(soon(t), &controllerpb.ReportDeletionsRequest{
			BrokerId: 1, BrokerEpoch: one.Epoch, Deleted: [][]byte{r.GetTopics()[0].GetTopicId()},
		}); err != nil {
			t.Fatal(err)
		}
		r, err = controllerpb.NewReaderApiClient(c.Client).ListDeletions(soon(t), &controllerpb.ListDeletionsRequest{})
		if err != nil || len(r.GetTopics()) != 1 || replicas(r.GetTopics()[0].GetReplicas()) != " 1:DELETION_SUCCESSFUL 2:DELETION_INELIGIBLE(is fenced)" {
			t.Errorf("%v, %v", r, err)
		}
	})
}

func states(t *testing.T, c *quorumtest.Cluster) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := controllerpb.NewReaderApiClient(c.Client).DescribeTopics(ctx, &controllerpb.DescribeTopicsRequest{States: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	p := r.GetTopics()[0].GetPartitions()[0]
	return p.GetPartitionState().String()[len("PARTITION_STATE_"):] + replicas(p.GetReplicaStates())
}

func replicas(list []*controllerpb.ReplicaStatus) string {
	out := ""
	byID := map[int32]string{}
	for _, r := range list {
		byID[r.GetBrokerId()] = r.GetState().String()[len("REPLICA_STATE_"):]
		if r.GetReason() != "" {
			byID[r.GetBrokerId()] += "(" + r.GetReason() + ")"
		}
	}
	for id := range image.BrokerID(9) {
		if s, ok := byID[int32(id)]; ok {
			out += fmt.Sprintf(" %d:%s", id, s)
		}
	}
	return out
}
