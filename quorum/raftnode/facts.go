package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// factsFile says a second time, inside a snapshot's folder, what the library's meta data says. The library checks the content by its
// checksum and believes the meta data, whose index, term and configuration decide what is committed and who votes.
const factsFile = "facts.json"

// snapshotFacts are what must agree: meta.json, the folder's name, facts.json, and the header of the content.
type snapshotFacts struct {
	Index              uint64   `json:"index"`
	Term               uint64   `json:"term"`
	ConfigurationIndex uint64   `json:"configurationIndex"`
	Servers            []string `json:"servers"`
}

func factsOf(index, term uint64, configuration raft.Configuration, configurationIndex uint64) snapshotFacts {
	f := snapshotFacts{Index: index, Term: term, ConfigurationIndex: configurationIndex}
	for _, s := range configuration.Servers {
		f.Servers = append(f.Servers, fmt.Sprintf("%v %s %s", s.Suffrage, s.ID, s.Address))
	}
	return f
}

// writeFacts writes them beside a snapshot that is being made.
func writeFacts(files env.FS, snapshots, id string, f snapshotFacts) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return env.WriteFileAtomic(files, filepath.Join(snapshots, id+snapshotTmpSuffix, factsFile), append(data, '\n'), 0o644)
}

// SnapshotHeader is what a snapshot's content says of itself: the last Raft index in it, a term that is not above that of the
// snapshot, and the cluster.
type SnapshotHeader struct {
	Index, Term uint64
	ClusterID   string
}

// ContradictionError says that two files of a snapshot, which state the same, differ. It cannot be told which one is right.
type ContradictionError struct {
	Folder, Why string
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("raftnode: the files of the metadata snapshot %s contradict each other: %s; put the folder back as it was, or %s", e.Folder, e.Why, replaceMember)
}

// checkFacts compares a snapshot's meta data with the folder's name and, if it is there, facts.json.
func checkFacts(files env.FS, folder string, m *raft.SnapshotMeta) error {
	contradicts := func(format string, args ...any) error {
		return &ContradictionError{Folder: folder, Why: fmt.Sprintf(format, args...)}
	}
	if term, index, ok := folderPosition(filepath.Base(folder)); ok && (term != m.Term || index != m.Index) {
		return contradicts("%s says term %d, index %d, and the folder's name term %d, index %d", snapshotMetaFile, m.Term, m.Index, term, index)
	}
	data, err := env.ReadFile(files, filepath.Join(folder, factsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f snapshotFacts
	if err := json.Unmarshal(data, &f); err != nil {
		return contradicts("%s cannot be read: %v", factsFile, err)
	}
	meta := factsOf(m.Index, m.Term, m.Configuration, m.ConfigurationIndex)
	switch {
	case f.Index != meta.Index || f.Term != meta.Term:
		return contradicts("%s says term %d, index %d, and %s term %d, index %d", snapshotMetaFile, meta.Term, meta.Index, factsFile, f.Term, f.Index)
	case f.ConfigurationIndex != meta.ConfigurationIndex || !slices.Equal(f.Servers, meta.Servers):
		return contradicts("%s says that the members at index %d are %v, and %s that those at index %d are %v", snapshotMetaFile, meta.ConfigurationIndex, meta.Servers,
			factsFile, f.ConfigurationIndex, f.Servers)
	}
	return nil
}

// checkHeader compares a snapshot's meta data with what its content says of itself. Content that cannot be read says nothing here: the
// library refuses it by its checksum.
func checkHeader(files env.FS, folder string, m *raft.SnapshotMeta, clusterID string, read func(io.Reader) (SnapshotHeader, error)) error {
	if read == nil {
		return nil
	}
	file, err := files.OpenFile(filepath.Join(folder, snapshotStateFile), os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	h, err := read(file)
	switch {
	case err != nil:
		return nil
	case h.Index > m.Index || h.Term > m.Term:
		return &ContradictionError{Folder: folder, Why: fmt.Sprintf("%s says term %d, index %d, and %s goes up to term %d, index %d",
			snapshotMetaFile, m.Term, m.Index, snapshotStateFile, h.Term, h.Index)}
	case h.ClusterID != clusterID:
		return &ContradictionError{Folder: folder, Why: fmt.Sprintf("%s is of cluster %q, and this node belongs to cluster %q", snapshotStateFile, h.ClusterID, clusterID)}
	}
	return nil
}
