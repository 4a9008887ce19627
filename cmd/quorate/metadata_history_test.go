package main

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func historyNumber(n int64) *controllerpb.HistoryValue {
	return &controllerpb.HistoryValue{Kind: &controllerpb.HistoryValue_Number{Number: n}}
}

func historyIDs(ids ...int32) *controllerpb.HistoryValue {
	return &controllerpb.HistoryValue{Kind: &controllerpb.HistoryValue_Ids{Ids: &metadatapb.BrokerIds{Ids: ids}}}
}

// ordersHistory is a topic that was made, lost a broker, has a gap, and was deleted.
func ordersHistory() []*controllerpb.ReadHistoryResponse {
	head := &controllerpb.HistoryHead{
		MetadataOffset: 31, Topic: "orders", TopicId: id16(64), Partition: 0, CompleteFrom: 21,
		Former: []*controllerpb.FormerTopic{{TopicId: id16(63), CreatedOffset: 2}},
	}
	events := []*controllerpb.PartitionEvent{
		{
			MetadataOffset: 10, TimeMs: 1700000000123, ControllerEpoch: 2, Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CREATED,
			Changes: []*controllerpb.FieldChange{{Field: "leader", New: historyNumber(1)}, {Field: "leaderEpoch", New: historyNumber(0)}, {Field: "isr", New: historyIDs(1, 2)}},
			States:  []string{"NonExistent", "New", "Online"}, Reason: metadatapb.ChangeReason_CHANGE_REASON_CREATED,
			Cause: &metadatapb.Cause{Name: "CreateTopics", Principal: "ANONYMOUS", RequestId: "r-1"}, Text: "operator ANONYMOUS created the topic (request r-1)",
		},
		{
			MetadataOffset: 12, TimeMs: 1700000001123, ControllerEpoch: 2, Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED,
			Changes: []*controllerpb.FieldChange{{Field: "leader", Old: historyNumber(1), New: historyNumber(-1)}, {Field: "leaderEpoch", Old: historyNumber(0), New: historyNumber(1)}},
			States:  []string{"Online", "Offline"}, Reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION,
			Cause: &metadatapb.Cause{Name: "SessionExpired"}, Text: "broker 1's session ended",
			ReplicaStates: []*controllerpb.ReplicaTransition{
				{BrokerId: 1, States: []string{"Online", "Offline"}, Reason: "is fenced"}, {BrokerId: 2, States: []string{"Online", "Offline"}, Reason: "is fenced"},
				{BrokerId: 3, States: []string{"New", "Online"}},
			},
		},
		{
			MetadataOffset: 25, TimeMs: 1700000002123, ControllerEpoch: 4, Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED,
			Changes: []*controllerpb.FieldChange{{Field: "isr", New: historyIDs(1)}}, Reason: metadatapb.ChangeReason_CHANGE_REASON_LAG,
			Cause: &metadatapb.Cause{Name: "AlterPartition", BrokerId: proto.Int32(1)}, Text: "leader 1 shrank the ISR",
		},
		{
			MetadataOffset: 30, TimeMs: 1700000003123, ControllerEpoch: 4, Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REMOVED,
			States: []string{"Offline", "NonExistent"}, Cause: &metadatapb.Cause{Name: "DeleteTopics", Principal: "ANONYMOUS"}, Text: "operator ANONYMOUS deleted the topic",
		},
	}
	out := []*controllerpb.ReadHistoryResponse{{Piece: &controllerpb.ReadHistoryResponse_Head{Head: head}}}
	for i, e := range events {
		if i == 2 {
			out = append(out, &controllerpb.ReadHistoryResponse{Piece: &controllerpb.ReadHistoryResponse_Gap{
				Gap: &controllerpb.HistoryGap{FromOffset: 15, ToOffset: 20, Reason: "a snapshot was installed"},
			}})
		}
		out = append(out, &controllerpb.ReadHistoryResponse{Piece: &controllerpb.ReadHistoryResponse_Event{Event: e}})
	}
	return out
}

func TestMetadataHistory(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.ReadHistory = func(r *controllerpb.ReadHistoryRequest, s grpc.ServerStreamingServer[controllerpb.ReadHistoryResponse]) error {
			if r.GetTopic() == "broken" {
				for _, p := range ordersHistory()[:2] {
					if err := s.Send(p); err != nil {
						return err
					}
				}
				return refusal(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, "a disk failed")
			}
			if r.GetTopic() == "orders" && r.GetPartition() == 0 || len(r.GetTopicId()) == 16 {
				for _, p := range ordersHistory() {
					if err := s.Send(p); err != nil {
						return err
					}
				}
				return nil
			}
			return refusal(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "topic gone does not exist at metadata offset 31, and no deleted one of this name is known; quorate topic list shows all")
		}
	})
	w.golden(t, "metadata_history.txt", nil)
}
