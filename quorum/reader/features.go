package reader

import (
	"context"
	"maps"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// DescribeFeatures returns the finalized levels, and what each registered node supports, fenced or not. A feature is listed
// if it is finalized, or if some node supports it above level 0.
func (s *Server) DescribeFeatures(ctx context.Context, r *controllerpb.DescribeFeaturesRequest) (*controllerpb.DescribeFeaturesResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.DescribeFeaturesResponse{MetadataOffset: int64(im.Offset())}
	names := make(map[string]bool)
	for name := range im.Features() {
		names[name] = true
	}
	type supporter struct {
		id         image.BrokerID
		controller bool
		features   []image.FeatureRange
	}
	var nodes []supporter
	for c := range im.Controllers() {
		nodes = append(nodes, supporter{c.ID, true, c.Features})
	}
	for b := range im.Brokers() {
		nodes = append(nodes, supporter{b.ID, false, b.Features})
	}
	for _, n := range nodes {
		for _, f := range n.features {
			if f.Max > 0 {
				names[f.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := &controllerpb.FeatureDescription{Name: name, FinalizedLevel: im.Feature(name)}
		for _, n := range nodes {
			levels := image.RangeOf(n.features, name)
			d.Nodes = append(d.Nodes, &controllerpb.FeatureSupport{NodeId: int32(n.id), Controller: n.controller, Min: levels.Min, Max: levels.Max})
		}
		response.Features = append(response.Features, d)
	}
	return response, nil
}
