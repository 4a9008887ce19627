package log

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
)

const (
	// partitionMetadataFile is Kafka's name of the file that says which topic a directory belongs to.
	partitionMetadataFile = "partition.metadata"
	// cleanShutdownFile is Kafka's name of the marker of a clean stop.
	cleanShutdownFile = ".kafka_cleanshutdown"
	// lifeFile tells in which life of the machine the process last ran.
	lifeFile = ".quorate_life"
	// bootIDFile is where Linux shows a number that it draws at each boot.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// writePartitionMetadata says which topic a directory belongs to. It is synced before the first record is appended.
func writePartitionMetadata(f env.FS, dir string, id image.TopicID) error {
	path := filepath.Join(dir, partitionMetadataFile)
	file, err := f.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return storage("create", path, err)
	}
	_, err = file.Write([]byte("version: 0\ntopic_id: " + id.String() + "\n"))
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return storage("write", path, err)
}

// readPartitionMetadata reads it; ok is false when there is none that names a topic.
func readPartitionMetadata(f env.FS, dir string) (id image.TopicID, ok bool, err error) {
	path := filepath.Join(dir, partitionMetadataFile)
	data, err := env.ReadFile(f, path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, storage("read", path, err)
	}
	version := ""
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "version":
			version = value
		case "topic_id":
			id, err = image.ParseUUID(value)
		}
	}
	return id, err == nil && version == "0" && !id.IsZero(), nil
}

// Stop tells how the former life of the broker ended, as far as it can be told.
type Stop struct {
	Kind metadatapb.StopKind
	// PreviousBrokerEpoch is the broker epoch of that life if it ended with a clean stop or only its process crashed, as far as
	// the directory knows it; [image.NoBrokerEpoch] else.
	PreviousBrokerEpoch image.BrokerEpoch
}

// cleanShutdown is Kafka's content of the marker (CleanShutdownFileHandler).
type cleanShutdown struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

func readCleanShutdown(f env.FS, dir string) (epoch image.BrokerEpoch, found bool, err error) {
	path := filepath.Join(dir, cleanShutdownFile)
	data, err := env.ReadFile(f, path)
	if errors.Is(err, fs.ErrNotExist) {
		return image.NoBrokerEpoch, false, nil
	}
	if err != nil {
		return image.NoBrokerEpoch, false, storage("read", path, err)
	}
	c := cleanShutdown{BrokerEpoch: int64(image.NoBrokerEpoch)}
	if json.Unmarshal(data, &c) != nil {
		return image.NoBrokerEpoch, true, nil // its existence says it, its content may be an old version's
	}
	return image.BrokerEpoch(c.BrokerEpoch), true, nil
}

func writeCleanShutdown(f env.FS, dir string, epoch image.BrokerEpoch) error {
	data, err := json.Marshal(cleanShutdown{BrokerEpoch: int64(epoch)})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, cleanShutdownFile)
	return storage("write", path, env.WriteFileAtomic(f, path, data, 0o644))
}

// withoutLife says what happens when lifeFile is not there beside data.
const withoutLife = "the stop before counts as a crash of the machine, unless it was an orderly one"

// life is the content of lifeFile.
type life struct {
	Version int `json:"version"`
	// BootID is the machine's boot; empty where it is not known.
	BootID string `json:"bootId"`
	// BrokerEpoch is that of the newest life that a controller has registered with this directory; nil if none is known.
	BrokerEpoch *int64 `json:"brokerEpoch,omitempty"`
	// Unreported is the stop that no controller has been told of yet; nil when one has.
	Unreported *unreportedStop `json:"unreported,omitempty"`
}

type unreportedStop struct {
	Kind                metadatapb.StopKind `json:"kind"`
	PreviousBrokerEpoch int64               `json:"previousBrokerEpoch"`
}

func readLife(f env.FS, dir string) (l life, found bool, err error) {
	path := filepath.Join(dir, lifeFile)
	data, err := env.ReadFile(f, path)
	if errors.Is(err, fs.ErrNotExist) {
		return life{}, false, nil
	}
	if err != nil {
		return life{}, false, storage("read", path, err)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return life{}, false, fmt.Errorf("%w; remove the file and start again: %s", malformed(path, "%v", err), withoutLife)
	}
	return l, true, nil
}

func writeLife(f env.FS, dir string, l life) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, lifeFile)
	return storage("write", path, env.WriteFileAtomic(f, path, data, 0o644))
}

// bootID is the number of the machine's boot; empty where there is none to be read.
func bootID(f env.FS) string {
	data, err := env.ReadFile(f, bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// judgeStop tells how the former life ended. A stop that was never reported outlives the lives after it: a machine's
// crash is not made good by a later clean stop before the broker registers.
func judgeStop(marker bool, epoch image.BrokerEpoch, before life, ran bool, boot string) Stop {
	stop := Stop{metadatapb.StopKind_STOP_KIND_UNSPECIFIED, image.NoBrokerEpoch}
	switch {
	case marker:
		stop = Stop{metadatapb.StopKind_STOP_KIND_CLEAN, epoch}
	case !ran:
		stop.Kind = metadatapb.StopKind_STOP_KIND_NEVER_RAN
	case before.BootID == "" || boot == "":
	case before.BootID == boot:
		stop.Kind = metadatapb.StopKind_STOP_KIND_PROCESS_CRASH
		if before.BrokerEpoch != nil {
			stop.PreviousBrokerEpoch = image.BrokerEpoch(*before.BrokerEpoch)
		}
	default:
		stop.Kind = metadatapb.StopKind_STOP_KIND_MACHINE_CRASH
	}
	if u := before.Unreported; u != nil && (severity(u.Kind) > severity(stop.Kind) ||
		u.Kind == metadatapb.StopKind_STOP_KIND_NEVER_RAN) {
		return Stop{u.Kind, image.BrokerEpoch(u.PreviousBrokerEpoch)}
	}
	return stop
}

// severity orders the kinds of stop by what may have been lost.
func severity(k metadatapb.StopKind) int {
	switch k {
	case metadatapb.StopKind_STOP_KIND_NEVER_RAN:
		return 0
	case metadatapb.StopKind_STOP_KIND_CLEAN:
		return 1
	case metadatapb.StopKind_STOP_KIND_PROCESS_CRASH:
		return 2
	case metadatapb.StopKind_STOP_KIND_UNSPECIFIED:
		return 3
	default:
		return 4
	}
}
