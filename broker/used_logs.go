package broker

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const (
	// usedLogsFile lists the logs that this directory has ever led or followed with, and so may have held records in: a
	// line with version, directory id and lineage, then one line a log, each with a checksum. Version 0 has no lineage and is of
	// the first.
	usedLogsFile    = "used-logs-checkpoint"
	usedLogsVersion = 1
	// usedLogsSlack is how many lines of logs that are gone the list may have beside as many as there are hosted ones.
	usedLogsSlack = 10_000
)

// usedLogs tells a log that was never used from one that is lost. A replica takes on a role, and with it its first record,
// only when its line is on disk. So a replica that is not in the list has nothing that could be lost: its log, there or not, is
// as whole as on the day the partition was made. The list is evidence only if all of it reads and it is this directory's own, and
// only in the lineage in which it was begun: it leaves out what was no longer assigned then, and an offline recovery may have
// brought back such an assignment. Otherwise a log that is not there counts as lost.
//
// Its methods may be called from any goroutine; begin and add by one at a time.
type usedLogs struct {
	e         *env.Env
	name      string
	directory image.UUID
	log       *slog.Logger

	mu      sync.Mutex
	known   bool
	lineage image.LineageNumber // in which the list was begun
	ids     map[image.PartitionID]bool

	size int64 // of the whole lines on disk; begin's and add's
	torn bool  // more than them may be there
}

func newUsedLogs(e *env.Env, dir string, directory image.UUID, log *slog.Logger) *usedLogs {
	return &usedLogs{e: e, name: filepath.Join(dir, usedLogsFile), directory: directory, log: log, ids: make(map[image.PartitionID]bool)}
}

// load reads what the former lives left. What does not read is no evidence, and no failure.
func (u *usedLogs) load() {
	data, err := env.ReadFile(u.e.FS, u.name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var lineage image.LineageNumber
	var ids map[image.PartitionID]bool
	if err == nil {
		lineage, ids, err = u.parse(data)
	}
	if err != nil {
		u.log.Warn("the list of used logs is not relied on: logs that are not there count as lost", "file", u.name, "error", err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known, u.lineage, u.ids = true, lineage, ids
}

// parse reads a list. A last line without its end was being written when the process stopped: nobody had acted on it.
func (u *usedLogs) parse(data []byte) (lineage image.LineageNumber, ids map[image.PartitionID]bool, err error) {
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	ids = make(map[image.PartitionID]bool)
	head := true
	for line := range strings.Lines(string(data)) {
		text, sum, ok := cutLast(strings.TrimSuffix(line, "\n"))
		if !ok || sum != checksum(text) {
			return 0, nil, fmt.Errorf("broker: line %q has not its checksum", line)
		}
		if head {
			if lineage, err = u.parseHead(text); err != nil {
				return 0, nil, err
			}
			head = false
			continue
		}
		topic, partition, _ := strings.Cut(text, " ")
		id := image.PartitionID{}
		if id.Topic, err = image.ParseUUID(topic); err != nil {
			return 0, nil, err
		}
		n, err := strconv.ParseInt(partition, 10, 32)
		if err != nil {
			return 0, nil, err
		}
		id.Partition = int32(n)
		ids[id] = true
	}
	if head {
		return 0, nil, errors.New("broker: it is empty")
	}
	return lineage, ids, nil
}

func (u *usedLogs) head(lineage image.LineageNumber) string {
	return fmt.Sprintf("%d %s %d", usedLogsVersion, u.directory, lineage)
}

func (u *usedLogs) parseHead(text string) (lineage image.LineageNumber, err error) {
	if text == fmt.Sprintf("0 %s", u.directory) {
		return 0, nil
	}
	if _, number, ok := cutLast(text); ok {
		n, err := strconv.ParseInt(number, 10, 32)
		if lineage = image.LineageNumber(n); err == nil && n >= 0 && text == u.head(lineage) {
			return lineage, nil
		}
	}
	return 0, fmt.Errorf("broker: it begins with %q, not with version %d and directory %s", text, usedLogsVersion, u.directory)
}

func cutLast(line string) (before, last string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

func checksum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

func appendLine(b []byte, text string) []byte { return fmt.Appendf(b, "%s %s\n", text, checksum(text)) }

func lineOf(id image.PartitionID) string { return fmt.Sprintf("%s %d", id.Topic, id.Partition) }

// neverUsed tells whether it is certain, by the metadata of a lineage, that this directory never held a record of the replica.
func (u *usedLogs) neverUsed(lineage image.LineageNumber, id image.PartitionID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known && u.lineage == lineage && !u.ids[id]
}

// begin writes the list anew, in a lineage in which the logs have been judged: what it said of replicas that are still assigned,
// and the logs that are on disk.
func (u *usedLogs) begin(lineage image.LineageNumber, onDisk []image.PartitionID, isAssigned func(image.PartitionID) bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := make(map[image.PartitionID]bool, len(onDisk))
	for id := range u.ids {
		if isAssigned(id) {
			ids[id] = true
		}
	}
	for _, id := range onDisk {
		ids[id] = true
	}
	data := appendLine(nil, u.head(lineage))
	for _, id := range slices.SortedFunc(maps.Keys(ids), image.PartitionID.Compare) {
		data = appendLine(data, lineOf(id))
	}
	if err := env.WriteFileAtomic(u.e.FS, u.name, data, 0o644); err != nil {
		return fmt.Errorf("broker: write %s: %w", u.name, err)
	}
	u.known, u.lineage, u.ids = true, lineage, ids
	u.size, u.torn = int64(len(data)), false
	return nil
}

// hasSlack tells whether so many lines are of logs that are gone that the list is to begin anew.
func (u *usedLogs) hasSlack(hosted int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.ids) > 2*hosted+usedLogsSlack
}

// missing are the replicas of which the list has no line yet.
func (u *usedLogs) missing(lists ...[]image.LocalPartition) (missing []image.LocalPartition) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, list := range lists {
		for _, l := range list {
			if !u.ids[l.ID] {
				missing = append(missing, l)
			}
		}
	}
	return missing
}

// add returns when the lines of the replicas are on disk.
func (u *usedLogs) add(list []image.LocalPartition) error {
	var data []byte
	for _, l := range list {
		data = appendLine(data, lineOf(l.ID))
	}
	u.e.At("broker.used-logs.before-write")
	if err := u.append(data); err != nil {
		return fmt.Errorf("broker: write %s: %w", u.name, err)
	}
	u.e.At("broker.used-logs.after-write")
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range list {
		u.ids[l.ID] = true
	}
	return nil
}

// append writes whole lines behind those on disk. After an error none of data stays, or the next append cuts it off.
func (u *usedLogs) append(data []byte) (err error) {
	file, err := u.e.FS.OpenFile(u.name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if u.torn {
		if err := file.Truncate(u.size); err != nil {
			return err
		}
	}
	u.torn = true
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		cut := file.Truncate(u.size)
		u.torn = cut != nil
		return errors.Join(err, cut)
	}
	u.size, u.torn = u.size+int64(len(data)), false
	return nil
}
