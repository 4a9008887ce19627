package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Only a refusal that certainly changed nothing is passed on, and NOT_CONTROLLER never.
func TestForwardedOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want *kerr.Error
		text string
	}{
		{"kafka's own error", kerr.InvalidRequest, kerr.InvalidRequest, ""},
		{"refusal", controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION, "10001 records, limit 10000"), kerr.PolicyViolation, "10001 records, limit 10000"},
		{"wrapped refusal", fmt.Errorf("call: %w", controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG, "x")), kerr.InvalidConfig, "x"},
		{"not controller", kerr.NotController, kerr.RequestTimedOut, "unknown"},
		{"refused as not controller", controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "ask 1002"), kerr.RequestTimedOut, "unknown"},
		{"outcome unknown", fmt.Errorf("%w: lost", client.ErrOutcomeUnknown), kerr.RequestTimedOut, "unknown"},
		{"unknown outcome of a refusal", &client.Refusal{Code: controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, OutcomeUnknown: true}, kerr.RequestTimedOut, "unknown"},
		{"no controller", client.ErrNoController, kerr.RequestTimedOut, "unknown"},
		{"deadline", context.DeadlineExceeded, kerr.RequestTimedOut, "unknown"},
		{"anything else", errors.New("boom"), kerr.RequestTimedOut, "boom"},
	} {
		got := forwardError(c.err)
		if !errors.Is(got, c.want) || codeOf(got) != c.want.Code {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if m := messageOf(got); c.text != "" && (m == nil || !strings.Contains(*m, c.text)) {
			t.Errorf("%s: message %v, want %q in it", c.name, m, c.text)
		}
	}
}

func TestCodeOf(t *testing.T) {
	if codeOf(nil) != 0 || messageOf(nil) != nil {
		t.Error("no error has a code or a message")
	}
	if codeOf(errors.New("x")) != -1 || *messageOf(errors.New("x")) != "x" {
		t.Error("an error without a code is not UNKNOWN_SERVER_ERROR with its text")
	}
	if m := messageOf(kerr.NotLeaderForPartition); m != nil {
		t.Errorf("a bare code has the message %q", *m)
	}
	if m := messageOf(fmt.Errorf("%w: why", kerr.NotLeaderForPartition)); m == nil || codeOf(fmt.Errorf("%w: why", kerr.NotLeaderForPartition)) != 6 {
		t.Error("a code with a text lost one of them")
	}
	if err := refused(4711, "x"); codeOf(err) != -1 {
		t.Errorf("an unknown code became %d", codeOf(err))
	}
}
