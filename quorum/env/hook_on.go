//go:build quorate_hooks

package env

import (
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// processHook reads QUORATE_HOOK, which only binaries built with the tag quorate_hooks know:
//
//	PATTERN[#N]=GUARD
//
// When the process comes for the N-th time (default: each) to a point that the pattern of package path matches, and the
// file GUARD did not exist and could be created, it is killed there as by kill -9. The guard makes the death happen
// once, whichever process comes first; a test disarms the hook by creating the file, and arms it by removing it.
// The guard then holds the name of the point and the process id.
func processHook() func(string) {
	pattern, guard, ok := strings.Cut(os.Getenv("QUORATE_HOOK"), "=")
	if !ok {
		return nil
	}
	nth := 0
	if name, n, ok := strings.Cut(pattern, "#"); ok {
		pattern = name
		nth, _ = strconv.Atoi(n)
	}
	var came atomic.Int64
	return func(point string) {
		if matched, _ := path.Match(pattern, point); !matched {
			return
		}
		if n := came.Add(1); nth > 0 && n != int64(nth) {
			return
		}
		f, err := os.OpenFile(guard, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return
		}
		_, _ = f.WriteString(point + " " + strconv.Itoa(os.Getpid()) + "\n")
		f.Close()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
