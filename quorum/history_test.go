package quorum_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// shortLogs makes snapshots frequent and the log behind them short.
func shortLogs(cfg *quorum.Config) { cfg.SnapshotEntries, cfg.TrailingEntries = 10, 2 }

// dumpAt is a member's image of the past, in canonical JSON.
func dumpAt(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, offset int64) (string, error) {
	t.Helper()
	stream, err := controllerpb.NewReaderApiClient(c.Conn(t, m)).DumpImage(soon(t), &controllerpb.DumpImageRequest{AtOffset: &offset})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		out.Write(r.GetData())
	}
}

// told is a member's history of a partition, a line a piece.
func told(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, r *controllerpb.ReadHistoryRequest) (*controllerpb.HistoryHead, []string, error) {
	t.Helper()
	r.Options = &controllerpb.ReadOptions{Local: true}
	stream, err := controllerpb.NewReaderApiClient(c.Conn(t, m)).ReadHistory(soon(t), r)
	if err != nil {
		return nil, nil, err
	}
	var head *controllerpb.HistoryHead
	var lines []string
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return head, lines, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch p := r.GetPiece().(type) {
		case *controllerpb.ReadHistoryResponse_Head:
			head = p.Head
		case *controllerpb.ReadHistoryResponse_Gap:
			lines = append(lines, fmt.Sprintf("gap %d..%d: %s", p.Gap.GetFromOffset(), p.Gap.GetToOffset(), p.Gap.GetReason()))
		case *controllerpb.ReadHistoryResponse_Event:
			e := p.Event
			line := ""
			for _, c := range e.GetChanges() {
				line += fmt.Sprintf("%s=%s->%s ", c.GetField(), value(c.GetOld()), value(c.GetNew()))
			}
			lines = append(lines, fmt.Sprintf("%d %s%s <- %s", e.GetMetadataOffset(), line, strings.Join(e.GetStates(), "->"), e.GetText()))
		}
	}
}

func value(v *controllerpb.HistoryValue) string {
	switch k := v.GetKind().(type) {
	case *controllerpb.HistoryValue_Number:
		return fmt.Sprint(k.Number)
	case *controllerpb.HistoryValue_Ids:
		return image.FormatReplicas(image.BrokerIDs(k.Ids.GetIds()))
	case *controllerpb.HistoryValue_Text:
		return k.Text
	}
	return "?"
}

func offsets(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member) (ends []int64) {
	t.Helper()
	entries, err := readLog(t, c, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	for _, e := range entries {
		if e.GetBaseOffset() != next {
			t.Errorf("node %d: entry at %d, expected %d", m.ID, e.GetBaseOffset(), next)
		}
		next = e.GetBaseOffset() + int64(e.GetRecords())
		ends = append(ends, next-1)
	}
	return ends
}

// History reaches behind the log that Raft holds, over restarts: every entry is read, and every image of the past is built,
// the same bytes on every node as when it was the newest.
func TestHistoryReachesBehindTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Configure: shortLogs})
		c.RegisterBroker(t, 1)
		then := map[int64]string{}
		for i := range 30 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), int32(1+i%3), 1)
			m := c.Active(t)
			offset := offsetOf(m)
			dump, err := dumpAt(t, c, m, int64(offset))
			if err != nil {
				t.Fatal(err)
			}
			then[int64(offset)] = dump
			if i%10 == 9 {
				<-time.After(10 * time.Second) // some snapshots
			}
		}
		c.SameImages(t)
		for _, m := range c.Members {
			if err := m.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Run(t, m)
			c.Active(t)
		}
		c.SameImages(t)
		for _, m := range c.Members {
			ends := offsets(t, c, m)
			if len(ends) < 30 {
				t.Fatalf("node %d: %d entries", m.ID, len(ends))
			}
			for offset, want := range then {
				if got, err := dumpAt(t, c, m, offset); err != nil || got != want {
					t.Errorf("node %d at %d: %v\n%s\nwas\n%s", m.ID, offset, err, got, want)
				}
			}
			// What is no end of an entry names the end.
			_, err := dumpAt(t, c, m, ends[3]-1)
			if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE) || ends[3]-1 > ends[2] && !strings.Contains(err.Error(), fmt.Sprintf("ask for %d", ends[3])) {
				t.Errorf("node %d at %d: %v", m.ID, ends[3]-1, err)
			}
		}
	})
}

// A controller that got a snapshot in place of entries fetches them from another, and then tells the same.
func TestSnapshotGapIsFilledFromAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Configure: shortLogs})
		b1 := c.RegisterBroker(t, 1)
		c.RegisterBroker(t, 2)
		c.CreateTopic(t, "orders", 1, 2)
		c.SameImages(t)
		active := c.Active(t)
		var late *quorumtest.Member
		for _, m := range c.Members {
			if m != active {
				late = m
			}
		}
		c.Isolate(late)
		b1.Silence()
		awaitState(t, c, 1, true)
		for i := range 40 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), 1, 1)
		}
		<-time.After(10 * time.Second)
		c.Join(late)
		c.SameImages(t)
		if n := late.Node.History().Metrics().Gaps.Load(); n == 0 {
			t.Fatal("no snapshot was installed in place of entries")
		}
		quorumtest.Eventually(t, "the gap is filled", func() error {
			if gaps := late.Node.History().Gaps(); len(gaps) > 0 {
				return fmt.Errorf("%v", gaps)
			}
			return nil
		})
		want, wantLines, err := told(t, c, active, &controllerpb.ReadHistoryRequest{Topic: "orders"})
		if err != nil || want.GetCompleteFrom() != 0 || len(wantLines) < 2 {
			t.Fatalf("%v\n%s\n%v", want, strings.Join(wantLines, "\n"), err)
		}
		got, gotLines, err := told(t, c, late, &controllerpb.ReadHistoryRequest{Topic: "orders"})
		if err != nil || got.GetCompleteFrom() != 0 || strings.Join(gotLines, "\n") != strings.Join(wantLines, "\n") {
			t.Errorf("%v\n%s\nexpected\n%s\n%v", got, strings.Join(gotLines, "\n"), strings.Join(wantLines, "\n"), err)
		}
	})
}

