package log

import (
	"errors"
	"fmt"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Error is a refusal: nothing was changed, and Code is what a Kafka client is told.
// Two refusals are the same for [errors.Is] when their codes are.
type Error struct {
	Code    controllerpb.ErrorCode
	Message string
}

func (e *Error) Error() string { return "log: " + e.Message }

// Is tells whether target is a refusal with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Refusals to compare with.
var (
	// ErrOffsetOutOfRange says that an offset lies below the log start or above the log end (or above the high
	// watermark, where that is the limit).
	ErrOffsetOutOfRange = &Error{controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, "offset out of range"}
	// ErrCorruptBatch says that bytes are no record batch: torn, or the checksum is wrong.
	ErrCorruptBatch = &Error{controllerpb.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE, "corrupt record batch"}
	// ErrInvalidRecord says that a batch is whole but breaks a rule.
	ErrInvalidRecord = &Error{controllerpb.ErrorCode_ERROR_CODE_INVALID_RECORD, "invalid record batch"}
	// ErrMessageTooLarge says that a batch is larger than max.message.bytes or than a segment.
	ErrMessageTooLarge = &Error{controllerpb.ErrorCode_ERROR_CODE_MESSAGE_TOO_LARGE, "record batch too large"}
	// ErrOutOfOrderSequence says that a producer's batch does not follow its last one.
	ErrOutOfOrderSequence = &Error{controllerpb.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order sequence number"}
	// ErrInvalidProducerEpoch says that a newer incarnation of the producer has written already.
	ErrInvalidProducerEpoch = &Error{controllerpb.ErrorCode_ERROR_CODE_INVALID_PRODUCER_EPOCH, "invalid producer epoch"}
	// ErrFencedLeaderEpoch says that the log has seen a newer leader than the one that appends.
	ErrFencedLeaderEpoch = &Error{controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, "fenced leader epoch"}
	// ErrInconsistentTopicID says that the directory holds the data of another topic of the same name.
	ErrInconsistentTopicID = &Error{controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_TOPIC_ID, "inconsistent topic id"}
)

// Failures that are no refusals.
var (
	// ErrClosed says that the log was closed, deleted or set aside.
	ErrClosed = errors.New("log: closed")
	// ErrUnexpectedOffset says that a follower was given records that do not begin at its log end offset.
	ErrUnexpectedOffset = errors.New("log: unexpected offset")
	// ErrNotStarted says that a method of the manager was called before [Manager.Start].
	ErrNotStarted = errors.New("log: manager not started")
	// ErrNotFound says that no log of that name is open.
	ErrNotFound = errors.New("log: no such log")
)

// StorageError is a failure of the disk. The log that met it is offline: it answers every call with this error
// until the process starts again. Kafka: KAFKA_STORAGE_ERROR.
type StorageError struct {
	// Op is what was being done, in a few words.
	Op string
	// Path is the file or directory.
	Path string
	Err  error
}

func (e *StorageError) Error() string { return fmt.Sprintf("log: %s %s: %v", e.Op, e.Path, e.Err) }

func (e *StorageError) Unwrap() error { return e.Err }

// CodeOf is the Kafka error code for an error of this package; 0 for nil.
func CodeOf(err error) controllerpb.ErrorCode {
	var refusal *Error
	switch {
	case err == nil:
		return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
	case errors.As(err, &refusal):
		return refusal.Code
	case errors.Is(err, ErrClosed), errors.Is(err, ErrNotFound):
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER
	default:
		return controllerpb.ErrorCode_ERROR_CODE_KAFKA_STORAGE_ERROR
	}
}

func refuse(kind *Error, format string, args ...any) error {
	return &Error{Code: kind.Code, Message: fmt.Sprintf(format, args...)}
}

func storage(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var already *StorageError
	if errors.As(err, &already) {
		return err
	}
	return &StorageError{Op: op, Path: path, Err: err}
}
