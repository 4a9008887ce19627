package logtest

import (
	"io"
	"io/fs"
	"time"
)

// file is an open file of one life.
type file struct {
	fs     *FS
	node   *node
	name   string
	life   int
	at     int64
	closed bool
}

// enter counts a call and takes the lock, which the caller gives back.
func (f *file) enter(kind string) error {
	if err := f.fs.enter(kind); err != nil {
		return pathError(kind, f.name, err)
	}
	if f.life != f.fs.life {
		return pathError(kind, f.name, ErrFrozen)
	}
	if f.closed {
		return pathError(kind, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *file) Name() string { return f.name }

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	err := f.enter("read")
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.node.readAt(p, off)
}

func (n *node) readAt(p []byte, off int64) (int, error) {
	if off >= int64(len(n.data)) {
		return 0, io.EOF
	}
	read := copy(p, n.data[off:])
	if read < len(p) {
		return read, io.EOF
	}
	return read, nil
}

func (f *file) Read(p []byte) (int, error) {
	err := f.enter("read")
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := f.node.readAt(p, f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	err := f.enter("write")
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	f.node.writeAt(p, off)
	f.node.mtime = f.fs.Now()
	return len(p), nil
}

func (f *file) Write(p []byte) (int, error) {
	err := f.enter("write")
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	f.node.writeAt(p, f.at)
	f.node.mtime = f.fs.Now()
	f.at += int64(len(p))
	return len(p), nil
}

func (n *node) writeAt(p []byte, off int64) {
	n.data = overwrite(n.data, p, off)
	n.writes = append(n.writes, dataChange{at: off, data: append([]byte(nil), p...)})
}

func (n *node) truncate(size int64) {
	n.data = resize(n.data, size)
	n.writes = append(n.writes, dataChange{at: size, truncate: true})
}

func overwrite(data, p []byte, off int64) []byte {
	if end := off + int64(len(p)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[off:], p)
	return data
}

// resize cuts or fills with zeros.
func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	grown := append(data, make([]byte, size-int64(len(data)))...)
	return grown
}

func (f *file) Truncate(size int64) error {
	err := f.enter("truncate")
	defer f.fs.mu.Unlock()
	if err != nil {
		return err
	}
	f.node.truncate(size)
	return nil
}

func (f *file) Sync() error {
	err := f.enter("sync")
	defer f.fs.mu.Unlock()
	if err != nil {
		return err
	}
	f.node.synced = append([]byte(nil), f.node.data...)
	f.node.writes = nil
	return nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	}
	f.at = offset
	return offset, nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.info(f.name), nil
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	if f.life == f.fs.life {
		f.fs.open--
	}
	return nil
}

// info is a node's state at one moment.
type info struct {
	name  string
	size  int64
	dir   bool
	mtime time.Time
}

func (n *node) info(name string) info { return info{name, int64(len(n.data)), n.isDir, n.mtime} }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.mtime }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