// Without peers that have it, a gap stays one: the answer says from where on it is complete, the values before are not
// guessed, and the epochs are right all the same.
func TestHistorySaysFromWhereOnItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1, Configure: func(cfg *quorum.Config) {
			shortLogs(cfg)
			cfg.HistoryRetentionBytes = -1
		}})
		b1 := c.RegisterBroker(t, 1)
		c.RegisterBroker(t, 2)
		c.CreateTopic(t, "orders", 1, 2)
		for i := range 40 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), 1, 1)
		}
		<-time.After(10 * time.Second)
		m := c.Members[0]
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		m.Config.HistoryRetentionBytes = 1 << 20 // from now on there is a history
		c.Run(t, m)
		c.Active(t)
		b1.Silence()
		awaitState(t, c, 1, true)
		head, lines, err := told(t, c, m, &controllerpb.ReadHistoryRequest{Topic: "orders"})
		if err != nil || head.GetCompleteFrom() < 40 || len(lines) < 2 || !strings.HasPrefix(lines[0], fmt.Sprintf("gap 0..%d: ", head.GetCompleteFrom()-1)) {
			t.Fatalf("%v\n%s\n%v", head, strings.Join(lines, "\n"), err)
		}
		last := lines[len(lines)-1]
		if !strings.Contains(last, "partitionEpoch=0->1") || !strings.Contains(last, "isr=?->[2]") || !strings.HasSuffix(last, "broker 1's session ended") {
			t.Errorf("%s", last)
		}
		if _, err := dumpAt(t, c, m, 3); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE) || !strings.Contains(err.Error(), "the oldest one after them is at ") {
			t.Errorf("dump at 3: %v", err)
		}
	})
}

// A topic that was deleted is asked for by its id, and one of the same name tells only its own.
func TestHistoryOfDeletedAndRecreatedTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		m := c.Members[0]
		remove := func() {
			name := "orders"
			if _, err := controllerpb.NewOperatorApiClient(c.Client).DeleteTopics(soon(t), &controllerpb.DeleteTopicsRequest{
				Topics: []*controllerpb.DeletableTopic{{Name: &name}}, RequestId: "r-7",
			}); err != nil {
				t.Fatal(err)
			}
		}
		c.CreateTopic(t, "orders", 2, 1)
		first, _, err := told(t, c, m, &controllerpb.ReadHistoryRequest{Topic: "orders", Partition: 1})
		if err != nil {
			t.Fatal(err)
		}
		remove()
		_, _, err = told(t, c, m, &controllerpb.ReadHistoryRequest{Topic: "orders", Partition: 1})
		id, _ := image.UUIDFrom(first.GetTopicId())
		if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION) || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("by the name of a deleted topic: %v", err)
		}
		partitions, replicas := int32(2), int32(1)
		if r, err := controllerpb.NewOperatorApiClient(c.Client).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
			Topics: []*controllerpb.CreatableTopic{{Name: "orders", TopicId: image.UUID{5, 5}.Bytes(), Partitions: &partitions, ReplicationFactor: &replicas}},
		}); err != nil || r.GetTopics()[0].GetError() != nil {
			t.Fatalf("%v, %v", r, err)
		}
		second, lines, err := told(t, c, m, &controllerpb.ReadHistoryRequest{Topic: "orders", Partition: 1})
		if err != nil || len(lines) != 1 || len(second.GetFormer()) != 1 || !bytes.Equal(second.GetFormer()[0].GetTopicId(), first.GetTopicId()) {
			t.Errorf("%v\n%s\n%v", second, strings.Join(lines, "\n"), err)
		}
		deleted, lines, err := told(t, c, m, &controllerpb.ReadHistoryRequest{TopicId: first.GetTopicId(), Partition: 1})
		if err != nil || deleted.GetTopic() != "orders" || len(lines) != 2 ||
			!strings.Contains(lines[0], "NonExistent->New->Online <- operator ANONYMOUS created the topic") ||
			!strings.HasSuffix(lines[1], "Online->Offline <- operator ANONYMOUS deleted the topic (request r-7)") {
			t.Errorf("%v\n%s\n%v", deleted, strings.Join(lines, "\n"), err)
		}
		for name, r := range map[string]*controllerpb.ReadHistoryRequest{
			"topic orders has 2 partitions":    {Topic: "orders", Partition: 2},
			"no topic with id":                 {TopicId: image.UUID{9}.Bytes()},
			"no deleted one of this name":      {Topic: "nothing"},
			"one of both":                      {},
			"is below 0":                       {Topic: "orders", Partition: -1},
			"bytes instead of 16":              {TopicId: []byte{1}},
			"has or had a partition 2, as far": {TopicId: first.GetTopicId(), Partition: 2},
		} {
			if _, _, err := told(t, c, m, r); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v: %v, expected %q", r, err, name)
			}
		}
	})
}
