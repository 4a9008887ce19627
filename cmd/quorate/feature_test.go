package main

import (
	"context"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestFeatureDescribe(t *testing.T) { newFeatureWorld(t).golden(t, "feature_describe.txt", nil) }

func TestFeatureUpgrade(t *testing.T) { newFeatureWorld(t).golden(t, "feature_upgrade.txt", nil) }

func TestFeatureDowngrade(t *testing.T) { newFeatureWorld(t).golden(t, "feature_downgrade.txt", nil) }

// newFeatureWorld refuses levels above 1, and a safe downgrade to 0.
func newFeatureWorld(t *testing.T) *world {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.DescribeFeatures = func(context.Context, *controllerpb.DescribeFeaturesRequest) (*controllerpb.DescribeFeaturesResponse, error) {
			support := func(low, high, third int32) []*controllerpb.FeatureSupport {
				return []*controllerpb.FeatureSupport{
					{NodeId: 1001, Controller: true, Min: low, Max: high}, {NodeId: 1, Min: low, Max: high}, {NodeId: 3, Min: third, Max: third},
				}
			}
			return &controllerpb.DescribeFeaturesResponse{MetadataOffset: answerOffset, Features: []*controllerpb.FeatureDescription{
				{Name: "eligible.leader.replicas.version", FinalizedLevel: 0, Nodes: support(0, 1, 0)},
				{Name: "metadata.version", FinalizedLevel: 1, Nodes: support(1, 1, 1)},
				{Name: "next.version", FinalizedLevel: 1, Nodes: support(1, 2, 0)},
			}}, nil
		}
		h.UpdateFeatures = func(_ context.Context, r *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error) {
			resp := &controllerpb.UpdateFeaturesResponse{MetadataOffset: answerOffset, UnfencedBrokers: []int32{1, 2, 3}}
			for _, u := range r.GetUpdates() {
				switch {
				case u.GetLevel() > 1:
					return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, "feature metadata.version: level 2 is supported by no node")
				case u.GetType() == controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE:
					return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, "it would be forgotten who may lead 1 partitions")
				}
				if r.GetValidateOnly() {
					resp.Records = append(resp.Records, &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{
						FeatureLevel: &metadatapb.FeatureLevel{Name: u.GetName(), Level: u.GetLevel()},
					}})
				}
			}
			return resp, nil
		}
	})
	return w
}
