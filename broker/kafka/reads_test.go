package kafka_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListOffsetsSpecials(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	r.b.SetLeader("here", 1, 2)
	do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, "a", "b")))
	for _, c := range []struct {
		timestamp int64
		version   int16
		offset    int64
		code      int16
	}{
		{-1, 1, 2, 0}, {-2, 1, 0, 0}, {-3, 7, 1, 0}, {-4, 8, 0, 0}, {-5, 9, -1, 0},
		{-3, 6, -1, 35}, {-4, 7, -1, 35}, {-5, 8, -1, 35}, {-6, 10, -1, 35},
		{1000, 4, 0, 0}, {1001, 4, -1, 0}, {0, 4, 0, 0},
	} {
		req := at(listOffsets(c.timestamp, "here"), c.version)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
		got := do[*kmsg.ListOffsetsResponse](w, req).Topics[0].Partitions[0]
		if got.Offset != c.offset || got.ErrorCode != c.code {
			t.Errorf("timestamp %d in version %d: %+v, want offset %d, code %d", c.timestamp, c.version, got, c.offset, c.code)
		}
	}
	// A leader that does not know its own watermark yet does not tell the latest offset (KIP-207).
	r.b.Partition("here", 0).Hold()
	do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, "c")))
	for version, want := range map[int16]int16{4: kerr.LeaderNotAvailable.Code, 5: kerr.OffsetNotAvailable.Code} {
		if got := do[*kmsg.ListOffsetsResponse](w, at(listOffsets(-1, "here"), version)).Topics[0].Partitions[0]; got.ErrorCode != want {
			t.Errorf("v%d, watermark unknown: %+v, want code %d", version, got, want)
		}
	}
	twice := at(listOffsets(-1, "here", "here", "there", "unknown"), 4)
	var codes []int16
	for _, topic := range do[*kmsg.ListOffsetsResponse](w, twice).Topics {
		codes = append(codes, topic.Partitions[0].ErrorCode)
	}
	if want := []int16{42, 42, 6, 3}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
}

func TestFetchRules(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for range 3 {
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", 0, batch(-1, -1, -1, strings.Repeat("x", 1000))))
	}
	one := len(r.b.Partition("here", 0).Batches()[0])
	fetch := func(change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
		req := fetchFrom(11, "here", 0, 0, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
		change(req)
		return do[*kmsg.FetchResponse](w, req).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		name    string
		change  func(*kmsg.FetchRequest)
		batches int
		code    int16
	}{
		{"everything", func(*kmsg.FetchRequest) {}, 3, 0},
		{"from the middle", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 1 }, 2, 0},
		{"at the end", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 3 }, 0, 0},
		{"past the end", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = 4 }, 0, kerr.OffsetOutOfRange.Code},
		{"before the start", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].FetchOffset = -1 }, 0, kerr.OffsetOutOfRange.Code},
		{"a limit below one batch gives one batch", func(q *kmsg.FetchRequest) { q.MaxBytes = 10 }, 1, 0},
		{"partition limit", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].PartitionMaxBytes = int32(2*one + 10) }, 2, 0},
		{"negative limits", func(q *kmsg.FetchRequest) { q.MaxBytes, q.Topics[0].Partitions[0].PartitionMaxBytes = -1, -1 }, 1, 0},
		{"future epoch", func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].CurrentLeaderEpoch = 7 }, 0, kerr.UnknownLeaderEpoch.Code},
		{"as a replica", func(q *kmsg.FetchRequest) { q.ReplicaID = 2 }, 0, kerr.ClusterAuthorizationFailed.Code},
		{"not hosted", func(q *kmsg.FetchRequest) { q.Topics[0].Topic = "there" }, 0, kerr.NotLeaderForPartition.Code},
		{"unknown", func(q *kmsg.FetchRequest) { q.Topics[0].Topic = "nope" }, 0, kerr.UnknownTopicOrPartition.Code},
	} {
		got := fetch(c.change)
		if got.ErrorCode != c.code || len(got.RecordBatches) != c.batches*one {
			t.Errorf("%s: code %d, %d bytes of records, want %d and %d", c.name, got.ErrorCode, len(got.RecordBatches), c.code, c.batches*one)
		}
		if c.code != 0 && got.HighWatermark != -1 {
			t.Errorf("%s: watermark %d beside an error", c.name, got.HighWatermark)
		}
	}
	// A follower answers consumers from version 11 on, with its own watermark (KIP-392).
	r.b.SetLeader("here", 0, 2)
	if got := fetch(func(q *kmsg.FetchRequest) { q.Version = 10 }); got.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("version 10 from a follower: %+v", got)
	}
	if got := fetch(func(*kmsg.FetchRequest) {}); got.ErrorCode != 0 || len(got.RecordBatches) != 3*one {
		t.Errorf("version 11 from a follower: code %d, %d bytes", got.ErrorCode, len(got.RecordBatches))
	}
	session := at(fetchFrom(11, "here", 0, 0, 0), 11)
	session.SessionID = 77
	if resp := do[*kmsg.FetchResponse](w, session); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("a session: %+v", resp)
	}
	session.SessionID, session.SessionEpoch = 0, 0
	if resp := do[*kmsg.FetchResponse](w, session); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Errorf("the wish for a session: %+v", resp)
	}
}

// The second partition's records must fit beside the first's; only the first may be larger than the limit.
func TestFetchLimitCoversAllPartitions(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for p := range int32(2) {
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "here", p, batch(-1, -1, -1, strings.Repeat("x", 1000))))
	}
	one := len(r.b.Partition("here", 0).Batches()[0])
	req := r.fetch(11, []string{"here"}, 0)
	req.Topics[0].Partitions = req.Topics[0].Partitions[:2]
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].FetchOffset = 0
	}
	for limit, want := range map[int]int{2 * one: 2, 2*one - 1: 1, 1: 1} {
		req.MaxBytes = int32(limit)
		total := 0
		for _, p := range do[*kmsg.FetchResponse](w, req).Topics[0].Partitions {
			total += len(p.RecordBatches)
		}
		if total != want*one {
			t.Errorf("limit %d: %d bytes, want %d", limit, total, want*one)
		}
	}
}
