package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/client/clienttest"
	"github.com/quorate/quorate/quorum/env"
)

// world is a quorum of two that answer and one that does not, with three brokers, all fake.
type world struct {
	active, standby *clienttest.Controller
	brokers         []*clienttest.Controller
	silent          string
	fenced          map[int32]bool
	files           string // a directory that transcripts call FILES
}

func id16(b byte) []byte { return bytes.Repeat([]byte{b}, 16) }

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel() // a transcript waits more than it works
	w := &world{silent: clienttest.Silent(t), fenced: map[int32]bool{}, files: t.TempDir()}
	w.active = clienttest.Start(t, clienttest.Handlers{ListBrokers: w.listBrokers})
	w.standby = clienttest.Start(t, clienttest.Handlers{ListBrokers: w.listBrokers})
	for range 3 {
		w.brokers = append(w.brokers, clienttest.Start(t, clienttest.Handlers{
			WaitMetadata: func(_ context.Context, r *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
				return &controllerpb.WaitMetadataResponse{MetadataOffset: r.GetMetadataOffset()}, nil
			},
		}))
	}
	w.say()
	return w
}

// say makes the two controllers agree that the first is active.
func (w *world) say() {
	members := []*controllerpb.QuorumMember{
		{NodeId: 1001, DirectoryId: id16(1), Voter: true, GrpcAddress: w.active.Address},
		{NodeId: 1002, DirectoryId: id16(2), Voter: true, GrpcAddress: w.standby.Address},
		{NodeId: 1003, DirectoryId: id16(3), Voter: true, GrpcAddress: w.silent},
	}
	named := &controllerpb.ActiveController{NodeId: 1001, Address: w.active.Address, ControllerEpoch: 4}
	status := &controllerpb.NodeStatusResponse{
		ClusterId: "kEvmTNkLQ0uWqJ3bE5p2xA", NodeId: 1001, DirectoryId: id16(1), Roles: []string{"controller"}, State: "leader",
		ActiveController: named, AppliedIndex: 31, MetadataOffset: 20, Chain: 0xabc, Members: members,
	}
	w.active.Set(status)
	other := proto.Clone(status).(*controllerpb.NodeStatusResponse)
	other.NodeId, other.DirectoryId, other.State, other.AppliedIndex, other.LastContactMs = 1002, id16(2), "follower", 30, 12
	other.MetadataOffset, other.Chain = 19, 0xdef
	w.standby.Set(other)
}

func (w *world) listBrokers(context.Context, *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
	resp := &controllerpb.ListBrokersResponse{MetadataOffset: 20}
	for i, b := range w.brokers {
		host, port, _ := strings.Cut(b.Address, ":")
		var n uint32
		fmt.Sscan(port, &n)
		id := int32(i + 1)
		r := &metadatapb.RegisterBroker{
			BrokerId: id, BrokerEpoch: int64(5 + i), IncarnationId: id16(byte(16 + i)), DirectoryId: id16(byte(32 + i)), Fenced: w.fenced[id], StateSinceMs: 1700000000000,
			Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "127.0.0.1", Port: uint32(9092 + i)}, {Name: "GRPC", Host: host, Port: n}},
		}
		if id == 2 {
			r.Rack = proto.String("west")
		}
		resp.Brokers = append(resp.Brokers, &controllerpb.BrokerDescription{
			Registration: r, MetadataOffset: 19, Chain: 0xdef, LastHeartbeatMs: 120, Leaders: 4, Replicas: 12,
		})
	}
	return resp, nil
}

// refusal is a whole request refused.
func refusal(code controllerpb.ErrorCode, message string) error {
	return client.RefusalStatus(codes.FailedPrecondition, &controllerpb.RefusalDetail{Error: &controllerpb.Error{Code: code, Message: message}}).Err()
}

// steady replaces what differs from run to run.
func (w *world) steady(s string) string {
	pairs := []string{w.active.Address, "ACTIVE", w.standby.Address, "STANDBY", w.silent, "SILENT", w.files, "FILES"}
	for i, b := range w.brokers {
		_, port, _ := strings.Cut(b.Address, ":")
		pairs = append(pairs, b.Address, fmt.Sprintf("BROKER%d", i+1), `"port":`+port, fmt.Sprintf(`"port":%d`, 9195+i))
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// golden runs a transcript: each quorate directive holds a command line; its output is the exit code and both streams.
func (w *world) golden(t *testing.T, name string, set func(t *testing.T, what string)) {
	t.Helper()
	datadriven.RunTest(t, filepath.Join("testdata", name), func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "set":
			set(t, strings.TrimSpace(d.Input))
			return ""
		case "quorate":
			return w.run(strings.Fields(strings.NewReplacer("FILES", w.files, "SILENT", w.silent).Replace(d.Input))...)
		}
		t.Fatalf("unknown directive %s", d.Cmd)
		return ""
	})
}

func (w *world) run(args ...string) string {
	var out, errs bytes.Buffer
	environ := []string{"QUORATE_CONTROLLERS=" + strings.Join([]string{w.standby.Address, w.active.Address, w.silent}, ",")}
	a := &app{stdout: &out, stderr: &errs, environ: environ, env: env.OS("")}
	code := a.run(context.Background(), args)
	return w.steady(fmt.Sprintf("exit %d\n%s%s", code, section("stdout", out.String()), section("stderr", errs.String())))
}

func section(name, text string) string {
	if text == "" {
		return ""
	}
	// A blank line would end the transcript's output.
	return name + ":\n" + strings.ReplaceAll(text, "\n\n", "\n.\n")
}

// orders is a topic with three partitions, one of them without a leader.
func orders() *controllerpb.TopicDescription {
	partition := func(i int32, leader *int32, reason string) *controllerpb.PartitionDescription {
		return &controllerpb.PartitionDescription{Reason: reason, State: &metadatapb.Partition{
			Partition: i, Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2}, Leader: leader, LeaderEpoch: 3, PartitionEpoch: 7,
			LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
		}}
	}
	return &controllerpb.TopicDescription{
		Name: "orders", TopicId: id16(64), Configs: []*controllerpb.ConfigValue{{Name: "min.insync.replicas", Value: "2"}},
		Partitions: []*controllerpb.PartitionDescription{
			partition(0, proto.Int32(1), ""), partition(1, proto.Int32(2), "under-replicated"), partition(2, nil, "no leader"),
		},
	}
}

// describing answers DescribeTopics in two pieces.
func describing(topics ...*controllerpb.TopicDescription) func(*controllerpb.DescribeTopicsRequest, grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error {
	return func(r *controllerpb.DescribeTopicsRequest, s grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error {
		last := &controllerpb.DescribeTopicsResponse{MetadataOffset: max(20, r.GetOptions().GetMinOffset())}
		for _, name := range r.GetNames() {
			known := false
			for _, t := range topics {
				known = known || t.GetName() == name
			}
			if !known {
				last.Unknown = append(last.Unknown, name)
			}
		}
		for _, t := range topics {
			if names := r.GetNames(); len(names) > 0 && !strings.Contains(strings.Join(names, " "), t.GetName()) {
				continue
			}
			if err := s.Send(&controllerpb.DescribeTopicsResponse{MetadataOffset: last.MetadataOffset, Topics: []*controllerpb.TopicDescription{t}}); err != nil {
				return err
			}
		}
		return s.Send(last)
	}
}

func (w *world) handle(change func(*clienttest.Handlers)) { w.active.SetHandlers(change) }
