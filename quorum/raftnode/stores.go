package raftnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/quorate/quorate/quorum/env"
)

const (
	logFile    = "log.bolt"
	stableName = "stable.bolt"
	// storeOpenTimeout is how long opening waits for a process that has the file open.
	storeOpenTimeout = time.Second
	storeFileMode    = 0o600
	storeDirMode     = 0o755
)

// boltOptions: without a synced freelist a file that was once large stays fast, and the map form finds free pages at
// once. NoSync is never set.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: storeOpenTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// stores are a node's log and votes, with every wrapper in place: cache, chunked deletes, guard, bolt.
type stores struct {
	log    raft.LogStore
	stable *voteStore
	guard  *guard
	close  func() error
}

func openBoltLog(dir string, options *bbolt.Options) (log *boltLog, err error) {
	err = unpanicked(func() error {
		bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, logFile), BoltOptions: options})
		if err == nil {
			log = &boltLog{bolt}
		}
		return err
	})
	return log, err
}

func openStores(cfg Config, metrics *Metrics) (*stores, error) {
	if err := makeDir(cfg.Env.FS, cfg.Dir); err != nil {
		return nil, fmt.Errorf("raftnode: %w", err)
	}
	for _, name := range []string{logFile, stableName} {
		if err := checkBolt(cfg.Env.FS, filepath.Join(cfg.Dir, name)); err != nil {
			return nil, openError(cfg.Dir, name, err)
		}
	}
	bolt, err := openBoltLog(cfg.Dir, boltOptions())
	if err != nil {
		return nil, openError(cfg.Dir, logFile, err)
	}
	stable, err := openStableFile(filepath.Join(cfg.Dir, stableName))
	if err != nil {
		return nil, errors.Join(openError(cfg.Dir, stableName, err), bolt.Close())
	}
	dog := newWatchdog(cfg.StoreTimeout, cfg.Fatal)
	g := &guard{env: cfg.Env, dog: dog, fault: cfg.StoreFault, observe: cfg.ObserveStore}
	guarded := &guardedLog{inner: bolt, guard: g, metrics: metrics}
	dog.start()
	return &stores{
		log:    newLogCache(chunkedDelete{guarded}, cfg.CacheEntries, cfg.CacheBytes, metrics),
		stable: &voteStore{file: stable, guard: g},
		guard:  g,
		close: func() error {
			err := errors.Join(bolt.Close(), stable.close())
			dog.close()
			return err
		},
	}, nil
}

func openError(dir, name string, err error) error {
	path := filepath.Join(dir, name)
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("raftnode: %s is open in another process; stop that one first", path)
	}
	return fmt.Errorf("raftnode: cannot open %s: %w; if it is damaged, remove this node from the quorum, format it anew and add it again", path, err)
}

// makeDir makes a directory and syncs its entry in the parent.
func makeDir(fs env.FS, dir string) error {
	exists, err := env.Exists(fs, dir)
	if err != nil || exists {
		return err
	}
	if err := fs.MkdirAll(dir, storeDirMode); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(dir))
}
