package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

// plans are files of transcripts, by name.
var plans = map[string]string{
	"moves.json": `{"version":1,"partitions":[
  {"topic":"orders","partition":0,"replicas":[2,3,1],"log_dirs":["any","any","any"]},
  {"topic":"orders","partition":1,"replicas":[3,1,2]}
]}
`,
	"some.json":    "{\"version\":1,\n \"partitions\":[{\"topic\":\"orders\",\"partition\":0,\"replicas\":[2]},\n  {\"topic\":\"gone\",\"partition\":0,\"replicas\":[2]}]}",
	"comma.json":   "{\"version\":1,\n \"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[2,3,1]},\n ]}",
	"cut.json":     "{\"version\":1,\n \"partitions\":[",
	"word.json":    "{\"version\":1,\n \"partitions\":[\n  {\"topic\":\"orders\",\"partition\":\"0\",\"replicas\":[2]}]}",
	"twice.json":   "{\"version\":1,\"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[2]},\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[3]}]}",
	"bare.json":    "{\"version\":1,\"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0}]}",
	"version.json": `{"version":2,"partitions":[]}`,
	"empty.json":   `{"version":1,"partitions":[]}`,
}

func newPlanWorld(t *testing.T) *world {
	w := newWorld(t)
	for name, text := range plans {
		if err := os.WriteFile(filepath.Join(w.files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.handle(func(h *clienttest.Handlers) {
		h.AlterPartitionReassignments = func(_ context.Context, r *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error) {
			resp := &controllerpb.AlterPartitionReassignmentsResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2, 3}}
			for _, p := range r.GetPartitions() {
				resp.Results = append(resp.Results, &controllerpb.ReassignmentResult{Topic: p.GetTopic(), Partition: p.GetPartition(), Error: goneError(p.GetTopic())})
				if r.GetValidateOnly() {
					resp.Records = append(resp.Records, change(p.GetPartition()))
				}
			}
			return resp, nil
		}
		h.ListReassignments = func(_ context.Context, r *controllerpb.ListReassignmentsRequest) (*controllerpb.ListReassignmentsResponse, error) {
			resp := &controllerpb.ListReassignmentsResponse{MetadataOffset: answerOffset}
			if topics := r.GetTopics(); len(topics) == 0 || topics[0] == "orders" {
				resp.Reassignments = []*controllerpb.Reassignment{{Topic: "orders", Target: []int32{2, 3, 1}, State: &metadatapb.Partition{
					Partition: 1, Replicas: []int32{2, 3, 1, 4}, Isr: []int32{1, 4, 2}, Leader: proto.Int32(1), LeaderEpoch: 3, PartitionEpoch: 8,
					AddingReplicas: []int32{2, 3}, RemovingReplicas: []int32{4}, OriginalReplicas: []int32{1, 4},
				}}}
			}
			return resp, nil
		}
	})
	return w
}

func TestPartitionReassign(t *testing.T) { newPlanWorld(t).golden(t, "partition_reassign.txt", nil) }

func TestPartitionReassignments(t *testing.T) {
	newPlanWorld(t).golden(t, "partition_reassignments.txt", nil)
}

func TestPartitionCancel(t *testing.T) { newPlanWorld(t).golden(t, "partition_cancel.txt", nil) }
