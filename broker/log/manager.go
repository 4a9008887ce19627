package log

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// Replica names a partition and the topic that it is to belong to.
type Replica struct {
	Name    Name
	TopicID image.TopicID
}

// String names both.
func (r Replica) String() string { return r.Name.String() + " of topic " + r.TopicID.String() }

// Manager has all partition logs of one log directory. All methods may be called from any goroutine, after Start.
type Manager struct {
	env     *env.Env
	logger  *slog.Logger
	config  Config
	handles *handles
	// wake tells Run that there is work; it holds one token.
	wake chan struct{}
	// writing is held while checkpoints are written, from the look at the logs to the rename, so that no write brings
	// back a line of a log that has gone. It comes before mu.
	writing sync.Mutex

	mu sync.Mutex // guards what follows; a log's locks are never taken under it
	// started, loaded: Start has returned, FinishLoading was called.
	started, loaded bool
	// loadFailed tells that a log is on disk that was not recovered: a marker of a clean stop would have it trusted.
	loadFailed bool
	closed     bool
	// clean tells that logs on disk were left by a clean stop.
	clean bool
	// held: nothing is removed, whoever asks for it.
	held bool
	stop Stop
	boot string
	logs map[Name]*opening
	// renamed is the directories that were renamed and are to be removed, by base name.
	renamed map[string]*renamedDir
	// inherited is what the checkpoints held at the start, for logs that were not opened yet.
	inherited [checkpointKinds]map[Name]int64
	// stale is the names of logs that have gone, whose lines may still be in a file.
	stale [checkpointKinds]map[Name]bool
	// written is the hash of what a file holds.
	written [checkpointKinds]uint64
	flushes map[*Log]bool
	files   []laterRemoval
}

// opening is a log, or one that is being opened.
type opening struct {
	done chan struct{} // closed when log or err is set
	log  *Log
	err  error
}

// NewManager returns a manager that has done nothing yet.
func NewManager(e *env.Env, logger *slog.Logger, config Config) (*Manager, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Decompress = config.Decompress.atMost(decompressingMax)
	m := &Manager{
		env:     e,
		logger:  logger,
		config:  config,
		handles: newHandles(e.FS, config.OpenFilesMax),
		wake:    make(chan struct{}, 1),
		logs:    make(map[Name]*opening),
		renamed: make(map[string]*renamedDir),
		flushes: make(map[*Log]bool),
	}
	for k := range checkpointKinds {
		m.inherited[k] = make(map[Name]int64)
		m.stale[k] = make(map[Name]bool)
	}
	return m, nil
}

// Get returns the open log of a name.
func (m *Manager) Get(name Name) (*Log, bool) {
	m.mu.Lock()
	o := m.logs[name]
	m.mu.Unlock()
	if o == nil {
		return nil, false
	}
	<-o.done
	return o.log, o.err == nil
}

// Logs returns the open logs, in the order of their names.
func (m *Manager) Logs() []*Log {
	m.mu.Lock()
	list := make([]*opening, 0, len(m.logs))
	for _, o := range m.logs {
		list = append(list, o)
	}
	m.mu.Unlock()
	logs := make([]*Log, 0, len(list))
	for _, o := range list {
		select {
		case <-o.done:
			if o.err == nil {
				logs = append(logs, o.log)
			}
		default:
		}
	}
	sortLogs(logs)
	return logs
}

// Open returns the log of a replica, and makes it if there is none on disk. A directory of that name that holds
// another topic's data is refused with INCONSISTENT_TOPIC_ID and left as it is.
func (m *Manager) Open(r Replica, config LogConfig) (*Log, error) {
	l, _, err := m.open(r, config)
	return l, err
}

func (m *Manager) open(r Replica, config LogConfig) (*Log, Recovered, error) {
	if err := config.Validate(); err != nil {
		return nil, Recovered{}, err
	}
	m.mu.Lock()
	if !m.started || m.closed {
		m.mu.Unlock()
		return nil, Recovered{}, ErrNotStarted
	}
	if o := m.logs[r.Name]; o != nil {
		m.mu.Unlock()
		<-o.done
		if o.err == nil && o.log.topicID != r.TopicID {
			return nil, Recovered{}, inconsistent(r, o.log.topicID)
		}
		return o.log, Recovered{}, o.err
	}
	o := &opening{done: make(chan struct{})}
	m.logs[r.Name] = o
	m.mu.Unlock()
	var recovered Recovered
	o.log, recovered, o.err = m.openDir(r, config)
	if o.err != nil {
		m.mu.Lock()
		delete(m.logs, r.Name)
		var refusal *Error
		m.loadFailed = m.loadFailed || !errors.As(o.err, &refusal)
		m.mu.Unlock()
	}
	close(o.done)
	return o.log, recovered, o.err
}

func inconsistent(r Replica, onDisk image.TopicID) error {
	return refuse(ErrInconsistentTopicID, "%s is asked for, the directory holds topic %s; it is left as it is", r, onDisk)
}

