package log

import (
	"os"
	"sync"

	"github.com/quorate/quorate/quorum/env"
)

// handles is the one cache of open files of all logs. A file is opened when it is used and stays open until more
// than max others were used since. Only files that nobody uses are closed, so more than max are open while more
// than max are in use at once.
//
// Its mutex is the innermost lock of the package and is never held over a system call.
type handles struct {
	fs  env.FS
	max int

	mu   sync.Mutex
	open int
	// Ring of the open files, most lately used first; head is no file.
	head cachedFile
}

// cachedFile is one file of a segment. While it is closed it costs its own bytes and nothing more.
type cachedFile struct {
	seg        *segment
	prev, next *cachedFile
	file       env.File
	users      int32
	kind       fileKind
	// doomed: closed when its last user is done.
	doomed bool
	// closeErr is the failure of a close in the background; the next user gets it.
	closeErr error
}

type fileKind uint8

const (
	kindLog fileKind = iota
	kindOffsetIndex
	kindTimeIndex
	kindSnapshot
)

var kindSuffix = [...]string{".log", ".index", ".timeindex", ".snapshot"}

func newHandles(fs env.FS, max int) *handles {
	h := &handles{fs: fs, max: max}
	h.head.prev, h.head.next = &h.head, &h.head
	return h
}

func (f *cachedFile) path() string { return f.seg.path(f.kind) }

// acquire opens the file if it is not open. With create it is made if it does not exist. Each acquire is followed
// by one release.
func (h *handles) acquire(f *cachedFile, create bool) (env.File, error) {
	if file, err := h.take(f); file != nil || err != nil {
		return file, err
	}
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	opened, err := h.fs.OpenFile(f.path(), flag, 0o644)
	if err != nil {
		return nil, storage("open", f.path(), err)
	}
	file, surplus := h.put(f, opened)
	for _, s := range surplus {
		h.shut(s.owner, s.file)
	}
	return file, nil
}

func (h *handles) take(f *cachedFile) (env.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.closeErr != nil {
		return nil, storage("close", f.path(), f.closeErr)
	}
	if f.file == nil {
		return nil, nil
	}
	f.users++
	h.unlink(f)
	h.link(f)
	return f.file, nil
}

type surplusFile struct {
	owner *cachedFile
	file  env.File
}

// put enters a file that was just opened, unless another goroutine was faster, and picks what is to be closed.
func (h *handles) put(f *cachedFile, opened env.File) (env.File, []surplusFile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var surplus []surplusFile
	if f.file != nil {
		surplus = append(surplus, surplusFile{f, opened})
	} else {
		f.file = opened
		f.doomed = false
		h.link(f)
		h.open++
	}
	f.users++
	for victim := h.head.prev; h.open > h.max && victim != &h.head; {
		before := victim.prev
		if victim.users == 0 {
			surplus = append(surplus, surplusFile{victim, victim.file})
			h.forget(victim)
		}
		victim = before
	}
	return f.file, surplus
}

func (h *handles) release(f *cachedFile) {
	h.mu.Lock()
	f.users--
	var file env.File
	if f.doomed && f.users == 0 {
		file = f.file
		h.forget(f)
	}
	h.mu.Unlock()
	if file != nil {
		h.shut(f, file)
	}
}

// drop closes the file, at once or when its last user is done.
func (h *handles) drop(f *cachedFile) {
	h.mu.Lock()
	var file env.File
	switch {
	case f.file == nil:
	case f.users > 0:
		f.doomed = true
	default:
		file = f.file
		h.forget(f)
	}
	h.mu.Unlock()
	if file != nil {
		h.shut(f, file)
	}
}

func (h *handles) shut(f *cachedFile, file env.File) {
	if err := file.Close(); err != nil {
		h.mu.Lock()
		f.closeErr = err
		h.mu.Unlock()
	}
}

func (h *handles) forget(f *cachedFile) {
	h.unlink(f)
	f.file = nil
	f.doomed = false
	h.open--
}

func (h *handles) link(f *cachedFile) {
	f.prev, f.next = &h.head, h.head.next
	h.head.next.prev = f
	h.head.next = f
}

func (h *handles) unlink(f *cachedFile) {
	f.prev.next, f.next.prev = f.next, f.prev
	f.prev, f.next = nil, nil
}
