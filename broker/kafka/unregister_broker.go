package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// unregisterBroker forwards the removal of a registration to the active controller. Refusals:
//   - an id that is not registered: BROKER_ID_NOT_REGISTERED
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// The answer waits as that of createTopics does.
func (s *Server) unregisterBroker(r *request) {
	req := r.body.(*kmsg.UnregisterBrokerRequest)
	s.forward(r, configsWaitMillis, func(ctx context.Context) {
		answer, err := s.backend.Admin.UnregisterBroker(ctx, r.caller, &controllerpb.UnregisterBrokerRequest{
			BrokerId: req.BrokerID, RequestId: newRequestID(s.backend.Metadata.BrokerID()),
		})
		failure := s.outcome(ctx, answer, err, false, true)
		resp := response[*kmsg.UnregisterBrokerResponse](r)
		resp.ErrorCode, resp.ErrorMessage = codeOf(failure), messageOf(failure)
		r.reply(resp)
	})
}
