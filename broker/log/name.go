package log

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Name is what a partition is called on disk. It does not say which topic it is: a topic that was deleted and
// made again has the same name and another topic id.
type Name struct {
	Topic     string
	Partition int32
}

// String is the name of the directory: topic-partition.
func (n Name) String() string { return n.Topic + "-" + strconv.Itoa(int(n.Partition)) }

// Compare orders by topic, then by number.
func (n Name) Compare(other Name) int {
	if c := strings.Compare(n.Topic, other.Topic); c != 0 {
		return c
	}
	return int(n.Partition) - int(other.Partition)
}

const (
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
	futureSuffix = "-future"

	// metadataTopic is the name of Kafka's metadata log, which is no partition of ours.
	metadataTopic = "__cluster_metadata"

	nameBytesMax      = 255
	topicNameBytesMax = 249
	renameIDDigits    = 32
)

// DirState tells what a directory is kept for.
type DirState uint8

// The states of a directory, as the end of its name tells them.
const (
	// DirLive is a partition's log.
	DirLive DirState = iota
	// DirDeleting waits for its removal.
	DirDeleting
	// DirStray was set aside.
	DirStray
)

func (s DirState) String() string {
	return [...]string{"live", "deleting", "stray"}[s]
}

// parseDir reads the name of a directory. ok is false for what is no partition's.
func parseDir(base string) (name Name, state DirState, since time.Time, ok bool) {
	for _, renamed := range [...]struct {
		suffix string
		state  DirState
	}{{deleteSuffix, DirDeleting}, {straySuffix, DirStray}} {
		rest, found := strings.CutSuffix(base, renamed.suffix)
		if !found {
			continue
		}
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 {
			return Name{}, DirLive, time.Time{}, false
		}
		if since, ok = renameTime(rest[dot+1:]); !ok {
			return Name{}, DirLive, time.Time{}, false
		}
		name, ok = parseName(rest[:dot])
		return name, renamed.state, since, ok
	}
	if strings.HasSuffix(base, futureSuffix) {
		return Name{}, DirLive, time.Time{}, false
	}
	name, ok = parseName(base)
	return name, DirLive, time.Time{}, ok && name.Topic != metadataTopic
}

func parseName(s string) (Name, bool) {
	dash := strings.LastIndexByte(s, '-')
	if dash < 1 || dash > topicNameBytesMax {
		return Name{}, false
	}
	number := s[dash+1:]
	partition, err := strconv.ParseInt(number, 10, 32)
	if err != nil || partition < 0 || strconv.FormatInt(partition, 10) != number {
		return Name{}, false
	}
	topic := s[:dash]
	if topic == "." || topic == ".." {
		return Name{}, false
	}
	for _, c := range []byte(topic) {
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !legal {
			return Name{}, false
		}
	}
	return Name{topic, int32(partition)}, true
}

// renamed is the directory name topic-partition.<uuid><suffix>, the topic cut so that the whole fits a file
// system's limit (Kafka: LocalLog.logDeleteDirName). The uuid begins with the time in milliseconds, so that a
// directory that was set aside knows since when.
func renamed(n Name, suffix string, now time.Time) (string, error) {
	var id [renameIDDigits / 2]byte
	if _, err := rand.Read(id[6:]); err != nil {
		return "", fmt.Errorf("log: no random bytes: %w", err)
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(id[:6], ms[2:])
	tail := "-" + strconv.Itoa(int(n.Partition)) + "." + hex.EncodeToString(id[:]) + suffix
	return n.Topic[:min(len(n.Topic), nameBytesMax-len(tail))] + tail, nil
}

// renameTime reads the time out of the uuid of a renamed directory. A uuid of Kafka's is random: such a directory
// counts as renamed at a time that means nothing, but lies in the past or is cut to now by the caller.
func renameTime(digits string) (time.Time, bool) {
	id, err := hex.DecodeString(digits)
	if err != nil || len(digits) != renameIDDigits {
		return time.Time{}, false
	}
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))), true
}
