package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

// heldBy is what a broker of a transcript holds of every partition: epoch (-1 for none), end, high watermark.
type heldBy struct {
	epoch     int32
	end, high int64
	silent    bool
}

func (h heldBy) answer(id int32, r *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error) {
	if h.silent {
		return nil, status.Error(codes.Unavailable, "gone")
	}
	resp := &brokerpb.DescribeReplicasResponse{BrokerId: id, BrokerEpoch: int64(4 + id), MetadataOffset: 20}
	for _, p := range r.GetPartitions() {
		held := &brokerpb.HeldReplica{
			TopicId: p.GetTopicId(), Partition: p.GetPartition(), Role: brokerpb.ReplicaRole_REPLICA_ROLE_FOLLOWER,
			LogEndOffset: h.end, HighWatermark: h.high, SizeBytes: 70 * h.end,
		}
		if h.epoch >= 0 {
			held.LastEpoch = &h.epoch
		}
		resp.Replicas = append(resp.Replicas, held)
	}
	return resp, nil
}

// electWorld is a cluster in which orders-1 has a leader, and orders-2 and orders-3 have none.
type electWorld struct {
	*world
	held [3]heldBy
}

func newElectWorld(t *testing.T) *electWorld {
	w := &electWorld{world: newWorld(t), held: [3]heldBy{{epoch: -1}, {3, 120, 118, false}, {3, 110, 110, false}}}
	partition := func(i int32, replicas ...int32) *controllerpb.PartitionDescription {
		return &controllerpb.PartitionDescription{Reason: "no leader", State: &metadatapb.Partition{
			Partition: i, Replicas: replicas, LeaderEpoch: 4, PartitionEpoch: 9,
		}}
	}
	led := partition(1, 1, 2, 3)
	led.State.Leader, led.State.Isr, led.Reason = proto.Int32(1), []int32{1, 2, 3}, ""
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{
			Name: "orders", TopicId: id16(64), Partitions: []*controllerpb.PartitionDescription{led, partition(2, 1, 2, 3), partition(3, 1)},
		})
		h.ElectLeaders = electing
	})
	for i, b := range w.brokers {
		b.SetHandlers(func(h *clienttest.Handlers) {
			h.DescribeReplicas = func(_ context.Context, r *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error) {
				return w.held[i].answer(int32(i+1), r)
			}
		})
	}
	return w
}

// electing answers ElectLeaders as a controller would.
func electing(_ context.Context, r *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
	resp := &controllerpb.ElectLeadersResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2, 3}}
	partitions := r.GetPartitions()
	if r.GetAllPartitions() {
		partitions = []*controllerpb.ElectablePartition{{Topic: "orders", Partition: 1}}
	}
	unclean := r.GetType() == controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN
	for _, p := range partitions {
		result := &controllerpb.ElectLeadersResult{Topic: p.GetTopic(), Partition: p.GetPartition(), Error: goneError(p.GetTopic())}
		switch {
		case result.Error != nil:
		case unclean && p.GetPartition() == 1:
			result.Error = &controllerpb.Error{Code: controllerpb.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, Message: "broker 1 leads"}
		default:
			result.Leader, result.RecordsMayBeLost = proto.Int32(1), unclean
		}
		if result.Error == nil && p.Candidate != nil {
			result.Leader = p.Candidate
		}
		resp.Results = append(resp.Results, result)
		if r.GetValidateOnly() && result.Error == nil {
			resp.Records = append(resp.Records, change(p.GetPartition()))
		}
	}
	return resp, nil
}

// set reads lines such as "2 epoch=3 end=120 high=118", "3 silent", "1 fenced".
func (w *electWorld) set(t *testing.T, what string) {
	for line := range strings.Lines(what) {
		fields := strings.Fields(line)
		var id int32
		fmt.Sscan(fields[0], &id)
		h := heldBy{epoch: -1}
		w.fenced[id] = false
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "silent":
				h.silent = true
			case "fenced":
				w.fenced[id] = true
			case "epoch":
				fmt.Sscan(value, &h.epoch)
			case "end":
				fmt.Sscan(value, &h.end)
			case "high":
				fmt.Sscan(value, &h.high)
			default:
				t.Fatalf("unknown word %q", f)
			}
		}
		w.held[id-1] = h
	}
}

func TestPartitionElect(t *testing.T) {
	w := newElectWorld(t)
	w.golden(t, "partition_elect.txt", w.set)
}

