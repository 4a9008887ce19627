package log

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
)

// checkpointKind is one of the three files that hold an offset for each log.
type checkpointKind int

const (
	highWatermarks checkpointKind = iota
	recoveryPoints
	logStarts
	checkpointKinds
)

var checkpointFile = [checkpointKinds]string{highWatermarkFile, recoveryPointFile, logStartFile}

// withoutCheckpoint says what happens when the file is not there.
var withoutCheckpoint = [checkpointKinds]string{
	"high watermarks are learnt from the other replicas again",
	"every log is read and tested whole",
	"every log begins at its first segment or leader epoch again",
}

var linesSeed = maphash.MakeSeed()

func (m *Manager) readCheckpoints() (all [checkpointKinds]map[Name]int64, err error) {
	for k := range checkpointKinds {
		all[k], err = readOffsets(m.env.FS, m.path(checkpointFile[k]))
		if errors.Is(err, ErrMalformed) {
			return all, fmt.Errorf("%w; if the disk is sound, remove the file and start again: %s", err, withoutCheckpoint[k])
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// WriteHighWatermarks writes the high watermark checkpoint, unless it would hold what it holds.
func (m *Manager) WriteHighWatermarks() error { return m.write(highWatermarks, false) }

// WriteRecoveryPoints writes the recovery point checkpoint, unless it would hold what it holds.
func (m *Manager) WriteRecoveryPoints() error { return m.write(recoveryPoints, false) }

// WriteLogStarts writes the log start checkpoint, unless it would hold what it holds.
func (m *Manager) WriteLogStarts() error { return m.write(logStarts, false) }

// WriteCheckpoints writes all three.
func (m *Manager) WriteCheckpoints() error {
	return errors.Join(m.WriteHighWatermarks(), m.WriteRecoveryPoints(), m.WriteLogStarts())
}

// write replaces one file. A log that is not open yet keeps the line it had.
func (m *Manager) write(k checkpointKind, always bool) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	if !m.started {
		m.mu.Unlock()
		return ErrNotStarted
	}
	lines := maps.Clone(m.inherited[k])
	if lines == nil {
		lines = make(map[Name]int64)
	}
	stale := m.stale[k]
	m.stale[k] = make(map[Name]bool)
	m.mu.Unlock()
	for _, l := range m.Logs() {
		delete(lines, l.name)
		if offset, ok := l.line(k); ok {
			lines[l.name] = offset
		}
	}
	sum := hashLines(lines)
	if !always && sum == m.written[k] && len(stale) == 0 {
		return nil
	}
	m.env.At("log.checkpoint.before-write")
	if err := writeOffsets(m.env.FS, m.path(checkpointFile[k]), lines); err != nil {
		m.mu.Lock()
		maps.Copy(m.stale[k], stale)
		m.mu.Unlock()
		return err
	}
	m.written[k] = sum
	m.env.At("log.checkpoint.written")
	return nil
}

// lowerRecovery is the host's: the recovery point in the file is above a log's.
func (m *Manager) lowerRecovery(name Name, to int64) error {
	m.mu.Lock()
	if _, ok := m.inherited[recoveryPoints][name]; ok {
		m.inherited[recoveryPoints][name] = to // the log may not be open yet
	}
	m.mu.Unlock()
	return m.write(recoveryPoints, true)
}

// line is a log's offset in a file; ok is false if it needs none.
func (l *Log) line(k checkpointKind) (offset int64, ok bool) {
	start, high, _ := l.Offsets()
	switch k {
	case highWatermarks:
		return high, true
	case recoveryPoints:
		return l.RecoveryPoint(), true
	default:
		return start, start > (*l.segments.Load())[0].base
	}
}

func hashLines(lines map[Name]int64) uint64 {
	var sum uint64
	for n, offset := range lines { // a sum does not depend on the order
		sum += maphash.Comparable(linesSeed, struct {
			n      Name
			offset int64
		}{n, offset})
	}
	return sum + 1 // 0: nothing was written
}

// forgetLines sees to it that no file holds a line of a log that has gone, before a new one of that name is made.
func (m *Manager) forgetLines(name Name) error {
	for k := range checkpointKinds {
		m.mu.Lock()
		_, inherited := m.inherited[k][name]
		delete(m.inherited[k], name)
		must := inherited || m.stale[k][name]
		m.mu.Unlock()
		if !must {
			continue
		}
		if err := m.write(k, true); err != nil {
			m.mu.Lock()
			m.stale[k][name] = true
			m.mu.Unlock()
			return err
		}
	}
	return nil
}

// markGone says that the log of a name has gone and that its lines are to go.
func (m *Manager) markGone(name Name) {
	for k := range checkpointKinds {
		delete(m.inherited[k], name)
		m.stale[k][name] = true
	}
}

// dropMissing forgets the inherited lines of logs that are not on disk.
func (m *Manager) dropMissing(present []Name) {
	there := make(map[Name]bool, len(present))
	for _, n := range present {
		there[n] = true
	}
	for k := range checkpointKinds {
		for _, n := range slices.Collect(maps.Keys(m.inherited[k])) {
			if !there[n] {
				delete(m.inherited[k], n)
				m.stale[k][n] = true
			}
		}
	}
}
