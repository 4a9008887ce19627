package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ParentVariable names, in a node's environment, an inherited descriptor that ends when the supervisor dies.
const ParentVariable = "QUORATE_PARENT_FD"

// parentWatch tells when the supervisor is gone.
type parentWatch struct {
	gone chan struct{} // closed then; nil: there is no supervisor
	file *os.File
	done chan struct{}
}

// watchParent watches the descriptor that the variable names. The caller stops it.
func watchParent(variable string) (*parentWatch, error) {
	w := &parentWatch{}
	if variable == "" {
		return w, nil
	}
	fd, err := strconv.Atoi(variable)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q, not the number of an inherited descriptor", ParentVariable, variable)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // so that stop can end the read
		return nil, fmt.Errorf("%s: descriptor %d: %w", ParentVariable, fd, err)
	}
	w.file = os.NewFile(uintptr(fd), "parent")
	w.gone, w.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.done)
		if _, err := w.file.Read(make([]byte, 1)); errors.Is(err, os.ErrClosed) {
			return // stop
		}
		close(w.gone) // nothing is ever written: the pipe has ended
	}()
	return w, nil
}

// stop ends the watch.
func (w *parentWatch) stop() {
	if w.file != nil {
		w.file.Close()
		<-w.done
	}
}
