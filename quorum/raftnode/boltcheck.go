package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"github.com/quorate/quorate/quorum/env"
)

// errBoltDamaged says that a bolt file cannot be used.
var errBoltDamaged = errors.New("damaged")

// The form of a bolt file, version 2: pages, each with a head; two meta pages; branches and leaves below the root bucket.
const (
	boltMagic        = 0xED0CDAED
	boltVersion      = 2
	boltHead         = 16 // of a page: id, flags, count, overflow
	boltElement      = 16 // of a branch or a leaf
	boltMeta         = 64
	boltBucketHead   = 16 // root page and sequence
	boltBranch       = 0x01
	boltLeaf         = 0x02
	boltFreelist     = 0x10
	boltIsBucket     = 0x01 // of a leaf element
	boltNoFreelist   = 1<<64 - 1
	boltDepthMax     = 64
	boltPageBytesMin = 1 << 9
	boltPageBytesMax = 1 << 16
)

// checkBolt reads the structure of a bolt file that nobody has open and returns an error for one whose pages lead outside of it: the
// library maps the file into memory, and reading beyond its end kills the process.
//
// The values are not looked at. A missing or empty file is fine: the library makes a new one.
func checkBolt(files env.FS, path string) error {
	info, err := files.Stat(path)
	if err != nil || info.Size() == 0 {
		return nil // the library's to tell, or to make
	}
	file, err := files.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	c := &boltChecker{file: file, size: info.Size(), seen: make(map[uint64]bool)}
	root, err := c.meta()
	if err == nil {
		err = c.page(root, 0, nil, nil)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBoltDamaged, err)
	}
	return nil
}

// unpanicked runs what opens a bolt file, or reads bytes that a library panics on. The bolt library panics on damage that only it looks
// for; it then leaves the file open, so the process cannot open it again.
func unpanicked(open func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = fmt.Errorf("%w: %s", errBoltDamaged, text)
		}
	}()
	return open()
}

type boltChecker struct {
	file     env.File
	size     int64
	pageSize int64
	pages    uint64 // how many the newest meta page counts
	seen     map[uint64]bool
}

// meta finds the newest whole meta page and returns the root bucket's page. It fails if a newer one is damaged.
func (c *boltChecker) meta() (root uint64, err error) {
	var newest uint64
	var place int64
	var m [boltHead + boltMeta]byte
	for _, at := range c.metaPlaces() {
		if _, err := c.file.ReadAt(m[:], at); err != nil {
			continue
		}
		b := m[boltHead:]
		sum := fnv.New64a()
		sum.Write(b[:boltMeta-8])
		if binary.LittleEndian.Uint32(b) != boltMagic || binary.LittleEndian.Uint32(b[4:]) != boltVersion ||
			binary.LittleEndian.Uint64(b[boltMeta-8:]) != sum.Sum64() {
			continue
		}
		if txid := binary.LittleEndian.Uint64(b[48:]); c.pageSize == 0 || txid > newest {
			newest, place = txid, at
			c.pageSize, c.pages, root = int64(binary.LittleEndian.Uint32(b[8:])), binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[16:])
			if list := binary.LittleEndian.Uint64(b[32:]); list != boltNoFreelist {
				c.seen[list] = true
			}
		}
	}
	switch {
	case c.pageSize == 0:
		return 0, errors.New("neither of its first two pages is whole")
	case c.pageSize < boltPageBytesMin || c.pageSize > boltPageBytesMax:
		return 0, fmt.Errorf("its pages are of %d bytes", c.pageSize)
	case c.pages > uint64(c.size/c.pageSize):
		return 0, fmt.Errorf("it has %d bytes, its %d pages need %d: it was cut", c.size, c.pages, c.pages*uint64(c.pageSize))
	}
	return root, c.precedes(newest, place)
}

// precedes tells whether the meta page that is not the newest whole one, which lies at a place, is of the transaction before, as it always is
// unless that page was written last and is damaged: what the library would take for the newest then lacks a transaction that may have been
// acknowledged. A crash leaves no such page, for a meta page lies within one sector. The first transaction has none before it.
func (c *boltChecker) precedes(newest uint64, place int64) error {
	if place == 0 {
		place = c.pageSize
	} else {
		place = 0
	}
	var m [boltHead + boltMeta]byte
	if _, err := c.file.ReadAt(m[:], place); err != nil {
		return err
	}
	if txid := binary.LittleEndian.Uint64(m[boltHead+48:]); newest > 0 && txid != newest-1 {
		return fmt.Errorf("its meta pages are of the transactions %d and %d: one of them was changed", newest, txid)
	}
	return nil
}

// metaPlaces are where the two meta pages may begin: the second lies a page behind the first, whose size may be unknown.
func (c *boltChecker) metaPlaces() []int64 {
	places := []int64{0}
	for size := int64(boltPageBytesMin); size <= boltPageBytesMax; size *= 2 {
		places = append(places, size)
	}
	return places
}

