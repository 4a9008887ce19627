package reader

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// ListReassignments returns the partitions whose replicas are being moved, by topic name and number.
func (s *Server) ListReassignments(ctx context.Context, r *controllerpb.ListReassignmentsRequest) (*controllerpb.ListReassignmentsResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.ListReassignmentsResponse{MetadataOffset: int64(im.Offset())}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(r.GetTopics()))) {
		if _, ok := im.TopicByName(name); !ok {
			response.Unknown = append(response.Unknown, name)
		}
	}
	for id, p := range im.Reassigning() {
		t, ok := im.TopicByID(id.Topic)
		if !ok || len(r.GetTopics()) > 0 && !slices.Contains(r.GetTopics(), t.Name()) {
			continue
		}
		response.Reassignments = append(response.Reassignments, &controllerpb.Reassignment{
			Topic: t.Name(), State: p.Record(id), Target: image.Int32s(image.Without(p.Replicas, p.RemovingReplicas...)),
		})
	}
	slices.SortFunc(response.Reassignments, func(a, b *controllerpb.Reassignment) int {
		return cmp.Or(cmp.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetState().GetPartition(), b.GetState().GetPartition()))
	})
	return response, nil
}
