package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// floorFile holds the first offset that retention left.
const floorFile = "floor"

// store is the set of segments. Only the last one is written to.
type store struct {
	cfg     *Config
	metrics *Metrics

	// wmu serialises what changes the files; it is taken before mu.
	wmu  sync.Mutex
	file env.File // of the last segment, nil when that is closed

	mu    sync.Mutex
	list  []*segment // ascending by offset
	floor image.MetadataOffset

	// gapped is set when a gap has arisen, until the filler is told.
	gapped atomic.Bool
}

// noteGap counts a gap that has arisen, and remembers to tell the filler.
func (s *store) noteGap() {
	s.metrics.Gaps.Add(1)
	s.gapped.Store(true)
}

// open reads what is there. It may be called again after an error.
func (s *store) open() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	files := s.cfg.Env.FS
	if err := files.MkdirAll(s.cfg.Dir, 0o755); err != nil {
		return err
	}
	floor, err := s.readFloor()
	if err != nil {
		return err
	}
	entries, err := files.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	var list []*segment
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasSuffix(name, fillSuffix), strings.HasSuffix(name, ".tmp"):
			err = files.Remove(filepath.Join(s.cfg.Dir, name))
		case strings.HasSuffix(name, otherSuffix):
			err = s.removeOld(name, e)
		case strings.HasSuffix(name, segmentSuffix):
			var seg *segment
			if seg, err = s.openSegment(name); seg != nil {
				list = append(list, seg)
			}
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(list, compareSegments)
	if err := s.reopenLast(list); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.floor = list, floor
	return nil
}

// compareSegments orders by offset. What follows a gap begins where what fills it ends, so the last one stays the last.
func compareSegments(a, b *segment) int {
	return cmp.Or(cmp.Compare(a.header.before.Offset, b.header.before.Offset), cmp.Compare(a.after().Offset, b.after().Offset), cmp.Compare(a.name, b.name))
}

// openSegment trusts an index, and scans a file without one. A file that is none is put aside; the segment is then nil.
func (s *store) openSegment(name string) (*segment, error) {
	path := filepath.Join(s.cfg.Dir, name)
	info, err := s.cfg.Env.FS.Stat(path)
	if err != nil {
		return nil, err
	}
	if size, runs, _, err := readIndex(s.cfg.Env.FS, s.cfg.Dir, name); err == nil && size == info.Size() {
		if h, err := s.readHeader(path); err == nil {
			return &segment{name: name, header: h, runs: runs, size: size}, nil
		}
	}
	found, err := scan(s.cfg.Env.FS, s.cfg.Dir, name)
	if errors.Is(err, errDamaged) || errors.Is(err, errTorn) {
		s.metrics.Damaged.Add(1)
		s.cfg.Logger.Error("history file refused and put aside", "file", path, "error", err)
		return nil, s.cfg.Env.FS.Rename(path, path+otherSuffix)
	}
	if err != nil {
		return nil, err
	}
	s.reportScan(path, found)
	return found.segment, nil
}

func (s *store) reportScan(path string, found scanned) {
	for _, at := range found.damaged {
		s.metrics.Damaged.Add(1)
		s.cfg.Logger.Error("history file damaged; what is readable stays in use", "file", path, "position", at)
	}
	if found.torn > 0 {
		s.cfg.Logger.Info("history file ends in an unfinished frame", "file", path, "position", found.segment.size, "bytes", found.torn)
	}
}

func (s *store) readHeader(path string) (header, error) {
	file, err := s.cfg.Env.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return header{}, err
	}
	defer file.Close() // opened for reading
	b := make([]byte, headerBytes)
	if _, err := file.ReadAt(b, 0); err != nil {
		return header{}, err
	}
	return decodeHeader(b)
}

