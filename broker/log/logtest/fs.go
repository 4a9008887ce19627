package logtest

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/quorum/env"
)

// ErrFrozen is what every call returns between [FS.Freeze] and the next life, and what the files of a former life
// return for ever.
var ErrFrozen = errors.New("logtest: the process was killed")

// FS is a file system in memory.
type FS struct {
	mu     sync.Mutex
	root   *node
	life   int
	frozen bool
	open   int
	calls  map[string]int
	// Now is the time that files get; it may be set before use.
	Now func() time.Time
}

// node is a file or a directory.
type node struct {
	isDir bool
	mtime time.Time

	// Of a directory: the entries, those that have reached the disk, and what was done since.
	entries, durable map[string]*node
	pending          []entryChange

	// Of a file: the content, what has reached the disk, and what was done since.
	data, synced []byte
	writes       []dataChange
}

type entryChange struct {
	name string
	to   *node // nil: removed
}

// dataChange is a write at an offset, or a truncation to it.
type dataChange struct {
	at       int64
	data     []byte
	truncate bool
}

// NewFS makes an empty file system with a root directory.
func NewFS() *FS {
	return &FS{root: newDir(), calls: make(map[string]int), Now: time.Now}
}

func newDir() *node {
	return &node{isDir: true, entries: make(map[string]*node), durable: make(map[string]*node)}
}

// Calls is how many calls of a kind there were: open, write, sync, syncdir, truncate, rename, remove, read.
func (f *FS) Calls(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[kind]
}

// OpenFiles is how many files are open.
func (f *FS) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// enter counts a call and takes the lock, which the caller gives back.
func (f *FS) enter(kind string) error {
	f.mu.Lock()
	f.calls[kind]++
	if f.frozen {
		return ErrFrozen
	}
	return nil
}

func split(name string) []string {
	return strings.FieldsFunc(filepath.ToSlash(filepath.Clean("/"+name)), func(r rune) bool { return r == '/' })
}

func (f *FS) lookup(name string) (*node, error) {
	n := f.root
	for _, part := range split(name) {
		if n = n.entries[part]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// parent is the directory of a name, and the name in it.
func (f *FS) parent(name string) (*node, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", fs.ErrInvalid
	}
	dir, err := f.lookup(strings.Join(parts[:len(parts)-1], "/"))
	return dir, parts[len(parts)-1], err
}

func (n *node) set(name string, to *node) {
	if to == nil {
		delete(n.entries, name)
	} else {
		n.entries[name] = to
	}
	n.pending = append(n.pending, entryChange{name, to})
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// OpenFile implements env.FS.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (env.File, error) {
	err := f.enter("open")
	defer f.mu.Unlock()
	if err != nil {
		return nil, pathError("open", name, err)
	}
	dir, base, err := f.parent(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n := dir.entries[base]
	if n == nil && flag&os.O_CREATE == 0 {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if n != nil && n.isDir {
		return nil, pathError("open", name, syscall.EISDIR)
	}
	if n == nil {
		n = &node{mtime: f.Now()}
		dir.set(base, n)
	}
	if flag&os.O_TRUNC != 0 {
		n.truncate(0)
	}
	f.open++
	return &file{fs: f, node: n, name: name, life: f.life}, nil
}

// MkdirAll implements env.FS.
func (f *FS) MkdirAll(name string, _ fs.FileMode) error {
	err := f.enter("mkdir")
	defer f.mu.Unlock()
	if err != nil {
		return pathError("mkdir", name, err)
	}
	n := f.root
	for _, part := range split(name) {
		next := n.entries[part]
		if next == nil {
			next = newDir()
			n.set(part, next)
		}
		if !next.isDir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// Rename implements env.FS, within one directory.
func (f *FS) Rename(from, to string) error {
	err := f.enter("rename")
	defer f.mu.Unlock()
	if err != nil {
		return pathError("rename", from, err)
	}
	dir, base, err := f.parent(from)
	if err != nil || dir.entries[base] == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	target, targetBase, err := f.parent(to)
	if err != nil || target != dir {
		return pathError("rename", to, fs.ErrInvalid)
	}
	if old := dir.entries[targetBase]; old != nil && old.isDir && len(old.entries) > 0 {
		return pathError("rename", to, syscall.ENOTEMPTY)
	}
	n := dir.entries[base]
	delete(dir.entries, base)
	dir.entries[targetBase] = n
	// One change: both names or none.
	dir.pending = append(dir.pending, entryChange{base, nil}, entryChange{targetBase, n})
	return nil
}

// Remove implements env.FS.
func (f *FS) Remove(name string) error { return f.remove(name, false) }

// RemoveAll implements env.FS.
func (f *FS) RemoveAll(name string) error { return f.remove(name, true) }

func (f *FS) remove(name string, all bool) error {
	err := f.enter("remove")
	defer f.mu.Unlock()
	if err != nil {
		return pathError("remove", name, err)
	}
	dir, base, err := f.parent(name)
	if err != nil || dir.entries[base] == nil {
		if all {
			return nil
		}
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n := dir.entries[base]; n.isDir && len(n.entries) > 0 && !all {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	dir.set(base, nil)
	return nil
}

// ReadDir implements env.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	err := f.enter("readdir")
	defer f.mu.Unlock()
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	n, err := f.lookup(name)
	if err != nil || !n.isDir {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	var list []fs.DirEntry
	for _, base := range slices.Sorted(maps.Keys(n.entries)) {
		list = append(list, fs.FileInfoToDirEntry(n.entries[base].info(base)))
	}
	return list, nil
}

// Stat implements env.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	err := f.enter("stat")
	defer f.mu.Unlock()
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	n, err := f.lookup(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(filepath.Base(name)), nil
}

// SyncDir implements env.FS.
func (f *FS) SyncDir(name string) error {
	err := f.enter("syncdir")
	defer f.mu.Unlock()
	if err != nil {
		return pathError("syncdir", name, err)
	}
	n, err := f.lookup(name)
	if err != nil {
		return pathError("syncdir", name, err)
	}
	n.durable = maps.Clone(n.entries)
	n.pending = nil
	return nil
}

type noLock struct{}

func (noLock) Close() error { return nil }

// Lock implements env.FS; it locks nothing.
func (f *FS) Lock(string) (io.Closer, error) { return noLock{}, nil }
