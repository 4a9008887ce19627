package raftnode

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env"
)

// Bootstrap writes the initial configuration into the stores of a directory, offline: term 1 and one configuration
// entry. Every initial voter gets the same servers. The library writes the two one after the other, so the caller hands in
// a temporary directory and renames it when Bootstrap has returned; a crash then leaves nothing half done.
//
// It fails with [raft.ErrCantBootstrap] if the directory holds anything.
func Bootstrap(e *env.Env, dir string, servers []Server) error {
	if len(servers) == 0 {
		return errors.New("raftnode: bootstrap without servers")
	}
	seen := make(map[int32]ServerID)
	var configuration raft.Configuration
	for _, s := range servers {
		if err := s.ID.validate(); err != nil {
			return err
		}
		if other, twice := seen[s.ID.NodeID]; twice {
			return fmt.Errorf("raftnode: bootstrap names node %d twice, as %s and %s", s.ID.NodeID, other, s.ID)
		}
		seen[s.ID.NodeID] = s.ID
		configuration.Servers = append(configuration.Servers, s.raft())
	}
	var failed error
	cfg := Config{
		Env: e, Logger: slog.New(slog.DiscardHandler), Dir: dir, ID: servers[0].ID,
		Fatal: func(err error) { failed = err },
	}.withDefaults()
	st, err := openStores(cfg, new(Metrics))
	if err != nil {
		return err
	}
	snapshots, err := openSnapshots(cfg, st.guard, new(Metrics))
	if err == nil {
		err = raft.BootstrapCluster(cfg.raftConfig(nil), st.log, st.stable, snapshots, nil, configuration)
	}
	if err = errors.Join(err, st.close()); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return e.FS.SyncDir(dir)
}

// ReadConfiguration reads the newest configuration from the stores of a directory whose node does not run. It needs no
// identity and changes nothing but, if they are missing, creates empty stores.
func ReadConfiguration(e *env.Env, dir string) (Configuration, error) {
	exists, err := env.Exists(e.FS, filepath.Join(dir, logFile))
	if err != nil || !exists {
		return Configuration{}, errors.Join(err, fmt.Errorf("raftnode: %s holds no raft log", dir))
	}
	if err := checkBolt(e.FS, filepath.Join(dir, logFile)); err != nil {
		return Configuration{}, openError(dir, logFile, err)
	}
	log, closeLog, err := openLog(dir)
	if err != nil {
		return Configuration{}, openError(dir, logFile, err)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, newHCLog(slog.New(slog.DiscardHandler), e.Clock))
	if err != nil {
		return Configuration{}, errors.Join(err, closeLog())
	}
	newest, index, err := (&configurationReader{log: log, snapshots: snapshots}).read()
	if err = errors.Join(err, closeLog()); err != nil {
		return Configuration{}, err
	}
	return configurationFrom(newest, index)
}

func (s Server) raft() raft.Server {
	suffrage := raft.Nonvoter
	if s.Voter {
		suffrage = raft.Voter
	}
	return raft.Server{ID: s.ID.Raft(), Address: raft.ServerAddress(s.Address), Suffrage: suffrage}
}
