package log

import (
	"io/fs"
	"slices"

	"github.com/quorate/quorate/fsm/image"
)

func sortLogs(logs []*Log) {
	slices.SortFunc(logs, func(a, b *Log) int { return a.name.Compare(b.name) })
}

// Start tells how the former life ended and begins a new one: from here on, a stop without [Manager.Shutdown] is an
// unclean one. It opens no log. A checkpoint that does not read is a failure of the disk.
func (m *Manager) Start() (Stop, error) {
	f, dir := m.env.FS, m.config.Dir
	epoch, marker, err := readCleanShutdown(f, dir)
	if err != nil {
		return Stop{}, err
	}
	before, ran, err := readLife(f, dir)
	if err != nil {
		return Stop{}, err
	}
	if !ran {
		if ran, err = m.anyData(); err != nil {
			return Stop{}, err
		}
	}
	boot := bootID(f)
	stop := judgeStop(marker, epoch, before, ran, boot)
	inherited, err := m.readCheckpoints()
	if err != nil {
		return Stop{}, err
	}
	unreported := &unreportedStop{stop.Kind, int64(stop.PreviousBrokerEpoch)}
	if err := writeLife(f, dir, life{BootID: boot, BrokerEpoch: before.BrokerEpoch, Unreported: unreported}); err != nil {
		return Stop{}, err
	}
	m.env.At("log.start.life-written")
	if err := removeIfThere(f, m.path(cleanShutdownFile)); err != nil {
		return Stop{}, err
	}
	if err := f.SyncDir(dir); err != nil {
		return Stop{}, storage("sync", dir, err)
	}
	m.env.At("log.start.marker-removed")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started, m.clean, m.stop, m.boot, m.inherited = true, marker, stop, boot, inherited
	return stop, nil
}

// anyData tells whether the directory holds anything of a log.
func (m *Manager) anyData() (bool, error) {
	entries, err := m.env.FS.ReadDir(m.config.Dir)
	if err != nil {
		return false, storage("list", m.config.Dir, err)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, _, _, partition := parseDir(e.Name())
		return partition || slices.Contains(checkpointFile[:], e.Name())
	}), nil
}

// StopReported says that a controller has registered the broker, under the epoch, with the [Stop] that Start returned. Until
// then the stop is told again by the next Start, if it is worse than what came after it. The epoch is kept: a copy of the
// directory that was made in an earlier life tells that one's.
func (m *Manager) StopReported(epoch image.BrokerEpoch) error {
	m.mu.Lock()
	boot := m.boot
	m.stop.PreviousBrokerEpoch = image.NoBrokerEpoch
	m.mu.Unlock()
	registered := int64(epoch)
	return writeLife(m.env.FS, m.config.Dir, life{BootID: boot, BrokerEpoch: &registered})
}

// Shutdown closes all logs, synced, writes the checkpoints, and then the marker of a clean stop with the broker's epoch,
// [image.NoBrokerEpoch] if it never registered. The marker is left out if a log failed, if one could not be loaded, or if
// loading did not end. Nobody may use the logs any more; Run must have returned. The first error is returned after everything was tried.
func (m *Manager) Shutdown(epoch image.BrokerEpoch) error {
	m.mu.Lock()
	if !m.started || m.closed {
		m.mu.Unlock()
		return ErrNotStarted
	}
	m.closed = true
	whole := (m.loaded || m.clean) && !m.loadFailed
	if epoch == image.NoBrokerEpoch {
		epoch = m.stop.PreviousBrokerEpoch
	}
	m.mu.Unlock()
	logs := m.Logs()
	errs := make([]error, len(logs), len(logs)+1)
	m.each(len(logs), func(i int) { errs[i] = logs[i].close(true) })
	m.env.At("log.shutdown.flushed")
	errs = append(errs, m.WriteCheckpoints())
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	m.env.At("log.shutdown.checkpoints-written")
	if err := writeCleanShutdown(m.env.FS, m.config.Dir, epoch); err != nil {
		return err
	}
	m.env.At("log.shutdown.marked")
	return nil
}
