package kafka

import "sync"

// firstBuffer is the buffer that every connection may have, whatever others hold: a request up to this size waits for
// no buffer space.
const firstBuffer = 4 << 10

// bufferClasses are the sizes of pooled request buffers. A larger request gets a buffer of its own.
var bufferClasses = [...]int{firstBuffer, 32 << 10, 256 << 10, smallFrame}

// bufferPool keeps request buffers for reuse.
type bufferPool struct {
	classes [len(bufferClasses)]sync.Pool
}

// get returns a buffer of length 0 that holds at least size bytes; a size of a class gets exactly that capacity.
func (p *bufferPool) get(size int) []byte {
	for i, class := range bufferClasses {
		if size > class {
			continue
		}
		if b, ok := p.classes[i].Get().(*[]byte); ok {
			return (*b)[:0]
		}
		return make([]byte, 0, class)
	}
	return make([]byte, 0, size)
}

// put takes a buffer back when nothing refers to it any more.
func (p *bufferPool) put(b []byte) {
	for i, class := range bufferClasses {
		if cap(b) == class {
			b = b[:0]
			p.classes[i].Put(&b)
			return
		}
	}
}

// bufferAfter is the size of the buffer that follows one of have bytes while a frame of size bytes arrives: the next
// class, and beyond the classes twice as much, up to the frame.
func bufferAfter(have, size int) int {
	for _, class := range bufferClasses {
		if class > have {
			return class
		}
	}
	return min(size, 2*have)
}

// bufferFor is the size of the buffer that a frame of size bytes ends in.
func bufferFor(size int) int {
	for _, class := range bufferClasses {
		if class >= size {
			return class
		}
	}
	return size
}

// grow moves a frame into a larger buffer.
func (p *bufferPool) grow(b []byte, size int) []byte {
	grown := append(p.get(size), b...)
	p.put(b)
	return grown
}
