package reader

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// harmsListedMax bounds the partitions that one answer lists; all are counted.
const harmsListedMax = 1000

// CheckStop tells which partitions would go below min ISR, or lose their leader, if a broker stopped now: all those in
// whose ISR it is, judged by the other members that serve. One that is below already is counted too, for it has one less
// then. A partition that does not have the broker in its ISR is not harmed.
func (s *Server) CheckStop(ctx context.Context, r *controllerpb.CheckStopRequest) (*controllerpb.CheckStopResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.CheckStopResponse{MetadataOffset: int64(im.Offset())}
	id := image.BrokerID(r.GetBrokerId())
	if _, response.Registered = im.Broker(id); !response.Registered {
		return response, nil
	}
	for at, p := range im.PartitionsWithISR(id) {
		t, ok := im.TopicByID(at.Topic)
		if !ok {
			continue
		}
		if harm := harmOf(im, t.Name(), at.Partition, p, id, r.GetMargin()); harm != nil {
			response.Harms = append(response.Harms, harm)
		}
	}
	slices.SortFunc(response.Harms, func(a, b *controllerpb.StopHarm) int {
		return cmp.Or(leaderlessFirst(a)-leaderlessFirst(b), cmp.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetPartition(), b.GetPartition()))
	})
	response.HarmedPartitions = int32(len(response.Harms))
	response.Harms = response.Harms[:min(len(response.Harms), harmsListedMax)]
	return response, nil
}

func leaderlessFirst(h *controllerpb.StopHarm) int {
	if h.GetLeaderless() {
		return 0
	}
	return 1
}

// harmOf is nil if the partition keeps what it needs. If no member of the ISR is left, an eligible one leads in its place,
// alone (KIP-966).
func harmOf(im *image.Image, topic string, partition int32, p image.Partition, stopped image.BrokerID, margin int32) *controllerpb.StopHarm {
	serves := func(id image.BrokerID) bool {
		b, ok := im.Broker(id)
		return ok && id != stopped && b.IsActive()
	}
	left := int32(0)
	for _, id := range p.ISR {
		if serves(id) {
			left++
		}
	}
	if left == 0 && slices.ContainsFunc(p.ELR, serves) {
		left = 1
	}
	wanted := int32(min(int64(im.MinInsyncReplicas(topic, len(p.Replicas)))+int64(max(margin, 0)), math.MaxInt32))
	if left >= wanted {
		return nil
	}
	return &controllerpb.StopHarm{Topic: topic, Partition: partition, Leaderless: left == 0, InSync: left, Wanted: wanted}
}
