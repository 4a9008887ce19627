package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/quorate/quorate/quorum/env"
)

// filled makes the stores of a member with entries, some of them deleted, and returns their directory.
func filled(t *testing.T, entries uint64) string {
	t.Helper()
	dir := t.TempDir()
	if err := Bootstrap(env.OS(""), dir, []Server{{ID: ServerID{1, directoryID("one")}, Address: "n1:9292", Voter: true}}); err != nil {
		t.Fatal(err)
	}
	st, err := openStores(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: dir, Fatal: noFatal(t)}.withDefaults(), new(Metrics))
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(2); i <= entries; i++ {
		if err := st.log.StoreLog(&raft.Log{Index: i, Term: 1 + i/50, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i)}, int(20+i*37%9000))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(st.log.DeleteRange(1, entries/5), st.stable.SetUint64(keyCurrentTerm, 40), st.close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func reopen(dir string) error {
	st, err := openStores(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: dir, Fatal: func(error) {}}.withDefaults(), new(Metrics))
	if err != nil {
		return err
	}
	return st.close()
}

// A store that was cut or changed ends in one line that names the file and the next step. The library would panic on a
// goroutine of its own, or read beyond the file's end.
func TestDamagedStoresAreNamed(t *testing.T) {
	dir := filled(t, 120)
	if err := reopen(dir); err != nil {
		t.Fatalf("whole: %v", err)
	}
	for _, name := range []string{logFile, stableName} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, data []byte, must bool) error {
			t.Helper()
			dir := copyOf(t, dir) // what the library panics on it leaves open
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			err := reopen(dir)
			if err == nil && must {
				t.Errorf("%s %s: opened", name, what)
			}
			if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "format it anew") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s %s: %v", name, what, err)
			}
			return err
		}
		for _, size := range []int{1, 100, 4096, 5000, 8192, len(whole) / 2} {
			try("cut", whole[:size], size < 4*4096)
		}
		zero := bytes.Clone(whole)
		clear(zero[:8192])
		try("without its first pages", zero, true)
		// The library would take the transaction before for the newest one: a vote, or entries that were acknowledged, would be gone.
		newest := 0
		if binary.LittleEndian.Uint64(whole[4096+64:]) > binary.LittleEndian.Uint64(whole[64:]) {
			newest = 4096
		}
		for _, at := range []int{16, 20, 32, 64, 72} { // magic, version, root, transaction, checksum
			bad := bytes.Clone(whole)
			bad[newest+at] ^= 1
			try(fmt.Sprintf("changed at %d of its newest meta page", at), bad, true)
			bad = bytes.Clone(whole)
			bad[4096-newest+at] ^= 1
			if err := try(fmt.Sprintf("changed at %d of its older meta page", at), bad, at == 64); err != nil && at != 64 {
				t.Errorf("%s: nothing is lost, and %v", name, err)
			}
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			bad := bytes.Clone(whole)
			for range 1 + r.IntN(3) {
				// In the heads and elements of pages, where it hurts.
				bad[r.IntN(len(bad)/4096)*4096+r.IntN(64)] ^= byte(1 + r.IntN(255))
			}
			try("flipped", bad, false)
		}
		try("whole again", whole, false)
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// The state of a directory is read without changing it, and what is written for a recovered node is what it reads back.
func TestOfflineAndRecovered(t *testing.T) {
	dir := filled(t, 120)
	before, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(env.OS(""), dir)
	if err != nil {
		t.Fatal(err)
	}
	if o.LastIndex != 120 || o.LastTerm != 3 || o.Term != 40 || o.FirstIndex != 25 {
		t.Errorf("%+v", o)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, logFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("reading has changed the log: %v", err)
	}
	if _, err := OpenOffline(env.OS(""), t.TempDir()); !errors.Is(err, ErrNoState) {
		t.Errorf("empty directory: %v", err)
	}

	made := filepath.Join(t.TempDir(), "raft")
	self := Server{ID: ServerID{7, directoryID("seven")}, Address: "n7:9292", Voter: true}
	err = WriteRecovered(env.OS(""), made, Recovered{Server: self, Index: 121, Term: 1040, Write: func(w io.Writer) error {
		_, err := io.WriteString(w, "content")
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if o, err = OpenOffline(env.OS(""), made); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.LastIndex != 121 || o.LastTerm != 1040 || o.Term != 1040 || o.FirstIndex != 0 || len(o.Snapshots) != 1 ||
		len(o.Configuration.Servers) != 1 || o.Configuration.Servers[0] != self || o.Configuration.Index != 121 {
		t.Errorf("%+v", o)
	}
	content, err := o.OpenSnapshot(o.Snapshots[0])
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if data, err := io.ReadAll(content); err != nil || string(data) != "content" {
		t.Errorf("content %q, %v", data, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if c := o.Configuration; len(c.Servers) != 1 {
		t.Errorf("configuration %+v", c)
	}
}

// A configuration that the library panics on is named when the stores are read offline.
func TestDamagedConfigurationIsNamed(t *testing.T) {
	dir := t.TempDir()
	self := Server{ID: ServerID{7, directoryID("seven")}, Address: "n7:9292", Voter: true}
	if err := Bootstrap(env.OS(""), dir, []Server{self}); err != nil {
		t.Fatal(err)
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, logFile)})
	if err != nil {
		t.Fatal(err)
	}
	err = store.StoreLog(&raft.Log{Index: 2, Term: 2, Type: raft.LogConfiguration, Data: []byte{0xc1, 0xff}})
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOffline(env.OS(""), dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "index 2") {
		t.Errorf("%v", err)
	}
}

// A snapshot whose meta data cannot be read is named; the library would pass over it.
func TestDamagedSnapshotMetaIsNamed(t *testing.T) {
	made := filepath.Join(t.TempDir(), "raft")
	self := Server{ID: ServerID{7, directoryID("seven")}, Address: "n7:9292", Voter: true}
	if err := WriteRecovered(env.OS(""), made, Recovered{Server: self, Index: 9, Term: 5, Write: func(io.Writer) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	metas, err := filepath.Glob(filepath.Join(made, snapshotsDir, "*", snapshotMetaFile))
	if err != nil || len(metas) != 1 {
		t.Fatal(metas, err)
	}
	for _, text := range []string{"", "{", `{"ID":"x"}`} {
		if err := os.WriteFile(metas[0], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := New(Config{
			Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), FSM: &listFSM{}, ClusterID: testCluster, ID: self.ID, Dir: made,
			ListenAddress: "127.0.0.1:0", Fatal: noFatal(t),
		}).Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), metas[0]) || !strings.Contains(err.Error(), "add it again") {
			t.Errorf("meta data %q: %v", text, err)
		}
	}
}

// What a crash or a full disk left of a snapshot is removed at the next start; the whole ones stay.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	made := filepath.Join(t.TempDir(), "raft")
	self := Server{ID: ServerID{7, directoryID("seven")}, Address: "n7:9292", Voter: true}
	if err := WriteRecovered(env.OS(""), made, Recovered{Server: self, Index: 9, Term: 5, Write: func(io.Writer) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(made, snapshotsDir, "5-12-1796084165194"+snapshotTmpSuffix)
	if err := errors.Join(os.Mkdir(left, 0o755), os.WriteFile(filepath.Join(left, snapshotStateFile), []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	st, err := openSnapshots(Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Dir: made}.withDefaults(), nil, new(Metrics))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", left, err)
	}
	if metas, err := st.List(); err != nil || len(metas) != 1 || metas[0].Index != 9 {
		t.Errorf("%v, %v", metas, err)
	}
}

// A node does not start with an entry in which a bit has changed, wherever in the log it is, and says in one line in which file and what to
// do.
func TestChangedEntryIsNamedAtStart(t *testing.T) {
	for name, c := range map[string]struct {
		compacted bool
		data      byte
	}{"last": {false, '9'}, "in the middle": {false, '5'}, "of the snapshot": {true, '5'}} {
		t.Run(name, func(t *testing.T) {
			open, dir := stateOf(t, c.compacted)
			flip(t, filepath.Join(dir, logFile), []byte{0xa4, 'D', 'a', 't', 'a', 0xa1, c.data}, 6)
			err := open(true)
			var state *StateError
			if !errors.As(err, &state) || !strings.Contains(err.Error(), errChecksum.Error()) || !strings.Contains(err.Error(), filepath.Join(dir, logFile)) ||
				!strings.Contains(err.Error(), "quorum add") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A log that another process has open is named as such, and the directory's other reader goes on.
func TestOfflineLogInUseIsNamed(t *testing.T) {
	dir := filled(t, 20)
	log, err := openBoltLog(dir, boltOptions())
	if err != nil {
		t.Fatal(err)
	}
	if o, err := OpenOffline(env.OS(""), dir); err == nil || o != nil || !strings.Contains(err.Error(), "is open in another process") {
		t.Errorf("opened: %v, %v", o, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(env.OS(""), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}
