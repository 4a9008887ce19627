package client

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

var (
	// ErrNoController says that no active controller was found before the context ended. Nothing was sent.
	ErrNoController = errors.New("client: no active controller")
	// ErrOutcomeUnknown says that a request was sent and no answer came: it may have been done, or may still be.
	ErrOutcomeUnknown = errors.New("client: outcome unknown")
	// ErrClosed says that the client has been closed.
	ErrClosed = errors.New("client: closed")
)

// Refusal is a cluster's no to a whole request.
type Refusal struct {
	Code controllerpb.ErrorCode
	// Message names the rule, the limit, the value given and the next step.
	Message string
	// OutcomeUnknown: the change may have been made, or may still be. errors.Is(err, ErrOutcomeUnknown) holds then.
	OutcomeUnknown bool
	// Active is the active controller as far as the answering node knew it; nil if it knew none.
	Active *controllerpb.ActiveController
	// NewestLineage is the newest lineage of the log that the answering node had heard of.
	NewestLineage int32
}

func (r *Refusal) Error() string { return r.Code.KafkaName() + ": " + r.Message }

// Unwrap gives the code and the message in the form that decisions return.
func (r *Refusal) Unwrap() error {
	return &controllerpb.RefusedError{Err: &controllerpb.Error{Code: r.Code, Message: r.Message}}
}

// Is makes a refusal with unknown outcome an [ErrOutcomeUnknown].
func (r *Refusal) Is(target error) bool { return target == ErrOutcomeUnknown && r.OutcomeUnknown }

// GRPCStatus gives the refusal back as the status it came in.
func (r *Refusal) GRPCStatus() *status.Status {
	return RefusalStatus(codes.FailedPrecondition, &controllerpb.RefusalDetail{
		Error:            &controllerpb.Error{Code: r.Code, Message: r.Message},
		ActiveController: r.Active, OutcomeUnknown: r.OutcomeUnknown, NewestLineage: r.NewestLineage,
	})
}

// RefusalStatus is the gRPC status in which a server refuses a whole request. The detail carries all that counts;
// the code only tells gRPC's own tools something.
func RefusalStatus(code codes.Code, detail *controllerpb.RefusalDetail) *status.Status {
	s := status.New(code, detail.GetError().GetCode().KafkaName()+": "+detail.GetError().GetMessage())
	if with, err := s.WithDetails(detail); err == nil {
		return with
	}
	return s
}

// AsRefusal finds the refusal in an error: one of this package's, or a gRPC status with a RefusalDetail.
func AsRefusal(err error) (*Refusal, bool) {
	if err == nil {
		return nil, false
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r, true
	}
	s, ok := status.FromError(err)
	if !ok {
		return nil, false
	}
	for _, d := range s.Details() {
		if detail, ok := d.(*controllerpb.RefusalDetail); ok {
			return &Refusal{
				Code: detail.GetError().GetCode(), Message: detail.GetError().GetMessage(),
				OutcomeUnknown: detail.GetOutcomeUnknown(), Active: detail.GetActiveController(), NewestLineage: detail.GetNewestLineage(),
			}, true
		}
	}
	return nil, false
}