// What is chosen, and what it may cost.
func TestUncleanChoice(t *testing.T) {
	held := func(epoch int32, end, high int64) *brokerpb.HeldReplica {
		h := &brokerpb.HeldReplica{LogEndOffset: end, HighWatermark: high}
		if epoch >= 0 {
			h.LastEpoch = &epoch
		}
		return h
	}
	live := func(id int32, h *brokerpb.HeldReplica) electableReplica {
		return electableReplica{broker: id, state: "UNFENCED", held: h, why: "does not answer"}
	}
	fenced := func(id int32, h *brokerpb.HeldReplica) electableReplica {
		return electableReplica{broker: id, state: "FENCED", held: h, why: "does not answer"}
	}
	state := &metadatapb.Partition{Replicas: []int32{1, 2, 3}, LeaderEpoch: 6}
	inISR := &metadatapb.Partition{Replicas: []int32{1, 2, 3}, LeaderEpoch: 6, Isr: []int32{2}, Elr: []int32{1}}
	eligible := &metadatapb.Partition{Replicas: []int32{1, 2, 3}, LeaderEpoch: 6, Elr: []int32{1}}
	for _, c := range []struct {
		name     string
		state    *metadatapb.Partition
		replicas []electableReplica
		named    int32
		force    bool
		want     string
	}{
		{"the higher end", state, []electableReplica{live(1, held(5, 10, 9)), live(2, held(5, 12, 9)), live(3, held(5, 11, 11))}, noNode, false, "2 log-end 12"},
		{"the higher epoch before the higher end", state, []electableReplica{live(1, held(4, 90, 80)), live(2, held(5, 12, 9))}, noNode, false, "2 log-end 12"},
		{"an empty log comes last", state, []electableReplica{live(1, held(-1, 0, 0)), live(2, held(0, 1, 1))}, noNode, false, "2 high-watermark 1"},
		{"as far: the first replica", state, []electableReplica{live(3, held(5, 12, 9)), live(2, held(5, 12, 12))}, noNode, false, "3 log-end 12"},
		{"all are empty", state, []electableReplica{live(1, held(-1, 0, 0)), live(2, held(-1, 0, 0))}, noNode, false, "1 high-watermark 0"},
		{"none of the last leadership", state, []electableReplica{live(1, held(3, 12, 7))}, noNode, false, "1 high-watermark 7"},
		{"a fenced one is further", state, []electableReplica{fenced(1, held(5, 99, 9)), live(2, held(5, 12, 9))}, noNode, false, "2 log-end 12"},
		{"a silent fenced one is no hindrance", state, []electableReplica{fenced(1, nil), live(2, held(5, 12, 9))}, noNode, false, "2 log-end 12"},
		{"a silent live one is", state, []electableReplica{live(1, nil), live(2, held(5, 12, 9))}, noNode, false, "refused unfenced replicas [1]"},
		{"with force it is not", state, []electableReplica{live(1, nil), live(2, held(5, 12, 9))}, noNode, true, "2 log-end 12"},
		{"force with nothing known", state, []electableReplica{live(1, nil), live(2, nil)}, noNode, true, "1 unknown -1"},
		{"a named one", state, []electableReplica{live(1, nil), live(2, held(5, 12, 9)), live(3, held(4, 8, 8))}, 3, false, "3 high-watermark 8"},
		{"a named silent one", state, []electableReplica{live(1, nil), live(2, held(5, 12, 9))}, 1, false, "1 unknown -1"},
		{"a named fenced one", state, []electableReplica{fenced(1, nil), live(2, held(5, 12, 9))}, 1, false, "refused broker 1 cannot lead"},
		{"a named stranger", state, []electableReplica{live(2, held(5, 12, 9))}, 7, false, "refused broker 7 cannot lead"},
		{"nobody lives", state, []electableReplica{fenced(1, held(5, 12, 9))}, noNode, true, "refused none of the replicas"},
		{"a live ISR member", inISR, []electableReplica{live(1, held(5, 20, 9)), live(2, held(5, 12, 9))}, noNode, false, "2 none -1"},
		{"an ELR member counts only with an empty ISR", inISR, []electableReplica{live(1, held(5, 20, 9)), fenced(2, nil)}, noNode, false, "1 log-end 20"},
		{"a live ELR member", eligible, []electableReplica{live(1, held(5, 2, 2)), live(2, held(5, 12, 9))}, 2, false, "1 none -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := electable{state: c.state, replicas: c.replicas}
			got := e.choose(c.named, c.force)
			text := fmt.Sprintf("%d %s %d", got.leader, got.basis, got.lossFrom)
			if got.refused != nil {
				text = "refused " + got.refused.message
			}
			if text != c.want && !(got.refused != nil && strings.HasPrefix(text, c.want)) {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}

// TestUncleanElectionSendsWhatWasChosen: each partition that is sent names who shall lead, one that was in sync too, and a
// partition that has a leader is not sent: the controller would choose by itself if that broker were fenced meanwhile.
func TestUncleanElectionSendsWhatWasChosen(t *testing.T) {
	name := func(i int32) partitionName { return partitionName{"orders", i} }
	partition := func(i int32, leader *int32, isr ...int32) *controllerpb.PartitionDescription {
		return &controllerpb.PartitionDescription{State: &metadatapb.Partition{Partition: i, Replicas: []int32{1, 2, 3}, Leader: leader, Isr: isr, LeaderEpoch: 4}}
	}
	var sent []*controllerpb.ElectablePartition
	w := newElectWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeTopics = describing(&controllerpb.TopicDescription{Name: "orders", TopicId: id16(64), Partitions: []*controllerpb.PartitionDescription{
			partition(1, proto.Int32(1), 1, 2, 3), partition(2, nil), partition(3, nil, 3),
		}})
		h.ElectLeaders = func(ctx context.Context, r *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
			sent = append(sent, r.GetPartitions()...)
			return electing(ctx, r)
		}
	})
	w.run("partition", "elect", "--unclean", name(1).String(), name(2).String(), name(3).String())
	if got := fmt.Sprint(sent); len(sent) != 2 || sent[0].Candidate == nil || sent[0].GetCandidate() != 2 ||
		sent[1].Candidate == nil || sent[1].GetCandidate() != 3 {
		t.Errorf("sent %s, want orders-2 to broker 2 and orders-3 to broker 3", got)
	}
}
