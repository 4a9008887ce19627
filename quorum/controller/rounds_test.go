package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// crowded is a cluster of three brokers with as many partitions, all alike.
func crowded(t *testing.T, partitions int, p func() *metadatapb.Partition) *harness {
	h := newHarness(t)
	h.lenient = true
	h.claim()
	for id := range int32(3) {
		h.startBroker(id+1, "")
	}
	topic := uuid("t")
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "t", TopicId: topic[:]}}}}
	for i := range partitions {
		one := p()
		one.TopicId, one.Partition = topic[:], int32(i)
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: one}})
	}
	d, offset := h.image.Fork(), h.image.Offset()
	for _, r := range records {
		offset++
		if err := d.Replay(offset, r); err != nil {
			t.Fatal(err)
		}
	}
	h.image = d.Seal(offset, 0)
	return h
}

// rounds carries background rounds out until one says that there is no more, and lists what each elected.
func rounds(t *testing.T, h *harness, decide func(controller.View) (controller.Decision[controller.BackgroundElections], error)) (elected []int) {
	t.Helper()
	for {
		d, err := decide(h.view())
		if err != nil || len(d.Records) != d.Response.Elected {
			t.Fatalf("%d records, elected %d, %v", len(d.Records), d.Response.Elected, err)
		}
		elected = append(elected, d.Response.Elected)
		delta, offset := h.image.Fork(), h.image.Offset()
		for _, r := range d.Records {
			offset++
			if err := delta.Replay(offset, r); err != nil {
				t.Fatal(err)
			}
		}
		h.image = delta.Seal(offset, 0)
		if !d.Response.More {
			return elected
		}
	}
}

// Leaderships return a thousand a round, and none to a broker whose state changed less than settle ago.
func TestBalanceRoundsAreBounded(t *testing.T) {
	const settle = 30 * time.Second
	h := crowded(t, 2500, func() *metadatapb.Partition {
		leader := int32(2)
		return &metadatapb.Partition{Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2, 3}, Leader: &leader}
	})
	balance := func(v controller.View) (controller.Decision[controller.BackgroundElections], error) {
		return controller.BalanceLeaders(v, settle)
	}
	h.now = h.now.Add(settle - time.Millisecond)
	if got := fmt.Sprint(rounds(t, h, balance)); got != "[0]" {
		t.Errorf("just before broker 1 has settled: %s", got)
	}
	h.now = h.now.Add(time.Millisecond)
	if got := fmt.Sprint(rounds(t, h, balance)); got != "[1000 1000 500]" {
		t.Errorf("rounds elect %s", got)
	}
	for id, p := range h.image.PartitionsWithISR(1) {
		if p.Leader != 1 {
			t.Fatalf("%v is led by %v", id, p.Leader)
		}
	}
}

// So are the unclean elections that a topic allows.
func TestUncleanRoundsAreBounded(t *testing.T) {
	h := crowded(t, 1001, func() *metadatapb.Partition { return &metadatapb.Partition{Replicas: []int32{3, 2}} })
	h.defaults.UncleanLeaderElection = true
	if got := fmt.Sprint(rounds(t, h, controller.ElectUnclean)); got != "[1000 1]" {
		t.Errorf("rounds elect %s", got)
	}
	if n := h.image.LeaderlessCount(); n != 0 {
		t.Errorf("%d partitions without a leader", n)
	}
	if p, _ := h.image.Partition(image.PartitionID{Topic: uuid("t")}); p.Leader != 3 || !p.Recovering {
		t.Errorf("%v", p)
	}
}