// openDir opens or makes the directory of a replica, whose name nobody else opens at the time.
func (m *Manager) openDir(r Replica, config LogConfig) (*Log, Recovered, error) {
	dir := m.path(r.Name.String())
	existed, err := env.Exists(m.env.FS, dir)
	if err != nil {
		return nil, Recovered{}, storage("stat", dir, err)
	}
	if existed {
		existed, err = m.identify(r, dir)
	} else {
		err = m.makeDir(r, dir)
	}
	if err != nil {
		return nil, Recovered{}, err
	}
	l := &Log{env: m.env, handles: m.handles, host: m, decompress: m.config.Decompress, name: r.Name, topicID: r.TopicID, dir: dir}
	l.config.Store(&config)
	l.offsets.grown = m.env.Now()
	l.setSegments(nil)
	l.epochs.env, l.epochs.dir = m.env, dir
	l.producers = newProducers(0)
	clean, checkpoint := true, notCheckpointed
	if existed {
		clean, checkpoint = m.inherit(r.Name)
	}
	recovered, err := l.load(clean, checkpoint)
	if err != nil {
		return nil, recovered, err
	}
	return l, recovered, nil
}

// identify tests that a directory holds the topic's data. One without records and without an id, left by a stop in the
// middle of its making, becomes the topic's: existed is false then.
func (m *Manager) identify(r Replica, dir string) (existed bool, err error) {
	id, ok, err := readPartitionMetadata(m.env.FS, dir)
	if err != nil {
		return false, err
	}
	if ok && id != r.TopicID {
		return false, inconsistent(r, id)
	}
	if ok {
		return true, nil
	}
	held, err := holdsRecords(m.env.FS, dir)
	if err != nil {
		return false, err
	}
	if held {
		return false, refuse(ErrInconsistentTopicID, "%s is asked for, %s holds records of an unknown topic; it is left as it is", r, dir)
	}
	if err := m.forgetLines(r.Name); err != nil {
		return false, err
	}
	return false, writePartitionMetadata(m.env.FS, dir, r.TopicID)
}

// makeDir makes the directory of a new log, after the lines of an old one of its name are gone from the checkpoints.
func (m *Manager) makeDir(r Replica, dir string) error {
	if err := m.forgetLines(r.Name); err != nil {
		return err
	}
	m.env.At("log.create.begin")
	if err := m.env.FS.MkdirAll(dir, 0o755); err != nil {
		return storage("make", dir, err)
	}
	m.env.At("log.create.directory-made")
	if err := writePartitionMetadata(m.env.FS, dir, r.TopicID); err != nil {
		return err
	}
	m.env.At("log.create.identified")
	return nil
}

// inherit takes what the checkpoints say of a log that is opened for the first time since the start.
func (m *Manager) inherit(name Name) (clean bool, c checkpointed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	take := func(k checkpointKind) int64 {
		offset, ok := m.inherited[k][name]
		if !ok {
			return -1
		}
		return offset
	}
	// The lines stay until the log is in the map with its own offsets; see lines.
	return m.clean, checkpointed{recovery: take(recoveryPoints), start: take(logStarts), high: take(highWatermarks)}
}

func (m *Manager) path(base string) string { return filepath.Join(m.config.Dir, base) }

// LoadReport tells of the loading of one log.
type LoadReport struct {
	Replica   Replica
	Recovered Recovered
	Took      time.Duration
	Err       error
}

// Load opens logs that are on disk, LoadsMax at a time, and reports in the order asked. It ends early when ctx does: what
// is left is reported with its error. A log that fails to load is not open; the others are.
func (m *Manager) Load(ctx context.Context, replicas []Replica, config func(Replica) LogConfig) []LoadReport {
	reports := make([]LoadReport, len(replicas))
	m.each(len(replicas), func(i int) {
		reports[i].Replica = replicas[i]
		if err := ctx.Err(); err != nil {
			reports[i].Err = fmt.Errorf("log: loading stopped: %w", err)
			return
		}
		began := m.env.Now()
		_, recovered, err := m.open(replicas[i], config(replicas[i]))
		reports[i].Recovered, reports[i].Err, reports[i].Took = recovered, err, m.env.Now().Sub(began)
		if recovered.CutBytes > 0 {
			m.logger.Warn("log cut in recovery", "log", replicas[i].Name.String(), "cutBytes", recovered.CutBytes,
				"segmentsRemoved", recovered.SegmentsRemoved, "logEndOffset", recovered.LogEndOffset, "lostBelowHighWatermark", recovered.Lost)
		}
	})
	return reports
}

// each calls f for 0 to n-1, LoadsMax at a time, and returns when all have returned.
func (m *Manager) each(n int, f func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, m.config.LoadsMax) {
		workers.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// FinishLoading says that every log that was to be loaded is. Until then, only a manager that found a clean stop leaves a
// marker of one.
func (m *Manager) FinishLoading() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = true
}
