package quorum

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Failures of the node itself. Refusals carry Kafka's codes instead.
var (
	// ErrNotActive says that this node is not the active controller; the request has changed nothing.
	ErrNotActive = errors.New("quorum: not the active controller")
	// ErrOutcomeUnknown says that the active role ended while the request was under way: it may have been carried out.
	ErrOutcomeUnknown = errors.New("quorum: leadership ended before the outcome was known; read before trying again")
	// ErrQueueFull says that operationsQueuedMax requests wait already.
	ErrQueueFull = errors.New("quorum: request queue is full")
	// ErrQueueBytesFull says that the requests that are not answered yet leave no room for one as large as this, operationBytesMax.
	ErrQueueBytesFull = errors.New("quorum: request queue holds too many bytes")
	// ErrGivenUp says that the caller's time was over before the request was decided: nothing was changed.
	ErrGivenUp = errors.New("quorum: the request's time was over before it was decided")
	// ErrStopped says that the node is stopping.
	ErrStopped = errors.New("quorum: stopped")
)

// refusal makes the gRPC status of a request that is refused as a whole.
func refusal(err error, active *controllerpb.ActiveController) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	detail := &controllerpb.RefusalDetail{ActiveController: active}
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, ErrNotActive), errors.Is(err, ErrStopped):
		detail.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "this node is not the active controller")
	case errors.Is(err, ErrOutcomeUnknown):
		detail.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "%v", err)
		detail.OutcomeUnknown = true
	case errors.Is(err, ErrQueueFull):
		detail.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
			"%d requests wait at the active controller, the limit; try again later", operationsQueuedMax)
		code = codes.ResourceExhausted
	case errors.Is(err, ErrQueueBytesFull):
		detail.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
			"the requests that wait at the active controller and this one have more than %d bytes together, the limit; try again later", operationBytesMax)
		code = codes.ResourceExhausted
	case errors.Is(err, ErrGivenUp):
		detail.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
			"the request waited for longer than its time at the active controller and was not decided; try again")
		code = codes.DeadlineExceeded
	default:
		var refused *controllerpb.RefusedError
		if !errors.As(err, &refused) {
			return status.FromContextError(err).Err()
		}
		detail.Error = refused.Err
	}
	return client.RefusalStatus(code, detail).Err()
}
