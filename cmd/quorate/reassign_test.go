package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
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
	"some.json":         "{\"version\":1,\n \"partitions\":[{\"topic\":\"orders\",\"partition\":0,\"replicas\":[2]},\n  {\"topic\":\"gone\",\"partition\":0,\"replicas\":[2]}]}",
	"comma.json":        "{\"version\":1,\n \"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[2,3,1]},\n ]}",
	"cut.json":          "{\"version\":1,\n \"partitions\":[",
	"word.json":         "{\"version\":1,\n \"partitions\":[\n  {\"topic\":\"orders\",\"partition\":\"0\",\"replicas\":[2]}]}",
	"twice.json":        "{\"version\":1,\"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[2]},\n  {\"topic\":\"orders\",\"partition\":0,\"replicas\":[3]}]}",
	"bare.json":         "{\"version\":1,\"partitions\":[\n  {\"topic\":\"orders\",\"partition\":0}]}",
	"version.json":      `{"version":2,"partitions":[]}`,
	"none.version.json": `{}`,
	"absent.json":       `{"version":1}`,
	"list.json":         `[]`,
	"number.json":       `{"version":"1","partitions":[]}`,
	"empty.json":        `{"version":1,"partitions":[]}`,
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
			if slices.Contains(r.GetTopics(), goneTopic) {
				resp.Unknown = []string{goneTopic}
			}
			if topics := r.GetTopics(); len(topics) == 0 || topics[0] == "orders" {
				resp.Reassignments = []*controllerpb.Reassignment{{Topic: "orders", Target: []int32{2, 3, 1}, State: &metadatapb.Partition{
					TopicId: id16(64), Partition: 1, Replicas: []int32{2, 3, 1, 4}, Isr: []int32{1, 4, 2}, Leader: proto.Int32(1), LeaderEpoch: 3, PartitionEpoch: 8,
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
	w := newPlanWorld(t)
	silent := map[int32]bool{}
	sizes := [3]int64{4096, 4096, 1024}
	for i, b := range w.brokers {
		id := int32(i + 1)
		b.SetHandlers(func(h *clienttest.Handlers) {
			h.DescribeReplicas = func(_ context.Context, r *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error) {
				if silent[id] {
					return nil, status.Error(codes.Unavailable, "gone")
				}
				resp := &brokerpb.DescribeReplicasResponse{BrokerId: id, BrokerEpoch: int64(4 + id)}
				for _, p := range r.GetPartitions() {
					resp.Replicas = append(resp.Replicas, &brokerpb.HeldReplica{
						TopicId: p.GetTopicId(), Partition: p.GetPartition(), SizeBytes: sizes[i], IdleMs: 95_400, LastGrownMs: 1_700_000_000_000,
					})
				}
				return resp, nil
			}
		})
	}
	w.golden(t, "partition_reassignments.txt", func(t *testing.T, what string) {
		var id int32
		var how string
		if _, err := fmt.Sscanf(what, "%d silent%s", &id, &how); err != nil && how != "" {
			t.Fatal(err)
		}
		silent[id], w.fenced[id] = true, how == ",fenced"
	})
}

// What there is to go, and who is stuck.
func TestProgressOfAMove(t *testing.T) {
	const leader, follower = 1, 2
	held := func(bytes, idleMs int64) *brokerpb.HeldReplica {
		return &brokerpb.HeldReplica{SizeBytes: bytes, IdleMs: idleMs, LastGrownMs: 5000}
	}
	for _, c := range []struct {
		name             string
		led, fenced      bool
		isr              []int32
		leader, follower *brokerpb.HeldReplica
		want             addingProgress
	}{
		{"on its way", true, false, []int32{1}, held(100, 0), held(30, 29_999), addingProgress{bytes: 30, toGo: 70, stuckSinceMs: -1, idleMs: 29_999}},
		{"stuck", true, false, []int32{1}, held(100, 0), held(30, 30_000), addingProgress{bytes: 30, toGo: 70, stuckSinceMs: 5000, idleMs: 30_000}},
		{"larger than its leader's", true, false, []int32{1}, held(100, 0), held(130, 0), addingProgress{bytes: 130, toGo: 0, stuckSinceMs: -1}},
		{"in sync and idle", true, false, []int32{1, 2}, held(100, 0), held(90, 99_000), addingProgress{bytes: 90, inSync: true, stuckSinceMs: -1, idleMs: 99_000}},
		{"silent", true, false, []int32{1}, held(100, 0), nil, addingProgress{bytes: -1, toGo: -1, stuckSinceMs: -1, idleMs: -1, why: "silent"}},
		{"silent and fenced", true, true, []int32{1}, held(100, 0), nil, addingProgress{bytes: -1, toGo: -1, stuckSinceMs: 4000, idleMs: -1, why: "is fenced and silent"}},
		{"in sync, silent and fenced", true, true, []int32{1, 2}, held(100, 0), nil, addingProgress{bytes: -1, inSync: true, stuckSinceMs: -1, idleMs: -1, why: "silent"}},
		{"its leader is silent", true, false, []int32{1}, nil, held(30, 0), addingProgress{bytes: 30, toGo: -1, stuckSinceMs: -1}},
		{"no leader", false, false, nil, held(100, 0), held(30, 31_000), addingProgress{bytes: 30, toGo: -1, stuckSinceMs: 5000, idleMs: 31_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := &metadatapb.Partition{Isr: c.isr, AddingReplicas: []int32{follower}}
			if c.led {
				state.Leader = proto.Int32(leader)
			}
			got := progressOf(&controllerpb.Reassignment{State: state}, moveFacts{
				find: func(id int32) (*brokerpb.HeldReplica, string) {
					h := map[int32]*brokerpb.HeldReplica{leader: c.leader, follower: c.follower}[id]
					if h == nil {
						return nil, "silent"
					}
					return h, ""
				},
				fencedSince: func(int32) (int64, bool) { return 4000, c.fenced },
			})
			c.want.broker = follower
			if len(got.adding) != 1 || got.adding[0] != c.want {
				t.Errorf("%+v, want %+v", got.adding, c.want)
			}
		})
	}
}

func TestPartitionCancel(t *testing.T) { newPlanWorld(t).golden(t, "partition_cancel.txt", nil) }
