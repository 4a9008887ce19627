package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDWaitMillis bounds the wait for a block of producer ids. The time-outs that clients send are about
// transactions.
const producerIDWaitMillis = 5000

// noProducer is a producer id or epoch that is absent.
const noProducer = -1

// initProducerID hands out a fresh producer id with epoch 0. Behaviour, in order:
//   - a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which makes clients stop instead of asking again
//   - only one of producer id and epoch: INVALID_REQUEST; both ask for a higher epoch (KIP-360), for which a fresh id
//     serves as well where there are no transactions
//   - no id to be had now: COORDINATOR_LOAD_IN_PROGRESS
func (s *Server) initProducerID(r *request) {
	req := r.body.(*kmsg.InitProducerIDRequest)
	resp := response[*kmsg.InitProducerIDResponse](r)
	resp.ProducerEpoch = noProducer
	switch {
	case req.TransactionalID != nil:
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
	case (req.ProducerID == noProducer) != (req.ProducerEpoch == noProducer):
		resp.ErrorCode = kerr.InvalidRequest.Code
	}
	if resp.ErrorCode != 0 {
		r.reply(resp)
		return
	}
	s.forward(r, producerIDWaitMillis, func(ctx context.Context) {
		id, err := s.backend.ProducerIDs.Next(ctx)
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		} else {
			resp.ProducerID, resp.ProducerEpoch = id, 0
		}
		r.reply(resp)
	})
}
