package log

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm/image"
)

// checkpointed is what the checkpoints of the directory say of a log; -1 where they say nothing.
type checkpointed struct {
	recovery, start, high int64
}

var notCheckpointed = checkpointed{-1, -1, -1}

// Recovered tells what the loading of a log found.
type Recovered struct {
	// Clean tells that the log was loaded as after a clean stop.
	Clean bool
	// ScannedBytes is how much was read again and tested.
	ScannedBytes int64
	// CutBytes is how much was cut off because it was no valid batch, or came after one that was not.
	CutBytes int64
	// SegmentsRemoved is how many segments came after the cut.
	SegmentsRemoved int
	// LogEndOffset is where the log ends now.
	LogEndOffset int64
	// Lost is how many offsets below the checkpointed high watermark the log does not hold any more: records that
	// were acknowledged and have to be fetched again.
	Lost int64
}

// load makes the log of what is in its directory.
func (l *Log) load(clean bool, c checkpointed) (Recovered, error) {
	r := Recovered{Clean: clean}
	ld := loader{l: l, clean: clean, checkpoint: c, result: &r}
	for _, step := range []func() error{ld.clearLeftovers, ld.loadSegments, ld.placeEpochs, ld.placeOffsets} {
		if err := step(); err != nil {
			for _, s := range slices.Concat(ld.segments, *l.segments.Load()) {
				s.close(l.handles)
			}
			return r, err
		}
	}
	r.LogEndOffset = l.LogEndOffset()
	r.Lost = max(0, c.high-r.LogEndOffset)
	return r, nil
}

// loader is one loading of one log.
type loader struct {
	l          *Log
	clean      bool
	checkpoint checkpointed
	result     *Recovered

	bases     []int64 // of the .log files
	files     map[string]bool
	snapshots []int64
	segments  []*segment
	end       int64
	// scannedFrom is the base of the first segment that was scanned batch by batch, -1 if none was.
	scannedFrom int64
	// scanned is the leader epochs of the scanned batches.
	scanned []EpochEntry
}

// Endings of files that a stopped process leaves behind.
const (
	swapSuffix    = ".swap"
	cleanedSuffix = ".cleaned"
	tmpSuffix     = ".tmp"
)

// clearLeftovers removes what was on its way out, completes what was on its way in, and lists the rest.
func (ld *loader) clearLeftovers() error {
	fs, dir := ld.l.env.FS, ld.l.dir
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return storage("list", dir, err)
	}
	ld.files = make(map[string]bool, len(entries))
	for _, e := range entries {
		base := e.Name()
		path := filepath.Join(dir, base)
		switch {
		case strings.HasSuffix(base, deletedSuffix), strings.HasSuffix(base, cleanedSuffix), strings.HasSuffix(base, tmpSuffix):
			if err := removeIfThere(fs, path); err != nil {
				return err
			}
			continue
		case strings.HasSuffix(base, swapSuffix): // Kafka's cleaner was stopped; ours writes none
			base = strings.TrimSuffix(base, swapSuffix)
			if err := fs.Rename(path, filepath.Join(dir, base)); err != nil {
				return storage("rename", path, err)
			}
		}
		ld.files[base] = true
	}
	return ld.sortFiles()
}

