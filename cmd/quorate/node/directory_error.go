package node

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/quorate/quorate/broker/log"
)

// DirectoryError says what is wrong with a data directory: not formatted, someone else's, in use.
type DirectoryError struct{ err error }

// DirectoryErrorf makes a [*DirectoryError].
func DirectoryErrorf(format string, args ...any) error {
	return &DirectoryError{fmt.Errorf(format, args...)}
}

func (e *DirectoryError) Error() string { return e.err.Error() + nextStep(e.err) }

// nextStep is what to do about a failure of the operating system; empty if the error says so itself.
func nextStep(err error) string {
	for _, known := range []struct {
		err  error
		step string
	}{
		{syscall.ENOSPC, "free some space, or name another directory in log.dirs"},
		{syscall.EDQUOT, "free some space, or name another directory in log.dirs"},
		{syscall.EIO, "see what the kernel says of the disk; replace it, or name another directory in log.dirs"},
		{syscall.EROFS, "make the file system writable, or name another directory in log.dirs"},
		{syscall.ENOTDIR, "name a directory in log.dirs"},
		{fs.ErrPermission, "let this user read and write the directory, or name another in log.dirs"},
	} {
		if errors.Is(err, known.err) {
			return "; " + known.step
		}
	}
	return ""
}

// Unwrap gives the reason.
func (e *DirectoryError) Unwrap() error { return e.err }

// OfDisk returns the error as a [*DirectoryError] if the disk is its reason: it is full, over quota, read-only or broken, whoever met it.
func OfDisk(err error) (*DirectoryError, bool) {
	var met *log.StorageError
	known := errors.As(err, &met)
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		known = known || errors.Is(err, number)
	}
	if !known {
		return nil, false
	}
	return &DirectoryError{err}, true
}
