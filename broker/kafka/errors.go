package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Errors of a running listener.
var (
	// ErrRunning says that Run was called twice.
	ErrRunning = errors.New("kafka: already running")
	errClosed  = errors.New("kafka: connection closed")
)

// codeOf is the wire code of a failure in this broker.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	return kerr.UnknownServerError.Code
}

// messageOf is the text beside a code: nil where the code's own meaning says it all.
func messageOf(err error) *string {
	var ke *kerr.Error
	if err == nil || errors.As(err, &ke) && err == error(ke) {
		return nil
	}
	text := err.Error()
	return &text
}

// forwardError is what a client is told when the active controller gave no answer of its own. A refusal is passed
// on; everything else, NOT_CONTROLLER included, may still take effect and is REQUEST_TIMED_OUT: a client that saw
// NOT_CONTROLLER would try again and find its own topic in the way.
func forwardError(err error) error {
	var ke *kerr.Error
	switch code, ok := controllerpb.CodeOf(err); {
	case errors.Is(err, client.ErrOutcomeUnknown):
	case ok && code != controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER:
		var re *controllerpb.RefusedError
		errors.As(err, &re)
		return refused(int16(code), re.Err.GetMessage())
	case !ok && errors.As(err, &ke) && ke != kerr.NotController:
		return err
	}
	return &wireError{code: kerr.RequestTimedOut, text: "the outcome is unknown: " + err.Error() + "; read before trying again"}
}

// wireError is a code with a text of our own.
type wireError struct {
	code *kerr.Error
	text string
}

func (e *wireError) Error() string { return e.text }
func (e *wireError) Unwrap() error { return e.code }

// refused makes an error of a code and a text; nil for code 0.
func refused(code int16, text string) error {
	if code == 0 {
		return nil
	}
	ke := kerr.TypedErrorForCode(code)
	if ke == nil {
		ke = kerr.UnknownServerError
	}
	if text == "" {
		return ke
	}
	return &wireError{code: ke, text: text}
}
