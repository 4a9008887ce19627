package log

import (
	"io"
	"sort"
	"sync"
)

const (
	// indexTailEntries is how many index entries are kept in memory before they are written in one call.
	indexTailEntries = 64
	// indexBlockBytes is what a search reads of an index in one call when it has come near.
	indexBlockBytes = 4096
)

// sparseIndex is a file of entries of one size, in ascending order. Its newest entries are in memory until there
// are enough of them for a write, so that an append is one write and no more.
//
// One goroutine at a time may change it, under the log's writer lock; any number may search.
type sparseIndex struct {
	file       cachedFile
	entryBytes int

	mu sync.RWMutex
	// written is the number of entries in the file.
	written int
	// tail is the entries after those.
	tail []byte
}

// entries is the number of entries, in the file and in memory.
func (x *sparseIndex) entries() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.written + len(x.tail)/x.entryBytes
}

// add appends an entry; the tail is written when it is long enough.
func (x *sparseIndex) add(h *handles, entry []byte) error {
	x.mu.Lock()
	x.tail = append(x.tail, entry...)
	full := len(x.tail) >= indexTailEntries*x.entryBytes
	x.mu.Unlock()
	if full {
		return x.write(h)
	}
	return nil
}

// write brings the tail into the file.
func (x *sparseIndex) write(h *handles) error {
	if len(x.tail) == 0 { // only the writer changes it
		return nil
	}
	file, err := h.acquire(&x.file, true)
	if err != nil {
		return err
	}
	defer h.release(&x.file)
	if _, err := file.WriteAt(x.tail, int64(x.written)*int64(x.entryBytes)); err != nil {
		return storage("write", x.file.path(), err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.written += len(x.tail) / x.entryBytes
	x.tail = x.tail[:0]
	return nil
}

// keep cuts the index to its first n entries.
func (x *sparseIndex) keep(h *handles, n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n >= x.written {
		x.tail = x.tail[:min(len(x.tail), (n-x.written)*x.entryBytes)]
		return nil
	}
	x.tail = x.tail[:0]
	file, err := h.acquire(&x.file, true)
	if err != nil {
		return err
	}
	defer h.release(&x.file)
	if err := file.Truncate(int64(n) * int64(x.entryBytes)); err != nil {
		return storage("truncate", x.file.path(), err)
	}
	x.written = n
	return nil
}

// floor returns the number of entries for which atMost is true; they are the first ones. It also returns a copy
// of the last of them, nil if there is none.
func (x *sparseIndex) floor(h *handles, atMost func(entry []byte) bool) (int, []byte, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.tail) > 0 && atMost(x.tail[:x.entryBytes]) {
		n := x.search(x.tail, atMost)
		return x.written + n, append([]byte(nil), x.tail[(n-1)*x.entryBytes:n*x.entryBytes]...), nil
	}
	if x.written == 0 {
		return 0, nil, nil
	}
	file, err := h.acquire(&x.file, false)
	if err != nil {
		return 0, nil, err
	}
	defer h.release(&x.file)
	n, entry, err := x.searchFile(file, atMost)
	if err != nil {
		return 0, nil, storage("read", x.file.path(), err)
	}
	return n, entry, nil
}

// ends is the first and the last of n entries.
func (x *sparseIndex) ends(h *handles) (first, last []byte, n int, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n = x.written + len(x.tail)/x.entryBytes
	if n == 0 {
		return nil, nil, 0, nil
	}
	if first, err = x.entry(h, 0); err != nil {
		return nil, nil, 0, err
	}
	last, err = x.entry(h, n-1)
	return first, last, n, err
}

func (x *sparseIndex) entry(h *handles, i int) ([]byte, error) {
	e := make([]byte, x.entryBytes)
	if i >= x.written {
		copy(e, x.tail[(i-x.written)*x.entryBytes:])
		return e, nil
	}
	file, err := h.acquire(&x.file, false)
	if err != nil {
		return nil, err
	}
	defer h.release(&x.file)
	return e, storage("read", x.file.path(), readFull(file, e, int64(i)*int64(x.entryBytes)))
}

func (x *sparseIndex) search(p []byte, atMost func(entry []byte) bool) int {
	return sort.Search(len(p)/x.entryBytes, func(i int) bool {
		return !atMost(p[i*x.entryBytes : (i+1)*x.entryBytes])
	})
}

// searchFile halves the file until what is left fits one read.
func (x *sparseIndex) searchFile(file io.ReaderAt, atMost func(entry []byte) bool) (int, []byte, error) {
	perBlock := indexBlockBytes / x.entryBytes
	var buf [indexBlockBytes]byte
	low, high := 0, x.written // entries below low are at most; those from high on are not
	for high-low > perBlock {
		middle := (low + high) / 2
		if err := readFull(file, buf[:x.entryBytes], int64(middle)*int64(x.entryBytes)); err != nil {
			return 0, nil, err
		}
		if atMost(buf[:x.entryBytes]) {
			low = middle
		} else {
			high = middle
		}
	}
	block := buf[:(high-low)*x.entryBytes]
	if err := readFull(file, block, int64(low)*int64(x.entryBytes)); err != nil {
		return 0, nil, err
	}
	n := x.search(block, atMost)
	if n == 0 {
		return low, nil, nil // only when low is 0
	}
	return low + n, append([]byte(nil), block[(n-1)*x.entryBytes:n*x.entryBytes]...), nil
}

// readFull reads len(p) bytes at an offset; a file that is too short is io.ErrUnexpectedEOF.
func readFull(file io.ReaderAt, p []byte, at int64) error {
	n, err := file.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
