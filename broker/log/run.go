package log

import (
	"context"
	"time"
)

// removalRetryInterval is the time after which a removal that failed is tried again.
const removalRetryInterval = 30 * time.Second

// poke tells Run that there is work.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default: // a token is there already
	}
}

// flushSoon is the host's: a log has rolled.
func (m *Manager) flushSoon(l *Log) {
	m.mu.Lock()
	m.flushes[l] = true
	m.mu.Unlock()
	m.poke()
}

// removeLater is the host's: segments have gone.
func (m *Manager) removeLater(paths []string, due time.Time) {
	m.mu.Lock()
	m.files = append(m.files, laterRemoval{paths, due})
	m.mu.Unlock()
	m.poke()
}

// failed is the host's: a log went offline.
func (m *Manager) failed(name Name, err error) {
	m.logger.Error("log offline", "log", name.String(), "err", err)
	if m.config.OnFailure != nil {
		m.config.OnFailure(name, err)
	}
}

// FlushRolled brings the segments that are no longer appended to to the disk. Run does it by itself. It returns the
// first failure; a log that failed is offline.
func (m *Manager) FlushRolled() error {
	m.mu.Lock()
	flushes := m.flushes
	m.flushes = make(map[*Log]bool)
	m.mu.Unlock()
	logs := make([]*Log, 0, len(flushes))
	for l := range flushes {
		logs = append(logs, l)
	}
	sortLogs(logs)
	var first error
	for _, l := range logs {
		if err := l.flush(false); err != nil && first == nil && l.Failure() != nil {
			first = err
		}
	}
	return first
}

// ApplyRetention applies the retention rules to every log, unless removals are held, and returns the number of segments removed. A log that
// fails is offline.
func (m *Manager) ApplyRetention() int {
	if m.isHeld() {
		return 0
	}
	n := 0
	for _, l := range m.Logs() {
		removed, err := l.ApplyRetention()
		n += removed
		if err == nil && removed > 0 {
			m.logger.Info("segments removed by retention", "log", l.name.String(), "segments", removed, "logStartOffset", l.LogStartOffset())
		}
	}
	return n
}

// Run does in the background what nobody waits for: it flushes segments that were rolled, writes the checkpoints,
// applies retention, forgets idle producers, removes renamed directories and the files of removed segments. It starts
// no goroutine and returns nil when ctx ends; a failure of a checkpoint ends it with that error, as the directory
// cannot be trusted any more.
func (m *Manager) Run(ctx context.Context) error {
	highWatermark := time.NewTicker(m.config.HighWatermarkInterval)
	defer highWatermark.Stop()
	recovery := time.NewTicker(m.config.RecoveryPointInterval)
	defer recovery.Stop()
	retention := time.NewTicker(m.config.RetentionInterval)
	defer retention.Stop()
	sweep := time.NewTicker(m.config.ProducerSweepInterval)
	defer sweep.Stop()
	removal := time.NewTimer(0)
	defer removal.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
			_ = m.FlushRolled() // the log that failed told its manager
			removal.Reset(m.removeDue(ctx))
		case <-removal.C:
			removal.Reset(m.removeDue(ctx))
		case <-highWatermark.C:
			if err := m.WriteHighWatermarks(); err != nil {
				return err
			}
		case <-recovery.C:
			if err := m.WriteRecoveryPoints(); err != nil {
				return err
			}
			if err := m.WriteLogStarts(); err != nil {
				return err
			}
		case <-retention.C:
			m.ApplyRetention()
		case <-sweep.C:
			for _, l := range m.Logs() {
				l.ExpireProducers()
			}
		}
	}
}

// removeDue removes what is due and returns the time to the next look.
func (m *Manager) removeDue(ctx context.Context) time.Duration {
	for _, r := range m.RemoveRenamed(ctx) {
		if m.config.OnRemoved != nil {
			m.config.OnRemoved(r)
		}
	}
	if next, ok := m.removeDueFiles(); ok {
		return min(removalRetryInterval, max(0, next.Sub(m.env.Now())))
	}
	return removalRetryInterval
}
