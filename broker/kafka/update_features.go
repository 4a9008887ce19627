package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// updateFeatures forwards levels of features to the active controller, which finalizes all of them or none. Refusals of the
// whole request, told on each feature too below version 2:
//   - no feature, or one named twice or without a name: INVALID_REQUEST
//   - a level that some node does not support, or in the wrong direction: INVALID_UPDATE_VERSION
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// Version 0 says whether downgrades are allowed instead of the kind of update: it is then an unsafe downgrade where the
// level is below the finalized one. The answer waits as that of createTopics does.
func (s *Server) updateFeatures(r *request) {
	req := r.body.(*kmsg.UpdateFeaturesRequest)
	ask := &controllerpb.UpdateFeaturesRequest{
		ValidateOnly: r.version >= 1 && req.ValidateOnly, RequestId: newRequestID(s.backend.Metadata.BrokerID()),
	}
	im := s.backend.Metadata.Image()
	for _, u := range req.FeatureUpdates {
		kind := controllerpb.FeatureUpdateType(u.UpgradeType)
		if r.version == 0 {
			kind = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
			if u.AllowDowngrade && int32(u.MaxVersionLevel) < im.Feature(u.Feature) {
				kind = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE
			}
		}
		ask.Updates = append(ask.Updates, &controllerpb.FeatureUpdate{Name: u.Feature, Level: int32(u.MaxVersionLevel), Type: kind})
	}
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		answer, err := s.backend.Admin.UpdateFeatures(ctx, r.caller, ask)
		failure := s.outcome(ctx, answer, err, ask.ValidateOnly, true)
		resp := response[*kmsg.UpdateFeaturesResponse](r)
		resp.ErrorCode, resp.ErrorMessage = codeOf(failure), messageOf(failure)
		resp.Results = []kmsg.UpdateFeaturesResponseResult{}
		if r.version < 2 {
			for _, u := range req.FeatureUpdates {
				result := kmsg.NewUpdateFeaturesResponseResult()
				result.Feature, result.ErrorCode, result.ErrorMessage = u.Feature, resp.ErrorCode, resp.ErrorMessage
				resp.Results = append(resp.Results, result)
			}
		}
		r.reply(resp)
	})
}
