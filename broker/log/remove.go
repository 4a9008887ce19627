package log

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Removal tells of a renamed directory: that it is gone, or why it could not be removed.
type Removal struct {
	Replica Replica
	State   DirState
	// Base is the directory's own name.
	Base string
	Err  error
}

// laterRemoval is files whose segment is gone.
type laterRemoval struct {
	paths []string
	due   time.Time
}

// HoldRemovals stops, or lets go on, every removal of data: of renamed directories, of files of removed segments, and of
// segments by retention. Renaming goes on: it removes nothing.
func (m *Manager) HoldRemovals(hold bool) {
	m.mu.Lock()
	changed := m.held != hold
	m.held = hold
	m.mu.Unlock()
	if changed {
		m.logger.Info("removals of data", "held", hold)
		m.poke()
	}
}

func (m *Manager) isHeld() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// RemoveRenamed removes the directories that wait for it: the deleted ones, and strays that are old enough. It reports
// each; one that could not be removed is tried again removalRetryInterval later, however often this is called. It ends
// early when ctx does.
func (m *Manager) RemoveRenamed(ctx context.Context) []Removal {
	if m.isHeld() {
		return nil
	}
	now := m.env.Now()
	m.mu.Lock()
	var due []Removal
	for base, d := range m.renamed {
		if d.state == DirStray && (m.config.StrayDelay < 0 || now.Sub(d.since) < m.config.StrayDelay) {
			continue
		}
		if now.Before(d.retryAt) {
			continue
		}
		due = append(due, Removal{Replica: d.replica, State: d.state, Base: base})
	}
	m.mu.Unlock()
	slices.SortFunc(due, func(a, b Removal) int { return strings.Compare(a.Base, b.Base) })
	for i := range due {
		if ctx.Err() != nil {
			return due[:i]
		}
		due[i].Err = m.removeDir(m.path(due[i].Base))
		if due[i].Err != nil {
			m.logger.Error("directory not removed", "directory", due[i].Base, "topicId", due[i].Replica.TopicID.String(), "err", due[i].Err)
		}
		m.mu.Lock()
		if d := m.renamed[due[i].Base]; d != nil && due[i].Err != nil {
			d.retryAt = now.Add(removalRetryInterval)
		} else {
			delete(m.renamed, due[i].Base)
		}
		m.mu.Unlock()
	}
	return due
}

// removeDir removes a directory, the file that says whose it is last, so that a failure in the middle can still be
// reported by topic id after the next start.
func (m *Manager) removeDir(dir string) error {
	entries, err := m.env.FS.ReadDir(dir)
	if isGone(err) && err != nil {
		return nil
	}
	if err != nil {
		return storage("list", dir, err)
	}
	for _, e := range entries {
		if e.Name() == partitionMetadataFile {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := m.env.FS.RemoveAll(path); err != nil {
			return storage("remove", path, err)
		}
	}
	m.env.At("log.delete.files-removed")
	if err := m.env.FS.RemoveAll(dir); err != nil {
		return storage("remove", dir, err)
	}
	m.env.At("log.delete.removed")
	return nil
}

// removeDueFiles removes the files of segments whose time has come, and returns when the next one's comes; ok is false
// if none waits. What cannot be removed is tried again a delay later; what is gone, is gone.
func (m *Manager) removeDueFiles() (next time.Time, ok bool) {
	if m.isHeld() {
		return time.Time{}, false
	}
	now := m.env.Now()
	m.mu.Lock()
	list := m.files
	m.files = nil
	m.mu.Unlock()
	var keep []laterRemoval
	for _, f := range list {
		if f.due.After(now) {
			keep = append(keep, f)
			continue
		}
		var left []string
		for _, path := range f.paths {
			if err := removeIfThere(m.env.FS, path); err != nil {
				m.logger.Error("file of a removed segment not removed", "file", path, "err", err)
				left = append(left, path)
			}
		}
		if len(left) > 0 {
			keep = append(keep, laterRemoval{left, now.Add(removalRetryInterval)})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = append(m.files, keep...)
	for _, f := range m.files {
		if !ok || f.due.Before(next) {
			next, ok = f.due, true
		}
	}
	return next, ok
}
