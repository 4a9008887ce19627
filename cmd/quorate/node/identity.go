package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/magiconair/properties"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// metaFile has Kafka's name and form (version 1, KIP-853).
const metaFile = "meta.properties"

// ErrNotFormatted says that a directory holds no meta.properties.
var ErrNotFormatted = errors.New("node: not formatted")

// Identity is whom a data directory belongs to, as meta.properties says.
type Identity struct {
	ClusterID   string
	NodeID      image.BrokerID
	DirectoryID image.UUID
	// RaftBegun tells that the node has had a Raft state in the directory: if it is gone, it is lost.
	RaftBegun bool
}

// raftBegunKey is a key of our own in meta.properties.
const raftBegunKey = "quorate.raft.begun"

func (id Identity) text() []byte {
	text := fmt.Appendf(nil, "version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", id.ClusterID, id.NodeID, id.DirectoryID)
	if id.RaftBegun {
		text = fmt.Appendf(text, "%s=true\n", raftBegunKey)
	}
	return text
}

// beginRaft notes in a data directory's meta.properties that the node has a Raft state from now on.
func beginRaft(files env.FS, dir string) error {
	id, err := ReadIdentity(files, dir)
	if err != nil || id.RaftBegun {
		return err
	}
	id.RaftBegun = true
	return env.WriteFileAtomic(files, filepath.Join(dir, metaFile), id.text(), 0o644)
}

// ReadIdentity reads a data directory's meta.properties. The error wraps [ErrNotFormatted] if there is none.
func ReadIdentity(files env.FS, dir string) (Identity, error) {
	name := filepath.Join(dir, metaFile)
	data, err := env.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("%w: %s", ErrNotFormatted, dir)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("cannot read the data directory: %w", err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return Identity{}, damaged(name, err)
	}
	id, err := parseIdentity(p)
	if err != nil {
		return Identity{}, damaged(name, err)
	}
	return id, nil
}

func damaged(name string, err error) error {
	return fmt.Errorf("%s: %w; restore the file, or name the node's own directory in log.dirs", name, err)
}

func parseIdentity(p *properties.Properties) (Identity, error) {
	get := func(key string) string { return strings.TrimSpace(p.GetString(key, "")) }
	if v := get("version"); v != "1" {
		return Identity{}, fmt.Errorf("version is %q, this program reads 1", v)
	}
	id := Identity{ClusterID: get("cluster.id"), RaftBegun: get(raftBegunKey) == "true"}
	if id.ClusterID == "" {
		return Identity{}, errors.New("cluster.id is missing")
	}
	n, err := parseNumber(get("node.id"), 0, 1<<31-1)
	if err != nil {
		return Identity{}, fmt.Errorf("node.id: %w", err)
	}
	id.NodeID = image.BrokerID(n)
	if id.DirectoryID, err = image.ParseUUID(get("directory.id")); err != nil {
		return Identity{}, fmt.Errorf("directory.id: %w", err)
	}
	return id, nil
}

// CheckIdentity reads the data directory's identity and compares it with the configuration. clusterID is compared
// unless it is empty.
func CheckIdentity(files env.FS, c *Config, clusterID string) (Identity, error) {
	id, err := ReadIdentity(files, c.DataDir)
	switch {
	case errors.Is(err, ErrNotFormatted):
		if held := heldData(files, c.DataDir); held != "" {
			return id, fmt.Errorf("data directory %s holds data (%s) but no %s: restore that file from a copy of the directory; "+
				"or, to give the data up, move it away and run quorate format", c.DataDir, held, metaFile)
		}
		return id, fmt.Errorf("data directory %s is not formatted; run quorate format --config FILE --cluster-id ID first", c.DataDir)
	case err != nil:
		return id, err
	case id.NodeID != c.NodeID:
		return id, fmt.Errorf("data directory %s belongs to node %d, node.id is %d; correct node.id or log.dirs", c.DataDir, id.NodeID, c.NodeID)
	case clusterID != "" && id.ClusterID != clusterID:
		return id, fmt.Errorf("data directory %s belongs to cluster %s, not to %s; correct log.dirs", c.DataDir, id.ClusterID, clusterID)
	}
	return id, nil
}

// heldData names what a node has left in a directory that has lost its identity; empty if it is none of ours.
func heldData(files env.FS, dir string) string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && (name == raftDir || strings.Contains(name, "-")) {
			return name
		}
	}
	return ""
}
