package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/quorum/env"
)

// Kafka's names of the files that hold one offset for each log of a directory.
const (
	highWatermarkFile = "replication-offset-checkpoint"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
)

// checkpointVersion is the first line of all of them (Kafka: CheckpointFile).
const checkpointVersion = "0"

// ErrMalformed says that a checkpoint or a partition.metadata file does not read as one.
var ErrMalformed = errors.New("log: malformed file")

func malformed(path, format string, args ...any) error {
	return &StorageError{Op: "parse", Path: path, Err: fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))}
}

// writeCheckpoint replaces a file by: version, number of lines, the lines.
func writeCheckpoint(f env.FS, path string, lines []string) error {
	var b bytes.Buffer
	b.WriteString(checkpointVersion)
	b.WriteByte('\n')
	b.WriteString(strconv.Itoa(len(lines)))
	b.WriteByte('\n')
	for _, line := range lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return storage("write", path, env.WriteFileAtomic(f, path, b.Bytes(), 0o644))
}

// readCheckpoint reads the fields of each line. A missing file has no lines.
func readCheckpoint(f env.FS, path string) ([][]string, error) {
	data, err := env.ReadFile(f, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storage("read", path, err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[0]) != checkpointVersion {
		return nil, malformed(path, "the first line is not version %s", checkpointVersion)
	}
	count, err := strconv.Atoi(strings.TrimSpace(lines[1]))
	if err != nil || count != len(lines)-2 {
		return nil, malformed(path, "the second line says %q lines, there are %d", lines[1], len(lines)-2)
	}
	fields := make([][]string, count)
	for i, line := range lines[2:] {
		fields[i] = strings.Fields(line)
	}
	return fields, nil
}

// readOffsets reads a file with one offset for each log. (Kafka: OffsetCheckpointFile.)
func readOffsets(f env.FS, path string) (map[Name]int64, error) {
	lines, err := readCheckpoint(f, path)
	if err != nil {
		return nil, err
	}
	offsets := make(map[Name]int64, len(lines))
	for _, fields := range lines {
		if len(fields) != 3 {
			return nil, malformed(path, "a line has %d fields instead of 3", len(fields))
		}
		partition, err1 := strconv.ParseInt(fields[1], 10, 32)
		offset, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 {
			return nil, malformed(path, "no topic, partition and offset: %q", strings.Join(fields, " "))
		}
		offsets[Name{fields[0], int32(partition)}] = offset
	}
	return offsets, nil
}

// writeOffsets replaces such a file; lines are in the order of names.
func writeOffsets(f env.FS, path string, offsets map[Name]int64) error {
	names := make([]Name, 0, len(offsets))
	for n := range offsets {
		names = append(names, n)
	}
	slices.SortFunc(names, Name.Compare)
	lines := make([]string, len(names))
	for i, n := range names {
		lines[i] = n.Topic + " " + strconv.Itoa(int(n.Partition)) + " " + strconv.FormatInt(offsets[n], 10)
	}
	return writeCheckpoint(f, path, lines)
}
