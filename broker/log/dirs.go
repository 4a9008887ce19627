package log

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// OnDisk is a directory of a partition.
type OnDisk struct {
	Name  Name
	State DirState
	// TopicID is zero when the directory does not say which topic it belongs to.
	TopicID image.TopicID
	// Base is the directory's own name.
	Base string
	// Empty tells that it holds no record: without a topic id, it was left by a stop in the middle of its making.
	Empty bool
}

// Scan lists the partitions of the directory, in the order of their names, and takes up again what was renamed before
// and waits for its removal. Every other directory is left alone. Whoever judges the list must know that metadata
// which is empty or older than what was seen before says nothing about a stray.
func (m *Manager) Scan() ([]OnDisk, error) {
	entries, err := m.env.FS.ReadDir(m.config.Dir)
	if err != nil {
		return nil, storage("list", m.config.Dir, err)
	}
	now := m.env.Now()
	var list []OnDisk
	var live []Name
	for _, e := range entries {
		name, state, since, ok := parseDir(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		d := OnDisk{Name: name, State: state, Base: e.Name()}
		if d.TopicID, _, err = readPartitionMetadata(m.env.FS, m.path(d.Base)); err != nil {
			return nil, err
		}
		if d.TopicID.IsZero() {
			held, err := holdsRecords(m.env.FS, m.path(d.Base))
			if err != nil {
				return nil, err
			}
			d.Empty = !held
		}
		list = append(list, d)
		if state == DirLive {
			live = append(live, name)
			continue
		}
		if since.After(now) {
			since = now // not our uuid
		}
		m.mu.Lock()
		if m.renamed[d.Base] == nil {
			m.renamed[d.Base] = &renamedDir{replica: Replica{name, d.TopicID}, state: state, since: since}
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	m.dropMissing(live)
	m.mu.Unlock()
	m.poke()
	slices.SortFunc(list, func(a, b OnDisk) int {
		if c := a.Name.Compare(b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Base, b.Base)
	})
	return list, nil
}

// Inventory is what Scan would say, from memory: open logs and renamed directories.
func (m *Manager) Inventory() []OnDisk {
	var list []OnDisk
	for _, l := range m.Logs() {
		list = append(list, OnDisk{Name: l.name, TopicID: l.topicID, Base: l.name.String(), Empty: l.Size() == 0})
	}
	m.mu.Lock()
	for base, d := range m.renamed {
		list = append(list, OnDisk{Name: d.replica.Name, State: d.state, TopicID: d.replica.TopicID, Base: base})
	}
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b OnDisk) int {
		if c := a.Name.Compare(b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Base, b.Base)
	})
	return list
}

// Failed is a replica that could not be dealt with, and why.
type Failed struct {
	Replica Replica
	Err     error
}

// Delete takes replicas out of use and renames their directories, open or not, so that the names are free at once;
// [Manager.RemoveRenamed] removes them. A replica that is not there is no failure; one whose directory holds another
// topic is INCONSISTENT_TOPIC_ID, and left as it is. Operations that wait on a log get [ErrClosed].
func (m *Manager) Delete(replicas ...Replica) []Failed { return m.rename(replicas, DirDeleting) }

// SetAside does the same for strays, which stay on disk for StrayDelay. A zero topic id stands for a directory without
// one.
func (m *Manager) SetAside(replicas ...Replica) []Failed { return m.rename(replicas, DirStray) }

func (m *Manager) rename(replicas []Replica, to DirState) []Failed {
	var failed []Failed
	var done []Replica
	for _, r := range replicas {
		moved, err := m.renameOne(r, to)
		if err != nil {
			failed = append(failed, Failed{r, err})
		} else if moved {
			done = append(done, r)
		}
	}
	if len(done) == 0 {
		return failed
	}
	if err := m.env.FS.SyncDir(m.config.Dir); err != nil {
		for _, r := range done {
			failed = append(failed, Failed{r, storage("sync", m.config.Dir, err)})
		}
	}
	m.env.At("log." + renameVerb[to] + ".synced")
	m.poke()
	return failed
}

var renameVerb = [...]string{DirLive: "", DirDeleting: "delete", DirStray: "stray"}

func (m *Manager) renameOne(r Replica, to DirState) (moved bool, err error) {
	base := r.Name.String()
	o, err := m.reserve(r)
	if err != nil {
		return false, err
	}
	defer close(o.done)
	there, err := m.sameTopic(r, base)
	if err != nil || !there {
		m.mu.Lock()
		delete(m.logs, r.Name)
		if err == nil {
			m.markGone(r.Name)
		}
		m.mu.Unlock()
		return false, err
	}
	now := m.env.Now()
	target, err := renamed(r.Name, map[DirState]string{DirDeleting: deleteSuffix, DirStray: straySuffix}[to], now)
	if err == nil {
		m.env.At("log." + renameVerb[to] + ".before-rename")
		err = storage("rename", m.path(base), m.env.FS.Rename(m.path(base), m.path(target)))
	}
	if err == nil {
		m.env.At("log." + renameVerb[to] + ".renamed")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, r.Name)
	if err != nil {
		return false, err
	}
	m.markGone(r.Name)
	m.renamed[target] = &renamedDir{replica: r, state: to, since: now}
	return true, nil
}

// reserve closes the log of a replica, if it is open, and holds its name until the caller lets it go.
func (m *Manager) reserve(r Replica) (*opening, error) {
	for {
		m.mu.Lock()
		old := m.logs[r.Name]
		if old == nil {
			o := &opening{done: make(chan struct{}), err: ErrClosed}
			m.logs[r.Name] = o
			m.mu.Unlock()
			return o, nil
		}
		m.mu.Unlock()
		<-old.done
		if old.err != nil {
			continue // its owner takes it out of the map before it is done
		}
		if old.log.topicID != r.TopicID {
			return nil, inconsistent(r, old.log.topicID)
		}
		m.mu.Lock()
		if m.logs[r.Name] != old {
			m.mu.Unlock()
			continue
		}
		o := &opening{done: make(chan struct{}), err: ErrClosed}
		m.logs[r.Name] = o
		delete(m.flushes, old.log)
		m.mu.Unlock()
		// What it could not write does not matter any more.
		_ = old.log.close(false)
		return o, nil
	}
}

// sameTopic tells whether the directory is there, and refuses if it is another topic's.
func (m *Manager) sameTopic(r Replica, base string) (there bool, err error) {
	there, err = env.Exists(m.env.FS, m.path(base))
	if err != nil || !there {
		return false, storage("stat", m.path(base), err)
	}
	id, _, err := readPartitionMetadata(m.env.FS, m.path(base))
	if err != nil {
		return false, err
	}
	if id != r.TopicID {
		return false, inconsistent(r, id)
	}
	return true, nil
}

// holdsRecords tells whether a directory holds a file of batches that is not empty.
func holdsRecords(f env.FS, dir string) (bool, error) {
	entries, err := f.ReadDir(dir)
	if err != nil {
		return false, storage("list", dir, err)
	}
	for _, e := range entries {
		if _, kind, ok := parseFile(e.Name()); !ok || kind != kindLog {
			continue
		}
		size, _, err := fileSize(f, filepath.Join(dir, e.Name()))
		if err != nil || size > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// renamedDir is a directory that was renamed.
type renamedDir struct {
	replica Replica
	state   DirState
	since   time.Time
	// retryAt is when a removal that failed is tried again; zero: at once.
	retryAt time.Time
}

// isGone tells that a failure only says that somebody else was faster.
func isGone(err error) bool { return err == nil || errors.Is(err, fs.ErrNotExist) }
