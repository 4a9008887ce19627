package controllerpb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// codeInfo is what Kafka says of one code.
type codeInfo struct {
	name      string
	meaning   string
	retriable bool
}

// errorCodes is the one table of error codes: name, meaning and retriability as Kafka's protocol has them.
// Names are those of the enum, the rest comes from franz-go's kerr, so that nothing is typed a second time.
var errorCodes = codeTable()

func codeTable() map[ErrorCode]codeInfo {
	table := make(map[ErrorCode]codeInfo, len(ErrorCode_name))
	table[ErrorCode_ERROR_CODE_UNSPECIFIED] = codeInfo{name: "NONE", meaning: "No error."}
	for number, name := range ErrorCode_name {
		if e := kerr.TypedErrorForCode(int16(number)); e != nil {
			table[ErrorCode(number)] = codeInfo{name: strings.TrimPrefix(name, "ERROR_CODE_"), meaning: e.Description, retriable: e.Retriable}
		}
	}
	return table
}

// KafkaName returns the name that Kafka's protocol gives the code, such as NOT_CONTROLLER; NONE for no error.
func (x ErrorCode) KafkaName() string {
	if info, ok := errorCodes[x]; ok {
		return info.name
	}
	return fmt.Sprintf("UNKNOWN_CODE_%d", int32(x))
}

// Retriable tells whether Kafka's protocol lets a client repeat the request unchanged.
func (x ErrorCode) Retriable() bool { return errorCodes[x].retriable }

// Meaning returns Kafka's sentence about the code.
func (x ErrorCode) Meaning() string { return errorCodes[x].meaning }

// Limits of a refusal's text, in bytes.
const (
	// EchoMax is the most of a caller's own text that a refusal repeats; every legal name of a topic fits.
	EchoMax = 256
	// MessageMax bounds the whole text of a refusal.
	MessageMax = 4096
)

// Echo returns a caller's text as a refusal repeats it: what is longer than [EchoMax] is cut, and its length is told.
func Echo(text string) string { return Cut(text, EchoMax) }

// Cut returns a text of at most limit bytes as it is. What is longer is cut there, and its length is told.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:limit], ""), len(text))
}

// Sentence is a text of this program within a refusal. It is shown whole where a string, which may be a caller's, is cut.
type Sentence string

// NewError returns a refusal. The text names the rule, the limit, the value given and the next step. Arguments that are
// strings are shown as [Echo] shows them, and the text is at most [MessageMax] bytes and the note that it was cut.
func NewError(code ErrorCode, format string, args ...any) *Error {
	shown := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = Echo(text)
		}
		shown[i] = arg
	}
	return &Error{Code: code, Message: Cut(fmt.Sprintf(format, shown...), MessageMax)}
}

// RefusedError carries a refusal through Go code. Decisions return it, the gRPC server puts Err into the details
// of a status, and clients make it again from there.
type RefusedError struct {
	Err *Error
}

// Refuse returns a [RefusedError].
func Refuse(code ErrorCode, format string, args ...any) error {
	return &RefusedError{Err: NewError(code, format, args...)}
}

// Error returns Kafka's name of the code, then the message.
func (e *RefusedError) Error() string {
	return e.Err.GetCode().KafkaName() + ": " + e.Err.GetMessage()
}

// CodeOf returns the code of a refusal anywhere in the chain of err, and whether there is one.
func CodeOf(err error) (ErrorCode, bool) {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Err.GetCode(), true
	}
	return ErrorCode_ERROR_CODE_UNSPECIFIED, false
}
