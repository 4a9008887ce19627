package envtest

import (
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/quorate/quorate/quorum/env"
)

// FS is a file system with faults, over another one.
type FS struct {
	inner  env.FS
	faults *Faults

	mu      sync.Mutex
	limited bool
	left    int64 // bytes that may yet be written
}

// NewFS wraps a file system. Calls are matched against the rules by kind and by the file's base name.
func NewFS(inner env.FS, faults *Faults) *FS { return &FS{inner: inner, faults: faults} }

// SetSpace makes the disk full after n more bytes. Writes then fail with ENOSPC, the last one short.
func (f *FS) SetSpace(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.left = true, n
}

// Free takes the limit of SetSpace away.
func (f *FS) Free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited = false
}

// take asks for n bytes and tells how many there are.
func (f *FS) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.limited {
		return n
	}
	got := int(min(int64(n), f.left))
	f.left -= int64(got)
	return got
}

// OpenFile implements env.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (env.File, error) {
	if err := f.faults.Call("open", name); err != nil {
		return nil, err
	}
	file, err := f.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f}, nil
}

// MkdirAll implements env.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.faults.Call("mkdir", name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name, perm)
}

// Rename implements env.FS. The rule's name is matched against the old name.
func (f *FS) Rename(from, to string) error {
	if err := f.faults.Call("rename", from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove implements env.FS.
func (f *FS) Remove(name string) error {
	if err := f.faults.Call("remove", name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements env.FS; its kind is remove, too.
func (f *FS) RemoveAll(name string) error {
	if err := f.faults.Call("remove", name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// ReadDir implements env.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.faults.Call("readdir", name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements env.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := f.faults.Call("stat", name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements env.FS.
func (f *FS) SyncDir(name string) error {
	if err := f.faults.Call("syncdir", name); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

// Lock implements env.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.faults.Call("lock", name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

type faultyFile struct {
	env.File
	fs *FS
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if err := f.fs.faults.Call("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.faults.Call("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) Write(p []byte) (int, error) {
	return f.write(p, func(q []byte) (int, error) { return f.File.Write(q) })
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, func(q []byte) (int, error) { return f.File.WriteAt(q, off) })
}

func (f *faultyFile) write(p []byte, inner func([]byte) (int, error)) (int, error) {
	if short, fault := f.fs.faults.call("write", f.Name()); fault != nil {
		if short == 0 {
			return 0, fault
		}
		n, err := inner(p[:min(short, len(p))])
		if err != nil {
			return n, err
		}
		return n, fault
	}
	room := f.fs.take(len(p))
	n, err := inner(p[:room])
	if err == nil && room < len(p) {
		err = fmt.Errorf("write %s: %w", f.Name(), syscall.ENOSPC)
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fs.faults.Call("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.faults.Call("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	if err := f.fs.faults.Call("close", f.Name()); err != nil {
		f.File.Close() // the descriptor is gone either way
		return err
	}
	return f.File.Close()
}