// page checks a page and everything below it. Its keys lie from min on and below max, where these are not nil.
func (c *boltChecker) page(id uint64, depth int, min, max []byte) error {
	flags, count, size, err := c.head(id, depth)
	if err != nil {
		return err
	}
	elements, err := c.read(id, boltHead, count*boltElement)
	if err != nil {
		return err
	}
	keys := make([][]byte, count+1)
	for i := range count {
		if keys[i], err = c.key(id, flags, boltHead+i*boltElement, size, elements[i*boltElement:]); err != nil {
			return err
		}
		if i == 0 && bytes.Compare(min, keys[0]) > 0 || i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 || max != nil && bytes.Compare(keys[i], max) >= 0 {
			return fmt.Errorf("the keys of page %d are out of order", id)
		}
	}
	keys[count] = max
	for i := range count {
		e := elements[i*boltElement:]
		if flags == boltBranch {
			err = c.page(binary.LittleEndian.Uint64(e[8:]), depth+1, keys[i], keys[i+1])
		} else if binary.LittleEndian.Uint32(e)&boltIsBucket != 0 {
			err = c.bucket(id, depth, boltHead+i*boltElement, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// head checks the head of a page, which may go on in those behind it.
func (c *boltChecker) head(id uint64, depth int) (flags uint16, count, size int64, err error) {
	head, err := c.read(id, 0, boltHead)
	if err != nil {
		return 0, 0, 0, err
	}
	flags, count = binary.LittleEndian.Uint16(head[8:]), int64(binary.LittleEndian.Uint16(head[10:]))
	overflow := uint64(binary.LittleEndian.Uint32(head[12:]))
	size = (int64(overflow) + 1) * c.pageSize
	switch {
	case depth > boltDepthMax:
		err = fmt.Errorf("page %d lies more than %d levels deep", id, boltDepthMax)
	case binary.LittleEndian.Uint64(head) != id:
		err = fmt.Errorf("page %d calls itself %d", id, binary.LittleEndian.Uint64(head))
	case flags != boltBranch && flags != boltLeaf:
		err = fmt.Errorf("page %d is neither a branch nor a leaf (flags %#x)", id, flags)
	case overflow >= c.pages || id+overflow >= c.pages:
		err = fmt.Errorf("page %d goes on for %d pages, the file has %d", id, overflow, c.pages)
	case boltHead+count*boltElement > size || flags == boltBranch && count == 0:
		err = fmt.Errorf("page %d has %d elements in %d bytes", id, count, size)
	}
	for i := uint64(0); err == nil && i <= overflow; i++ {
		if c.seen[id+i] {
			err = fmt.Errorf("page %d is used twice", id+i)
		}
		c.seen[id+i] = true
	}
	return flags, count, size, err
}

// key returns the key of an element that lies at a place in a page, which the element must not lead out of.
func (c *boltChecker) key(id uint64, flags uint16, at, size int64, e []byte) ([]byte, error) {
	pos, key, value := int64(binary.LittleEndian.Uint32(e)), int64(binary.LittleEndian.Uint32(e[4:])), int64(0)
	if flags == boltLeaf {
		pos, key, value = int64(binary.LittleEndian.Uint32(e[4:])), int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
	}
	if at+pos+key+value > size || pos < boltElement {
		return nil, fmt.Errorf("an element of page %d lies outside of it", id)
	}
	return c.read(id, at+pos, key)
}

// bucket checks the bucket that a leaf's element holds.
func (c *boltChecker) bucket(id uint64, depth int, at int64, e []byte) error {
	begin := at + int64(binary.LittleEndian.Uint32(e[4:])) + int64(binary.LittleEndian.Uint32(e[8:]))
	value := int64(binary.LittleEndian.Uint32(e[12:]))
	if value < boltBucketHead {
		return fmt.Errorf("a bucket in page %d has %d bytes", id, value)
	}
	head, err := c.read(id, begin, boltBucketHead)
	if err != nil {
		return err
	}
	if root := binary.LittleEndian.Uint64(head); root != 0 {
		return c.page(root, depth+1, nil, nil)
	}
	return c.inline(id, begin+boltBucketHead, value-boltBucketHead)
}

// inline checks the page of a small bucket, which lies inside an element.
func (c *boltChecker) inline(id uint64, at, size int64) error {
	if size < boltHead {
		return fmt.Errorf("a small bucket in page %d has %d bytes", id, size)
	}
	p, err := c.read(id, at, size)
	if err != nil {
		return err
	}
	flags, count := binary.LittleEndian.Uint16(p[8:]), int64(binary.LittleEndian.Uint16(p[10:]))
	if flags != boltLeaf || boltHead+count*boltElement > size {
		return fmt.Errorf("a small bucket in page %d has flags %#x and %d elements", id, flags, count)
	}
	for i := range count {
		e := p[boltHead+i*boltElement:]
		end := boltHead + i*boltElement + int64(binary.LittleEndian.Uint32(e[4:])) + int64(binary.LittleEndian.Uint32(e[8:])) + int64(binary.LittleEndian.Uint32(e[12:]))
		if end > size {
			return fmt.Errorf("an element of a small bucket in page %d lies outside of it", id)
		}
	}
	return nil
}

// read reads bytes at a place in a page; the page may go on in those behind it.
func (c *boltChecker) read(id uint64, at, n int64) ([]byte, error) {
	if id < 2 || id >= c.pages {
		return nil, fmt.Errorf("page %d is named, the file has pages 2 to %d", id, c.pages-1)
	}
	b := make([]byte, n)
	if _, err := c.file.ReadAt(b, int64(id)*c.pageSize+at); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}
