package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/raftnode"
)

// Exit codes.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnavailable = 3
)

// Kafka's names of codes that no answer of the cluster bears.
const (
	codeUsage   = "INVALID_REQUEST"
	codeUnknown = "UNKNOWN_SERVER_ERROR"
)

// failure is an error as it is shown.
type failure struct {
	code      string
	message   string
	retriable bool
	exit      int
}

func (f *failure) Error() string { return f.code + ": " + f.message }

// usage is a failure of the command line; report adds where its help is.
func usage(err error) error {
	return &failure{code: codeUsage, message: controllerpb.Cut(plain(err.Error()), messageMax), exit: exitUsage}
}

// plain takes out of a message what only the program's authors know: packages, and the words of gRPC.
func plain(message string) string {
	message, _, _ = strings.Cut(strings.Replace(message, "image: not a uuid: ", "", 1), ": rpc error: ")
	return withoutPackages(message)
}

func withoutPackages(message string) string { return packageNames.ReplaceAllString(message, "") }

// packageNames stand before an error of the program's own packages.
var packageNames = regexp.MustCompile(`^(?:(?:broker|recovery|fsm|quorum|raftnode|client|controller|node): )+`)

// beforeThat is what gRPC said of an earlier attempt.
var beforeThat = regexp.MustCompile(` \(before that: [^()]*rpc error: .*\)$`)

// inTime says in plain words that --timeout ended.
func inTime(message string) string {
	return strings.NewReplacer("context deadline exceeded", "no answer within --timeout", "context canceled", "interrupted").Replace(message)
}

// messageMax bounds what is shown of a mistaken command line, in bytes: it may repeat an argument of any length.
const messageMax = 2000

// refused is a failure with one of Kafka's codes: the cluster, or this node, said no.
func refused(code controllerpb.ErrorCode, format string, args ...any) *failure {
	return &failure{code: code.KafkaName(), message: fmt.Sprintf(format, args...), retriable: code.Retriable(), exit: exitRefused}
}

// unavailable is a failure after which the caller does not have what was asked for, and may not know what became of it.
func unavailable(code controllerpb.ErrorCode, format string, args ...any) *failure {
	f := refused(code, format, args...)
	f.exit, f.retriable = exitUnavailable, true
	return f
}

// itemFailure is the refusal of one item of a request; nil if it was done.
func itemFailure(e *controllerpb.Error) *failure {
	if e == nil || e.GetCode() == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return nil
	}
	return refused(e.GetCode(), "%s", e.GetMessage())
}

// explain turns an error into what is shown for it.
func explain(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if r, ok := client.AsRefusal(err); ok {
		if r.OutcomeUnknown || r.Code == controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER {
			return unavailable(r.Code, "%s%s", r.Message, outcome(r.OutcomeUnknown))
		}
		return refused(r.Code, "%s", r.Message)
	}
	var directory *node.DirectoryError
	var config *node.ConfigError
	var state *raftnode.StateError
	switch {
	case errors.As(err, &state):
		return local(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, errors.New(withoutPackages(state.Error())))
	case errors.As(err, &directory):
		return local(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, err)
	case errors.As(err, &config):
		return local(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG, err)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "%s did not answer%s", strings.TrimPrefix(plain(err.Error()), "outcome unknown: "), outcome(true))
	case errors.Is(err, client.ErrNoController):
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER,
			"%s; nothing was changed; quorate quorum status shows who answers; check --controllers, or raise --timeout", inTime(withoutPackages(beforeThat.ReplaceAllString(err.Error(), ""))))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "%s", inTime(err.Error()))
	case errors.Is(err, broker.ErrForeignCluster):
		return local(controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID, errors.New(plain(err.Error())))
	case errors.Is(err, broker.ErrNewLineage):
		return local(controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH, errors.New(withoutPackages(err.Error())))
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return local(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG, err)
	}
	if errors.Is(err, raftnode.ErrStoreFailed) || errors.Is(err, raftnode.ErrStoreHangs) {
		return local(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, errors.New(plain(err.Error())))
	}
	if disk, ok := node.OfDisk(err); ok {
		return local(controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR, disk)
	}
	if s, ok := status.FromError(err); ok {
		switch s.Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "%s", plain(s.Message()))
		case codes.Unimplemented:
			return refused(controllerpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "the node does not serve this request: %s", s.Message())
		}
		return &failure{code: codeUnknown, message: s.Message(), exit: exitRefused}
	}
	return &failure{code: codeUnknown, message: withoutPackages(err.Error()), exit: exitRefused}
}

// local is a refusal of this process itself: to repeat it changes nothing.
func local(code controllerpb.ErrorCode, err error) *failure {
	return &failure{code: code.KafkaName(), message: err.Error(), exit: exitRefused}
}

func outcome(unknown bool) string {
	if unknown {
		return "; the change may have been made or may still be: look before you try again"
	}
	return ""
}

// shown is an error whose text and document have been printed already.
type shown struct{ exit int }

func (shown) Error() string { return "reported" }

// report prints a command's error and returns the exit code.
func (a *app) report(c *cobra.Command, err error) int {
	var s shown
	if errors.As(err, &s) {
		return s.exit
	}
	f := explain(err)
	if f.exit == exitUsage && c.HasParent() {
		f.message += "; see " + c.CommandPath() + " --help"
	} else if f.exit == exitUsage {
		f.message += "; see quorate help"
	}
	fmt.Fprintf(a.stderr, "error: %v\n", f)
	if a.json() {
		a.print(object{{"error", f.json()}})
	}
	return f.exit
}

func (f *failure) json() object {
	return object{{"code", f.code}, {"message", f.message}, {"retriable", f.retriable}}
}

// warn tells what does not make the command fail.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.stderr, "warning: "+format+"\n", args...)
}
