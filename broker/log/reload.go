package log

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/quorum/env"
)

// reloadProducers makes the state of the producers anew, as of an offset: from the newest snapshot at or below it and
// the batches after that. Snapshots above it are removed.
func (l *Log) reloadProducers(end int64) error {
	if err := l.dropSnapshots(end); err != nil {
		return err
	}
	snapshots, err := l.listSnapshots()
	if err != nil {
		return err
	}
	list := *l.segments.Load()
	if err := l.producers.restore(l.env.FS, l.dir, snapshots, list[0].base, end); err != nil {
		return err
	}
	return l.replayProducers(l.producers.end, end)
}

// dropSnapshots removes the snapshots above an offset.
func (l *Log) dropSnapshots(above int64) error {
	snapshots, err := l.listSnapshots()
	if err != nil {
		return err
	}
	for _, offset := range snapshots {
		if offset <= above {
			continue
		}
		if err := removeIfThere(l.env.FS, segmentPath(l.dir, offset, kindSnapshot)); err != nil {
			return err
		}
	}
	return nil
}

// replayProducers takes in the batches between two offsets.
func (l *Log) replayProducers(from, end int64) error {
	nowMs := l.env.Now().UnixMilli()
	list := *l.segments.Load()
	for _, s := range list[max(0, segmentAt(list, from)):] {
		if s.base >= end {
			break
		}
		f, ok, err := s.find(l.handles, from)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		err = s.scan(l.handles, f.position, func(b Batch, _ int64) (bool, error) {
			if b.NextOffset() > end {
				return false, nil
			}
			l.producers.update(b, nowMs)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	l.producers.end = end
	return nil
}

// listSnapshots is the offsets of the producer snapshots on disk, ascending.
func (l *Log) listSnapshots() ([]int64, error) {
	entries, err := l.env.FS.ReadDir(l.dir)
	if err != nil {
		return nil, storage("list", l.dir, err)
	}
	var offsets []int64
	for _, e := range entries {
		if offset, kind, ok := parseFile(e.Name()); ok && kind == kindSnapshot {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets, nil
}

// parseFile reads the name of a file of a log: 20 digits and what the file is.
func parseFile(base string) (offset int64, kind fileKind, ok bool) {
	const digits = 20
	if len(base) < digits {
		return 0, 0, false
	}
	k := slices.Index(kindSuffix[:], base[digits:])
	offset, err := strconv.ParseInt(base[:digits], 10, 64)
	if k < 0 || err != nil || offset < 0 || strings.ContainsAny(base[:digits], "+-") {
		return 0, 0, false
	}
	return offset, fileKind(k), true
}

// syncFile brings a file to the disk. A missing one is an error.
func syncFile(f env.FS, path string) error {
	file, err := f.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		return storage("open", path, err)
	}
	defer file.Close()
	return storage("sync", path, file.Sync())
}

// fileSize is the size of a file; ok is false when there is none.
func fileSize(f env.FS, path string) (size int64, ok bool, err error) {
	info, err := f.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, storage("stat", filepath.Clean(path), err)
	}
	return info.Size(), true, nil
}
