package main

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestMetadataLog(t *testing.T) {
	entry := func(base int64, decisions ...*metadatapb.Decision) *controllerpb.EntryFrame {
		frame := &controllerpb.EntryFrame{BaseOffset: base, RaftIndex: uint64(base + 3), ControllerEpoch: 4}
		var encoded [][]byte
		for _, d := range decisions {
			b, err := record.EncodeDecision(d)
			if err != nil {
				t.Fatal(err)
			}
			encoded = append(encoded, b)
			frame.Records += int32(len(d.GetRecords()))
		}
		data, after := record.EncodeEntry(record.EntryHeader{ClaimIndex: 2, Term: 4, Sequence: 1, BaseOffset: record.MetadataOffset(base), TimeMs: 1700000000000}, encoded)
		command, err := record.DecodeCommand(data)
		if err != nil {
			t.Fatal(err)
		}
		frame.Entry, frame.Chain = command.Entry.Bytes, uint64(after)
		return frame
	}
	topic := func(name string) *metadatapb.Record {
		return &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id16(64)}}}
	}
	log := []*controllerpb.EntryFrame{
		entry(10, &metadatapb.Decision{Cause: &metadatapb.Cause{Name: "CreateTopics", Principal: "User:alice"}, Records: []*metadatapb.Record{topic("orders"), change(0)}}),
		entry(12,
			&metadatapb.Decision{Cause: &metadatapb.Cause{Name: "AlterPartition", BrokerId: proto.Int32(2), Principal: "ANONYMOUS"}, Records: []*metadatapb.Record{change(1)}},
			&metadatapb.Decision{Cause: &metadatapb.Cause{Name: "SessionExpired", BrokerId: proto.Int32(3)}, Records: []*metadatapb.Record{change(2)}}),
	}
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.ReadLog = func(r *controllerpb.ReadLogRequest, s grpc.ServerStreamingServer[controllerpb.ReadLogResponse]) error {
			if r.GetFromOffset() < 10 {
				return refusal(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE,
					"log and history of node 1001 do not reach back to metadata offset 0; they begin at 10; ask from there, or another controller")
			}
			for i, e := range log {
				if i == 1 && r.GetFromOffset() == 11 {
					if err := s.Send(&controllerpb.ReadLogResponse{Gap: &controllerpb.HistoryGap{FromOffset: 12, ToOffset: 13, Reason: "a file is damaged"}}); err != nil {
						return err
					}
					continue
				}
				if e.GetBaseOffset()+int64(e.GetRecords()) <= r.GetFromOffset() {
					continue
				}
				if err := s.Send(&controllerpb.ReadLogResponse{Entry: e}); err != nil {
					return err
				}
			}
			return nil
		}
	})
	w.golden(t, "metadata_log.txt", nil)
}
