package raftnode

import (
	"errors"
	"fmt"
	"log/slog"

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
	return writeStores(e, dir, servers[0].ID, func(cfg Config, st *stores, snapshots *snapshotStore) error {
		return raft.BootstrapCluster(cfg.raftConfig(nil), st.log, st.stable, snapshots, nil, configuration)
	})
}

// writeStores makes the stores of a node that does not run, lets write fill them, and syncs the directory.
func writeStores(e *env.Env, dir string, id ServerID, write func(Config, *stores, *snapshotStore) error) error {
	var failed error
	cfg := Config{
		Env: e, Logger: slog.New(slog.DiscardHandler), Dir: dir, ID: id,
		Fatal: func(err error) { failed = err },
	}.withDefaults()
	metrics := new(Metrics)
	st, err := openStores(cfg, metrics)
	if err != nil {
		return err
	}
	snapshots, err := openSnapshots(cfg, st.guard, metrics)
	if err == nil {
		err = write(cfg, st, snapshots)
	}
	if err = errors.Join(err, st.close()); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return e.FS.SyncDir(dir)
}

func (s Server) raft() raft.Server {
	suffrage := raft.Nonvoter
	if s.Voter {
		suffrage = raft.Voter
	}
	return raft.Server{ID: s.ID.Raft(), Address: raft.ServerAddress(s.Address), Suffrage: suffrage}
}
