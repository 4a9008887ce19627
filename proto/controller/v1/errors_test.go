package controllerpb

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// renamed holds codes that Kafka has renamed since kerr took their names.
var renamed = map[ErrorCode]string{ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_FOR_PARTITION"}

// Every code of the enum has Kafka's number under Kafka's name.
func TestErrorCodesAreKafkas(t *testing.T) {
	for number, enumName := range ErrorCode_name {
		code := ErrorCode(number)
		if code == ErrorCode_ERROR_CODE_UNSPECIFIED {
			if got := code.KafkaName(); got != "NONE" {
				t.Errorf("code 0: name %q, want NONE", got)
			}
			continue
		}
		if got, want := code.KafkaName(), strings.TrimPrefix(enumName, "ERROR_CODE_"); got != want {
			t.Errorf("code %d: name %s, want %s", number, got, want)
		}
		theirs := kerr.TypedErrorForCode(int16(number))
		if renamed[code] == "" && theirs.Message != code.KafkaName() {
			t.Errorf("code %d: enum says %s, kerr says %s", number, code.KafkaName(), theirs.Message)
		}
		if got, want := code.Retriable(), kerr.IsRetriable(kerr.ErrorForCode(int16(number))); got != want {
			t.Errorf("%s: retriable %v, want %v", code.KafkaName(), got, want)
		}
		if code.Meaning() == "" {
			t.Errorf("%s has no meaning", code.KafkaName())
		}
	}
}

// "I know less than you" is retriable, "you know less than I" is not (KAFKA-14154).
func TestErrorCodesRetriable(t *testing.T) {
	for code, want := range map[ErrorCode]bool{
		ErrorCode_ERROR_CODE_NOT_CONTROLLER:         true,
		ErrorCode_ERROR_CODE_OFFSET_NOT_AVAILABLE:   true,
		ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH:    true,
		ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION: false,
		ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH:     false,
		ErrorCode_ERROR_CODE_INVALID_REQUEST:        false,
		ErrorCode_ERROR_CODE_UNSPECIFIED:            false,
	} {
		if got := code.Retriable(); got != want {
			t.Errorf("%s: retriable %v, want %v", code.KafkaName(), got, want)
		}
	}
}

func TestUnknownCodeNamesItsNumber(t *testing.T) {
	if got, want := ErrorCode(9999).KafkaName(), "UNKNOWN_CODE_9999"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	if ErrorCode(9999).Retriable() {
		t.Error("an unknown code must not invite a repetition")
	}
}

func TestRefusedErrorKeepsCodeAndText(t *testing.T) {
	err := fmt.Errorf("send: %w", Refuse(ErrorCode_ERROR_CODE_INVALID_PARTITIONS, "partitions=%d is below 1", 0))
	code, ok := CodeOf(err)
	if !ok || code != ErrorCode_ERROR_CODE_INVALID_PARTITIONS {
		t.Fatalf("CodeOf = %v, %v", code, ok)
	}
	if got, want := err.Error(), "send: INVALID_PARTITIONS: partitions=0 is below 1"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if _, ok := CodeOf(errors.New("other")); ok {
		t.Error("CodeOf found a code in an error that has none")
	}
}

// A caller's text is cut at EchoMax and never within a character; the whole text is bounded by MessageMax.
func TestRefusalsAreBounded(t *testing.T) {
	exact := strings.Repeat("x", EchoMax)
	if Echo(exact) != exact || Echo(exact+"y") != exact+"... (257 bytes)" {
		t.Error(Echo(exact + "y"))
	}
	if got := Echo(strings.Repeat("\u20ac", 100)); got != strings.Repeat("\u20ac", 85)+"... (300 bytes)" {
		t.Error(got)
	}
	if got := NewError(ErrorCode_ERROR_CODE_INVALID_REQUEST, "name %q: choose another", exact+exact).GetMessage(); got != `name "`+exact+`... (512 bytes)": choose another` {
		t.Error(got)
	}
	if got := NewError(ErrorCode_ERROR_CODE_INVALID_REQUEST, "%s", Sentence(exact+exact)).GetMessage(); got != exact+exact {
		t.Error(got)
	}
	endless := errors.New(strings.Repeat(exact, 1000))
	if got := len(NewError(ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v", endless).GetMessage()); got > MessageMax+50 {
		t.Errorf("%d bytes", got)
	}
}
