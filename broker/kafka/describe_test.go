package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeQuorum(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	resp := do[*kmsg.DescribeQuorumResponse](w, at(describeQuorum("__cluster_metadata", 0), 2))
	p := resp.Topics[0].Partitions[0]
	if resp.ErrorCode != 0 || p.LeaderID != 1001 || p.LeaderEpoch != 3 || p.HighWatermark != int64(r.b.Image().Offset())+1 {
		t.Errorf("%+v", p)
	}
	ends := [3][3]int64{}
	for i, v := range p.CurrentVoters {
		ends[i] = [3]int64{p.HighWatermark - v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp}
	}
	if ends != [3][3]int64{{0, 1000, 1000}, {1, 1000, -1}, {p.HighWatermark + 1, -1, -1}} {
		t.Errorf("voters' lag, fetch and caught up: %v", ends)
	}
	if other := do[*kmsg.DescribeQuorumResponse](w, at(describeQuorum("here", 0), 2)); other.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("another topic: %+v", other)
	}
	if two := do[*kmsg.DescribeQuorumResponse](w, at(describeQuorum("__cluster_metadata", 0, 1), 2)); two.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("two partitions: %+v", two)
	}
	r.b.Refuse = func() error { return errors.New("nobody") }
	if none := do[*kmsg.DescribeQuorumResponse](w, at(describeQuorum("__cluster_metadata", 0), 2)); none.ErrorCode != kerr.RequestTimedOut.Code {
		t.Errorf("no controller: %+v", none)
	}
}

// Every partition is on exactly one page, whatever the size of a page, in the order of names.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	for limit := int32(1); limit <= 6; limit++ {
		for _, topics := range [][]string{nil, {"there", "here", "here", "lost"}} {
			var rows []string
			var cursor *kmsg.DescribeTopicPartitionsRequestCursor
			for pages := 0; ; pages++ {
				resp := do[*kmsg.DescribeTopicPartitionsResponse](w, topicPartitions(limit, cursor, topics...))
				n := 0
				for _, topic := range resp.Topics {
					n += len(topic.Partitions)
					for _, p := range topic.Partitions {
						rows = append(rows, fmt.Sprintf("%s-%d", *topic.Topic, p.Partition))
					}
				}
				if n > int(limit) || pages > 6 {
					t.Fatalf("limit %d: page %d has %d partitions", limit, pages, n)
				}
				if resp.NextCursor == nil {
					break
				}
				cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
			}
			if want := []string{"here-0", "here-1", "lost-0", "there-0"}; !slices.Equal(rows, want) {
				t.Errorf("limit %d of %v: %v, want %v", limit, topics, rows, want)
			}
		}
	}
}

func TestDescribeTopicPartitions(t *testing.T) {
	r := cluster(t)
	w := r.dial()
	resp := do[*kmsg.DescribeTopicPartitionsResponse](w, topicPartitions(0, nil, "lost", "unknown", "not a name", "here"))
	codes := map[string]int16{}
	for _, topic := range resp.Topics {
		codes[*topic.Topic] = topic.ErrorCode
	}
	if codes["unknown"] != kerr.UnknownTopicOrPartition.Code || codes["not a name"] != kerr.InvalidTopicException.Code || codes["here"] != 0 {
		t.Errorf("codes %v", codes)
	}
	lost := resp.Topics[slices.IndexFunc(resp.Topics, func(t kmsg.DescribeTopicPartitionsResponseTopic) bool { return *t.Topic == "lost" })].Partitions[0]
	if lost.LeaderID != -1 || lost.ErrorCode != kerr.LeaderNotAvailable.Code || !slices.Equal(lost.OfflineReplicas, []int32{3}) {
		t.Errorf("a leaderless partition: %+v", lost)
	}
	bad := do[*kmsg.DescribeTopicPartitionsResponse](w, topicPartitions(0, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "here", Partition: -1}))
	if len(bad.Topics) != 1 || bad.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a negative cursor: %+v", bad.Topics)
	}
	beyond := do[*kmsg.DescribeTopicPartitionsResponse](w, topicPartitions(0, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "here", Partition: 9}))
	if *beyond.Topics[0].Topic != "lost" {
		t.Errorf("a cursor behind its topic's end: %+v", beyond.Topics)
	}
}
