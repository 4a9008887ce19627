package raftnode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/quorum/env"
)

// ErrNoState says that a directory holds no Raft state: it was formatted without initial controllers and never joined.
var ErrNoState = errors.New("raftnode: no raft state")

// Names of the library inside a snapshot.
const (
	snapshotMetaFile  = "meta.json"
	snapshotStateFile = "state.bin"
	snapshotTmpSuffix = ".tmp"
)

// Offline is the Raft state of a directory whose node does not run. Nothing in the directory is changed.
type Offline struct {
	// Dir is the directory of the stores.
	Dir string
	// Owner is the server whose term and vote are in it, as "NODE:DIRECTORYID"; empty if an older release made it or a recovery, and no
	// node has run on it since.
	Owner string
	// Term is the highest term in it: of the log, the snapshots, the current term and the vote.
	Term uint64
	// FirstIndex is the log's first index, 0 for an empty log.
	FirstIndex uint64
	// LastIndex and LastTerm are those of the last entry, in the log or covered by a snapshot: what Raft compares in a vote.
	LastIndex, LastTerm uint64
	// Configuration is the newest one, committed or not.
	Configuration Configuration
	// Snapshots are the whole ones by their meta data, newest first.
	Snapshots []OfflineSnapshot
	// Damaged are the snapshots whose meta data cannot be read.
	Damaged []DamagedSnapshot
	// Superseded is what the server had heard of a newer lineage, or of its removal; nil if nothing.
	Superseded *Superseded

	files env.FS
	log   *boltLog
}

// OfflineSnapshot is a snapshot of a directory whose node does not run.
type OfflineSnapshot struct {
	ID          string
	Index, Term uint64
}

// DamagedSnapshot is a snapshot whose meta data cannot be read.
type DamagedSnapshot struct {
	// Term and Index are those that the folder is named for, 0 if it is named otherwise.
	Term, Index uint64
	// Err names the file and says what is wrong with it.
	Err error
}

// OpenOffline opens the stores of a directory for reading. The error is [ErrNoState] if there are none; a damaged file is named.
func OpenOffline(e *env.Env, dir string) (o *Offline, err error) {
	there, err := env.Exists(e.FS, filepath.Join(dir, logFile))
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("%w in %s", ErrNoState, dir)
	}
	o = &Offline{Dir: dir, files: e.FS}
	opened := o
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	if err := o.readTerm(); err != nil {
		return nil, err
	}
	if o.Superseded, err = readSuperseded(e.FS, dir); err != nil {
		return nil, err
	}
	var metas []*raft.SnapshotMeta
	if metas, o.Damaged, err = readSnapshotMetas(e.FS, dir); err != nil {
		return nil, err
	}
	if err := checkBolt(e.FS, filepath.Join(dir, logFile)); err != nil {
		return nil, openError(dir, logFile, err)
	}
	options := boltOptions()
	options.ReadOnly = true
	if o.log, err = openBoltLog(dir, options); err != nil {
		return nil, openError(dir, logFile, err)
	}
	return o, o.survey(metas)
}

// Close closes the stores.
func (o *Offline) Close() error {
	if o.log == nil {
		return nil
	}
	err := o.log.Close()
	o.log = nil
	return err
}

// GetLog reads an entry, or gives [raft.ErrLogNotFound].
func (o *Offline) GetLog(index uint64, log *raft.Log) error { return o.log.GetLog(index, log) }

// OpenSnapshot opens the content of a snapshot.
func (o *Offline) OpenSnapshot(s OfflineSnapshot) (io.ReadCloser, error) {
	return o.files.OpenFile(filepath.Join(o.Dir, snapshotsDir, s.ID, snapshotStateFile), os.O_RDONLY, 0)
}