// reopenLast lets the last segment grow if it was not closed, and gives those before it their indexes.
func (s *store) reopenLast(list []*segment) error {
	s.closeFile()
	for i, seg := range list {
		if seg.keys == nil {
			continue
		}
		if i < len(list)-1 {
			s.writeIndex(seg)
			continue
		}
		file, err := s.cfg.Env.FS.OpenFile(filepath.Join(s.cfg.Dir, seg.name), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := file.Truncate(seg.size); err != nil {
			return errors.Join(err, file.Close())
		}
		s.file = file
	}
	return nil
}

// removeOld removes a file that was put aside, when it is older than what is kept.
func (s *store) removeOld(name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || s.cfg.Env.Now().Sub(info.ModTime()) < s.cfg.RetentionTime {
		return nil
	}
	return s.cfg.Env.FS.Remove(filepath.Join(s.cfg.Dir, name))
}

func (s *store) readFloor() (image.MetadataOffset, error) {
	b, err := env.ReadFile(s.cfg.Env.FS, filepath.Join(s.cfg.Dir, floorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n < 0 {
		s.cfg.Logger.Error("history file damaged: the floor is taken for 0", "file", filepath.Join(s.cfg.Dir, floorFile))
		return 0, nil
	}
	return image.MetadataOffset(n), nil
}

// close ends the writing. What was written is synced, so that a planned stop of the machine loses nothing.
func (s *store) close() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.file != nil {
		if err := s.file.Sync(); err != nil {
			s.cfg.Logger.Warn("history not synced", "error", err)
		}
	}
	s.closeFile()
}

// closeFile lets go of the file. The caller holds wmu.
func (s *store) closeFile() {
	if s.file == nil {
		return
	}
	if err := s.file.Close(); err != nil {
		s.cfg.Logger.Warn("history file not closed", "error", err)
	}
	s.file = nil
}

// last is the last segment, nil if there is none. The caller holds wmu or mu.
func (s *store) last() *segment {
	if len(s.list) == 0 {
		return nil
	}
	return s.list[len(s.list)-1]
}

// tail is where the history ends.
func (s *store) tail() Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seg := s.last(); seg != nil {
		return seg.after()
	}
	return begin
}

// freeName is a name for a segment that begins at an offset. The caller holds wmu.
func (s *store) freeName(base image.MetadataOffset) string {
	for n := 0; ; n++ {
		name := segmentName(base, n)
		if !slices.ContainsFunc(s.list, func(o *segment) bool { return o.name == name }) {
			return name
		}
	}
}

// writeIndex writes the index of a closed segment. Without one it is scanned at the next start: an error is only told.
func (s *store) writeIndex(seg *segment) {
	path := filepath.Join(s.cfg.Dir, seg.name+indexSuffix)
	if err := env.WriteFileAtomic(s.cfg.Env.FS, path, encodeIndex(seg, seg.keys.bloom()), fileMode); err != nil {
		s.cfg.Logger.Warn("history index not written", "file", path, "error", err)
	}
}

// replace puts a changed copy in the place of a segment. The caller holds wmu.
func (s *store) replace(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	for i, o := range list {
		if o.name == seg.name {
			list[i] = seg
		}
	}
	s.list = list
}

// remove takes a segment's files away. The caller holds wmu and has taken it from the list.
func (s *store) remove(seg *segment) error {
	path := filepath.Join(s.cfg.Dir, seg.name)
	if err := s.cfg.Env.FS.Remove(path + indexSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.cfg.Env.FS.Remove(path)
}

// setAside renames every file: they belong to another log. The caller holds wmu.
func (s *store) setAside() error {
	s.closeFile()
	for _, seg := range s.list {
		path := filepath.Join(s.cfg.Dir, seg.name)
		if err := s.cfg.Env.FS.Remove(path + indexSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := s.cfg.Env.FS.Rename(path, path+otherSuffix); err != nil {
			return err
		}
	}
	if err := s.writeFloor(0); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.floor = nil, 0
	return nil
}

func (s *store) writeFloor(floor image.MetadataOffset) error {
	return env.WriteFileAtomic(s.cfg.Env.FS, filepath.Join(s.cfg.Dir, floorFile), fmt.Appendf(nil, "%d\n", floor), fileMode)
}
