package raftnode

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// A snapshot whose meta data differ from what the folder's name, facts.json or the content say is refused at the start, in one line: the
// library would take it, and delete the log or count other voters. The offline tools name it too.
func TestSnapshotThatContradictsItselfIsRefused(t *testing.T) {
	open, dir := stateOf(t, true)
	folders, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*-*-*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	kept := copyOf(t, dir)
	meta := func(change func(*raft.SnapshotMeta)) func(folder string) error {
		return func(folder string) error {
			path := filepath.Join(folder, snapshotMetaFile)
			data, err := os.ReadFile(path)
			m := new(raft.SnapshotMeta)
			if err = errors.Join(err, json.Unmarshal(data, m)); err != nil {
				return err
			}
			change(m)
			data, err = json.Marshal(m)
			return errors.Join(err, os.WriteFile(path, data, 0o644))
		}
	}
	for name, tamper := range map[string]func(folder string) error{
		"index": meta(func(m *raft.SnapshotMeta) { m.Index++ }),
		"term":  meta(func(m *raft.SnapshotMeta) { m.Term-- }),
		"a voter more": meta(func(m *raft.SnapshotMeta) {
			m.Configuration.Servers = append(m.Configuration.Servers, Server{ID: two, Address: "n2:1", Voter: true}.raft())
		}),
		"another address":  meta(func(m *raft.SnapshotMeta) { m.Configuration.Servers[0].Address = "n9:9292" }),
		"no voter":         meta(func(m *raft.SnapshotMeta) { m.Configuration.Servers[0].Suffrage = raft.Nonvoter }),
		"the members' age": meta(func(m *raft.SnapshotMeta) { m.ConfigurationIndex++ }),
		"facts of another": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, factsFile), []byte(`{"index":1}`), 0o644)
		},
		"facts that are no": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, factsFile), []byte(`{"ind`), 0o644)
		},
		"index, without facts": func(folder string) error {
			return errors.Join(meta(func(m *raft.SnapshotMeta) { m.Index++ })(folder), os.Remove(filepath.Join(folder, factsFile)))
		},
	} {
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept)), tamper(folders[0])); err != nil {
			t.Fatal(err)
		}
		err := open(true)
		var state *StateError
		var contradiction *ContradictionError
		if !errors.As(err, &state) || !errors.As(err, &contradiction) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), folders[0]) ||
			!strings.Contains(err.Error(), "quorum add") {
			t.Errorf("%s: %v", name, err)
		}
		o, err := OpenOffline(env.OS(""), dir)
		if err != nil || len(o.Damaged) != 1 || !errors.As(o.Damaged[0].Err, &contradiction) {
			t.Errorf("%s, offline: %+v, %v", name, o, err)
		}
		if err == nil {
			o.Close()
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept)), os.Remove(filepath.Join(folders[0], factsFile)), open(true)); err != nil {
		t.Errorf("without facts: %v", err)
	}
}

// The header of the content goes not beyond the meta data, and names the node's cluster.
func TestSnapshotHeaderIsCompared(t *testing.T) {
	made := filepath.Join(t.TempDir(), "raft")
	self := Server{ID: ServerID{7, directoryID("seven")}, Address: "n7:9292", Voter: true}
	if err := WriteRecovered(env.OS(""), made, Recovered{Server: self, Index: 9, Term: 5, Write: func(io.Writer) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	for header, ok := range map[SnapshotHeader]bool{
		{9, 5, testCluster}: true, {3, 2, testCluster}: true,
		{10, 5, testCluster}: false, {9, 6, testCluster}: false, {9, 5, "cluster-B"}: false,
	} {
		n := New(Config{
			Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, ClusterID: testCluster, ID: self.ID, Dir: made,
			ListenAddress: "127.0.0.1:0", Fatal: noFatal(t), SnapshotHeader: func(io.Reader) (SnapshotHeader, error) { return header, nil },
		})
		err := n.Open(t.Context())
		if err == nil {
			err = n.Close()
		}
		var contradiction *ContradictionError
		if (err == nil) != ok || !ok && !errors.As(err, &contradiction) {
			t.Errorf("header %+v: %v", header, err)
		}
	}
}
