package log

import (
	"errors"
	"io/fs"
)

// Flush brings the whole log to the disk and raises the recovery point to its end. Appends go on meanwhile.
func (l *Log) Flush() error { return l.flush(true) }

// flush syncs the segments from the recovery point on, up to the log end or, without the active segment, up to that.
// It holds no lock while the disk works.
func (l *Log) flush(withActive bool) error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	cuts, upTo := l.cuts, l.LogEndOffset()
	if !withActive {
		upTo = l.active().base
	}
	work := l.unsynced(upTo)
	l.mu.Unlock()
	if upTo <= l.RecoveryPoint() {
		return nil
	}
	if err := l.syncAll(work); err != nil {
		return l.flushFailed(cuts, err)
	}
	l.env.At("log.flush.synced")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cuts == cuts {
		l.raiseRecovery(upTo)
	}
	return nil
}

// unsynced is the segments that hold something between the recovery point and an offset.
func (l *Log) unsynced(upTo int64) []*segment {
	recovery := l.RecoveryPoint()
	list := *l.segments.Load()
	var work []*segment
	for i, s := range list {
		beforeRecovery := i+1 < len(list) && list[i+1].base <= recovery
		if s.onDisk && !beforeRecovery && s.base < upTo {
			work = append(work, s)
		}
	}
	return work
}

func (l *Log) syncAll(work []*segment) error {
	active := l.active()
	for _, s := range work {
		if err := s.sync(l.handles, s != active); err != nil {
			return err
		}
	}
	return storage("sync", l.dir, l.env.FS.SyncDir(l.dir))
}

func (l *Log) raiseRecovery(to int64) {
	l.offsets.Lock()
	defer l.offsets.Unlock()
	l.offsets.recovery = max(l.offsets.recovery, to)
}

// flushFailed judges a failure: if the log was cut, closed or retired meanwhile, files may have been taken away under the
// flush's hands, and there is nothing of them to flush. Any other failure is the disk's, whatever happened meanwhile: after a
// sync that failed the next one succeeds, although the bytes are lost.
func (l *Log) flushFailed(cuts int, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) && (l.cuts != cuts || l.closed.Load()) {
		return nil
	}
	return l.check(err)
}

// close ends the use of the log. With keep, everything is brought to the disk first, with a snapshot of the producers:
// the log opens as after a clean stop then. Whatever the outcome, its files are closed.
func (l *Log) close(keep bool) error {
	if keep {
		if err := l.Flush(); err != nil { // most of it, while others may still use the log
			keep = false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.usable()
	if err == nil && keep {
		err = l.check(l.settle())
	}
	l.reads.Lock()
	defer l.reads.Unlock()
	l.closed.Store(true)
	for _, s := range *l.segments.Load() {
		s.close(l.handles)
	}
	return err
}

// settle writes and syncs what an open log keeps in memory, and what came after the last flush.
func (l *Log) settle() error {
	if err := l.active().finish(l.handles); err != nil {
		return err
	}
	if list := *l.segments.Load(); l.producers.end > list[0].base { // else there is nothing to be read again
		if err := l.producers.save(l.env.FS, l.dir); err != nil {
			return err
		}
	}
	end := l.LogEndOffset()
	if err := l.syncAll(l.unsynced(end)); err != nil {
		return err
	}
	l.raiseRecovery(end)
	if s := l.active(); s.onDisk {
		return s.sync(l.handles, true)
	}
	return nil
}
