package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const (
	segmentSuffix = ".history"
	indexSuffix   = ".index"
	fillSuffix    = ".fill"
	otherSuffix   = ".other"
	fileMode      = 0o644
)

// run is a piece of a segment whose entries follow each other.
type run struct {
	start, end    int64 // positions in the file
	before, after Mark
	entries       int64
	lastTimeMs    int64
}

// add makes an entry of n bytes the last one of the run.
func (r *run) add(i item, n int) {
	r.end += int64(n)
	r.after = i.after()
	r.entries++
	r.lastTimeMs = i.TimeMs
}

// segment is a file. It is not changed once others may see it: a change makes a copy.
type segment struct {
	name   string // without the folder
	header header
	// runs are one, none if the segment is empty, several if bytes in the middle are damaged.
	runs []run
	size int64 // where the next frame goes
	// keys are what an index would find; nil when the index is in a file.
	keys keySet
}

// after is the mark at the end of the segment.
func (s *segment) after() Mark {
	if len(s.runs) == 0 {
		return s.header.before
	}
	return s.runs[len(s.runs)-1].after
}

func (s *segment) lastTimeMs() int64 {
	if len(s.runs) == 0 {
		return s.header.timeMs
	}
	return s.runs[len(s.runs)-1].lastTimeMs
}

// segmentName tells two segments with one first offset apart by a number.
func segmentName(base image.MetadataOffset, number int) string {
	return fmt.Sprintf("%020d-%d%s", base, number, segmentSuffix)
}

// scanned is what a file holds.
type scanned struct {
	segment *segment
	// damaged are the positions of what could not be read.
	damaged []int64
	// torn is the size of an unfinished end.
	torn int64
}

// scan reads a segment whole and finds out what of it is good.
func scan(fs env.FS, dir, name string) (scanned, error) {
	data, err := env.ReadFile(fs, filepath.Join(dir, name))
	if err != nil {
		return scanned{}, err
	}
	h, err := decodeHeader(data)
	if err != nil {
		return scanned{}, err
	}
	out := scanned{segment: &segment{name: name, header: h, keys: keySet{}}}
	s := out.segment
	at, previous := headerBytes, h.before
	for at < len(data) {
		i, n, err := frameAt(data[at:])
		if err != nil {
			next := nextFrame(data, at+1)
			if next == len(data) {
				out.torn = int64(len(data) - at)
				break
			}
			out.damaged = append(out.damaged, int64(at))
			at = next
			continue
		}
		if len(s.runs) == 0 || i.before.Chain != previous.Chain || i.before.Offset < previous.Offset {
			s.runs = append(s.runs, run{start: int64(at), end: int64(at), before: i.before})
		}
		s.runs[len(s.runs)-1].add(i, n)
		s.keys.addEntry(i.Entry)
		at, previous = at+n, i.after()
	}
	s.size = int64(len(data)) - out.torn
	return out, nil
}

// frameAt reads the frame that data begins with.
func frameAt(data []byte) (item, int, error) {
	n, err := frameLength(data)
	if err != nil {
		return item{}, 0, err
	}
	if n > len(data) {
		return item{}, 0, errTorn
	}
	i, err := decodeFrame(data[:n])
	return i, n, err
}

// nextFrame finds the next good frame, or the end.
func nextFrame(data []byte, from int) int {
	magic := binary.LittleEndian.AppendUint32(nil, frameMagic)
	for from < len(data) {
		found := bytes.Index(data[from:], magic)
		if found < 0 {
			break
		}
		from += found
		if _, _, err := frameAt(data[from:]); err == nil {
			return from
		}
		from++
	}
	return len(data)
}

// createSegment makes a file with a header.
func createSegment(fs env.FS, dir, name string, h header) (env.File, error) {
	path := filepath.Join(dir, name)
	file, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteAt(h.encode(), 0); err != nil {
		return nil, errors.Join(err, file.Close(), fs.Remove(path))
	}
	return file, nil
}
