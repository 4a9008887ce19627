package node

import (
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// bootstrapRaft writes Raft's stores with the first configuration: every initial controller a voter.
func bootstrapRaft(e *env.Env, dir string, initial []InitialController) error {
	servers := make([]raftnode.Server, 0, len(initial))
	for _, ic := range initial {
		servers = append(servers, raftnode.Server{
			ID:      raftnode.ServerID{NodeID: int32(ic.NodeID), DirectoryID: ic.DirectoryID.String()},
			Address: ic.RaftAddress, Voter: true,
		})
	}
	return raftnode.Bootstrap(e, dir, servers)
}