func (ld *loader) sortFiles() error {
	var indexes []string
	for base := range ld.files {
		offset, kind, ok := parseFile(base)
		switch {
		case !ok:
		case kind == kindLog:
			ld.bases = append(ld.bases, offset)
		case kind == kindSnapshot:
			ld.snapshots = append(ld.snapshots, offset)
		default:
			indexes = append(indexes, base)
		}
	}
	slices.Sort(ld.bases)
	slices.Sort(ld.snapshots)
	slices.Sort(indexes)
	for _, base := range indexes {
		offset, _, _ := parseFile(base)
		if _, found := slices.BinarySearch(ld.bases, offset); !found {
			if err := removeIfThere(ld.l.env.FS, filepath.Join(ld.l.dir, base)); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeEpochs makes the epoch cache: what the file says of the batches that were trusted, what the scanned batches say
// themselves, and nothing outside the log. The first entry begins at the log start when that has moved; as the file is
// synced and the checkpoint is a minute old, it is the better witness of the two.
func (ld *loader) placeEpochs() error {
	l := ld.l
	entries, err := readEpochs(l.env.FS, l.dir)
	stored := slices.Clone(entries)
	if len(stored) > 0 && stored[0].StartOffset <= ld.end {
		ld.checkpoint.start = max(ld.checkpoint.start, stored[0].StartOffset)
	}
	if err != nil && !errors.Is(err, ErrMalformed) {
		return err
	}
	if err != nil {
		stored = []EpochEntry{{Epoch: -1}} // to be written anew
	}
	if ld.scannedFrom >= 0 {
		entries = slices.DeleteFunc(entries, func(e EpochEntry) bool { return e.StartOffset >= ld.scannedFrom })
		for _, e := range ld.scanned {
			if n := len(entries); n == 0 || entries[n-1].Epoch < e.Epoch {
				entries = append(entries, e)
			}
		}
	}
	if ld.end > ld.start() && (len(entries) == 0 || entries[0].StartOffset > ld.start()) {
		if err := ld.scanEpochs(); err != nil { // the file is lost, or tells of a log start that is
			return err
		}
		entries = ld.scanned
	}
	entries = slices.DeleteFunc(entries, func(e EpochEntry) bool { return e.StartOffset >= ld.end })
	entries = cutFromStart(entries, ld.start())
	if !slices.Equal(entries, stored) {
		return l.epochs.replace(entries)
	}
	l.epochs.entries = entries
	return nil
}

// scanEpochs reads the leader epochs of all batches, because the file that holds them does not read.
func (ld *loader) scanEpochs() error {
	ld.scanned = nil
	for _, s := range ld.segments {
		if err := s.scan(ld.l.handles, 0, func(b Batch, _ int64) (bool, error) {
			ld.noteEpoch(b)
			return true, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (ld *loader) noteEpoch(b Batch) {
	e := EpochEntry{image.LeaderEpoch(b.LeaderEpoch()), b.BaseOffset()}
	if n := len(ld.scanned); n == 0 || ld.scanned[n-1].Epoch < e.Epoch {
		ld.scanned = append(ld.scanned, e)
	}
}

// start is the log start: the checkpoint's, but not before the first segment.
func (ld *loader) start() int64 { return max(ld.checkpoint.start, ld.segments[0].base) }

// placeOffsets sets the offsets and makes the state of the producers.
func (ld *loader) placeOffsets() error {
	l := ld.l
	l.setSegments(ld.segments)
	l.identified = l.Size() > 0
	start := ld.start()
	if ld.end < start {
		l.offsets.recovery = max(start, ld.checkpoint.recovery)
		return l.restartAt(start)
	}
	l.offsets.start = start
	l.offsets.high = max(start, min(ld.checkpoint.high, ld.end))
	l.offsets.end = ld.end
	l.offsets.recovery = ld.end
	if !ld.clean {
		l.offsets.recovery = max(ld.checkpoint.recovery, ld.segments[0].base)
	}
	if err := l.setEnd(ld.end); err != nil {
		return err
	}
	trusted := ld.end
	if ld.scannedFrom >= 0 && !ld.clean {
		trusted = ld.scannedFrom
	}
	if err := ld.dropSnapshots(trusted); err != nil {
		return err
	}
	return l.reloadProducers(ld.end)
}

// dropSnapshots removes the snapshots that nobody needs: above what is trusted, and those that are neither at the base
// of a segment nor the newest.
func (ld *loader) dropSnapshots(trusted int64) error {
	for i, offset := range ld.snapshots {
		atSegment := slices.ContainsFunc(ld.segments, func(s *segment) bool { return s.base == offset })
		newest := i+1 == len(ld.snapshots) || ld.snapshots[i+1] > trusted
		if offset <= trusted && (atSegment || newest) {
			continue
		}
		if err := removeIfThere(ld.l.env.FS, segmentPath(ld.l.dir, offset, kindSnapshot)); err != nil {
			return err
		}
	}
	return nil
}