// readTerm reads the stable store.
func (o *Offline) readTerm() error {
	path := filepath.Join(o.Dir, stableName)
	if there, err := env.Exists(o.files, path); err != nil || !there {
		return err
	}
	if err := checkBolt(o.files, path); err != nil {
		return openError(o.Dir, stableName, err)
	}
	options := boltOptions()
	options.ReadOnly = true
	db, err := openBolt(path, options)
	if err != nil {
		return openError(o.Dir, stableName, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(stableBucket)
		if b == nil {
			return nil
		}
		if err := checkStable(tx); err != nil {
			return fmt.Errorf("raftnode: %s: %w; if the log is whole, move this file away: the term of the last entry takes its place in a recovery", path, err)
		}
		o.Owner = string(b.Get(keyOwner))
		for _, key := range [][]byte{keyCurrentTerm, keyLastVoteTerm} {
			if v := b.Get(key); v != nil {
				term, err := uint64From(key, v)
				if err != nil {
					return err
				}
				o.Term = max(o.Term, term)
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// survey fills in what log and snapshots say.
func (o *Offline) survey(metas []*raft.SnapshotMeta) error {
	var err error
	if o.FirstIndex, err = o.log.FirstIndex(); err != nil {
		return err
	}
	last, err := o.log.LastIndex()
	if err != nil {
		return err
	}
	var newest raft.Configuration
	var at uint64
	for i, m := range metas {
		o.Snapshots = append(o.Snapshots, OfflineSnapshot{m.ID, m.Index, m.Term})
		if i == 0 {
			o.LastIndex, o.LastTerm = m.Index, m.Term
			newest, at = m.Configuration, m.ConfigurationIndex
		}
	}
	for i := o.FirstIndex; i > 0 && i <= last; i++ {
		var entry raft.Log
		if err := o.log.GetLog(i, &entry); err != nil {
			return fmt.Errorf("raftnode: read index %d of %s: %w", i, filepath.Join(o.Dir, logFile), err)
		}
		if entry.Type == raft.LogConfiguration && i > at {
			err := unpanicked(func() error { newest, at = raft.DecodeConfiguration(entry.Data), i; return nil })
			if err != nil {
				return fmt.Errorf("raftnode: the configuration at index %d of %s cannot be read: %w", i, filepath.Join(o.Dir, logFile), err)
			}
		}
		if i == last && i > o.LastIndex {
			o.LastIndex, o.LastTerm = entry.Index, entry.Term
		}
	}
	o.Term = max(o.Term, o.LastTerm)
	if o.LastIndex == 0 && len(o.Damaged) > 0 {
		return o.Damaged[0].Err
	}
	if o.LastIndex == 0 {
		return fmt.Errorf("%w in %s", ErrNoState, o.Dir)
	}
	o.Configuration, err = configurationFrom(newest, at)
	return err
}

// readSnapshotMetas reads the meta data of the snapshots in a directory, newest first. Unfinished ones are left out; those whose
// meta data cannot be read are named.
func readSnapshotMetas(files env.FS, dir string) (out []*raft.SnapshotMeta, damaged []DamagedSnapshot, err error) {
	entries, err := files.ReadDir(filepath.Join(dir, snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), snapshotTmpSuffix) {
			continue
		}
		m, err := readSnapshotMeta(files, filepath.Join(dir, snapshotsDir, e.Name()))
		if err != nil {
			term, index, _ := folderPosition(e.Name())
			damaged = append(damaged, DamagedSnapshot{Term: term, Index: index, Err: err})
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Term, a.Term), strings.Compare(b.ID, a.ID))
	})
	return out, damaged, nil
}

// folderPosition reads the position that the library names a snapshot's folder for.
func folderPosition(name string) (term, index uint64, ok bool) {
	if n, _ := fmt.Sscanf(name, "%d-%d-", &term, &index); n != 2 {
		return 0, 0, false
	}
	return term, index, true
}

func readSnapshotMeta(files env.FS, dir string) (*raft.SnapshotMeta, error) {
	path := filepath.Join(dir, snapshotMetaFile)
	data, err := env.ReadFile(files, path)
	m := new(raft.SnapshotMeta)
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err == nil && (m.ID != filepath.Base(dir) || m.Index == 0 || len(m.Configuration.Servers) == 0) {
		err = fmt.Errorf("it names snapshot %q at index %d with %d servers", m.ID, m.Index, len(m.Configuration.Servers))
	}
	if err == nil {
		if err := checkFacts(files, dir, m); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("raftnode: the meta data of a metadata snapshot is damaged: %s: %w; move that snapshot's folder away if the log or an "+
			"older snapshot covers it, else format this node anew and add it again", path, err)
	}
	return m, nil
}

// Recovered is the state that [WriteRecovered] gives to a node.
type Recovered struct {
	// Server is the node itself, the only voter.
	Server Server
	// Index and Term are those of the snapshot. No log, snapshot or vote that may come back has as high a term.
	Index, Term uint64
	// Write writes the snapshot's content.
	Write func(io.Writer) error
}

// WriteRecovered makes the stores of a node that begins anew from a snapshot: an empty log, a configuration with itself as the only
// voter, and a term above those before. dir is a temporary directory, which the caller renames when WriteRecovered has
// returned; everything in it is synced.
func WriteRecovered(e *env.Env, dir string, r Recovered) error {
	if err := r.Server.ID.validate(); err != nil {
		return err
	}
	return writeStores(e, dir, r.Server.ID, func(_ Config, st *stores, snapshots *snapshotStore) error {
		if err := writeSnapshot(snapshots, r); err != nil {
			return err
		}
		if err := st.stable.SetUint64(keyCurrentTerm, r.Term); err != nil {
			return err
		}
		return e.FS.SyncDir(filepath.Join(dir, snapshotsDir))
	})
}

func writeSnapshot(snapshots *snapshotStore, r Recovered) error {
	configuration := raft.Configuration{Servers: []raft.Server{r.Server.raft()}}
	// The transport only writes the list of peers that version 0 of snapshots had.
	_, peers := raft.NewInmemTransport(raft.ServerAddress(r.Server.Address))
	sink, err := snapshots.Create(raft.SnapshotVersionMax, r.Index, r.Term, configuration, r.Index, peers)
	if err != nil {
		return err
	}
	if err := r.Write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return errors.Join(sink.Close(), peers.Close())
}
