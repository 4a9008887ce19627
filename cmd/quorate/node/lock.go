package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/quorum/env"
)

// Files that keep a second process off a data directory.
const (
	lockFile = ".lock"
	pidFile  = "pid"
)

// Lock is a data directory in use by this process.
type Lock struct {
	files env.FS
	dir   string
	held  io.Closer
}

// AcquireLock locks a formatted data directory and writes this process's pid into it. When another process holds it, the error
// names that process. The lock ends with [Lock.Release] or with the process.
func AcquireLock(e *env.Env, dir string) (*Lock, error) {
	held, err := e.FS.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, env.ErrLocked) {
		who := "another process"
		if pid, err := readPid(e.FS, dir); err == nil {
			who = fmt.Sprintf("process %d", pid)
		}
		return nil, fmt.Errorf("data directory %s is in use by %s; stop it first", dir, who)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	e.At("start.locked")
	if err := env.WriteFileAtomic(e.FS, filepath.Join(dir, pidFile), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write the pid into the data directory: %w", err), held.Close())
	}
	e.At("start.pid-written")
	return &Lock{files: e.FS, dir: dir, held: held}, nil
}

// Release removes the pid and unlocks the directory.
func (l *Lock) Release() error {
	return errors.Join(l.files.Remove(filepath.Join(l.dir, pidFile)), l.held.Close())
}

// RunningPid is the process that uses a data directory now, 0 if none does.
func RunningPid(files env.FS, dir string) (int, error) {
	if ok, err := env.Exists(files, filepath.Join(dir, lockFile)); err != nil || !ok {
		return 0, err
	}
	held, err := files.Lock(filepath.Join(dir, lockFile))
	if err == nil {
		return 0, held.Close()
	}
	if !errors.Is(err, env.ErrLocked) {
		return 0, err
	}
	return readPid(files, dir)
}

func readPid(files env.FS, dir string) (int, error) {
	data, err := env.ReadFile(files, filepath.Join(dir, pidFile))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("%s holds no pid", filepath.Join(dir, pidFile))
	}
	return pid, nil
}
