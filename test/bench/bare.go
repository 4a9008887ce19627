package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// bareCluster is the cluster id of the bare quorum.
	bareCluster = "bench-bare-cluster-aaa"
	// bareLeaderWait bounds an election of the bare quorum.
	bareLeaderWait = 30 * time.Second
	// bareLeaderPoll is how often its nodes are asked who leads.
	bareLeaderPoll = time.Millisecond
)

// Bare is hashicorp/raft alone: three members with the product's stores, transport and settings, whose state machine
// does nothing.
type Bare struct {
	members []*bareMember
}

type bareMember struct {
	cfg  raftnode.Config
	node *raftnode.Node
}

// OpenBare starts a bare quorum over loopback whose members keep their files below dir.
func OpenBare(dir string) (*Bare, error) {
	b := new(Bare)
	var servers []raftnode.Server
	for i := range 3 {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		id := raftnode.ServerID{NodeID: int32(i + 1), DirectoryID: image.UUID{byte(i + 1), 6: 0x40, 8: 0x80}.String()}
		servers = append(servers, raftnode.Server{ID: id, Address: address, Voter: true})
		b.members = append(b.members, &bareMember{cfg: raftnode.Config{
			Env: env.OS(""), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), FSM: nothing{},
			ClusterID: bareCluster, ID: id, Dir: filepath.Join(dir, fmt.Sprint("bare-", i)), ListenAddress: address,
			Fatal: func(err error) { panic(err) },
		}})
	}
	for _, m := range b.members {
		if err := raftnode.Bootstrap(m.cfg.Env, m.cfg.Dir, servers); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		if err := m.open(); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func (m *bareMember) open() error {
	node := raftnode.New(m.cfg)
	if err := node.Open(context.Background()); err != nil {
		return err
	}
	m.node = node
	return nil
}

func (m *bareMember) close() error {
	if m.node == nil {
		return nil
	}
	err := m.node.Close()
	m.node = nil
	return err
}

// Close stops all members.
func (b *Bare) Close() error {
	var err error
	for _, m := range b.members {
		err = errors.Join(err, m.close())
	}
	return err
}

// leader is the member that leads, nil if none does.
func (b *Bare) leader() *bareMember {
	for _, m := range b.members {
		if m.node != nil && m.node.State() == raft.Leader {
			return m
		}
	}
	return nil
}

// Leader waits for a leader that commits.
func (b *Bare) Leader() (*raftnode.Node, error) {
	deadline := time.NewTimer(bareLeaderWait)
	defer deadline.Stop()
	poll := time.NewTicker(bareLeaderPoll)
	defer poll.Stop()
	for {
		if m := b.leader(); m != nil {
			if out := m.node.Apply([]byte{1}).Wait(); out.Fate == raftnode.FateApplied {
				return m.node, nil
			}
		}
		select {
		case <-deadline.C:
			return nil, fmt.Errorf("bench: no leader of the bare quorum within %v", bareLeaderWait)
		case <-poll.C:
		}
	}
}

// Failover stops the leader without a hand-over, tells how long it took until another one committed, and starts the
// stopped one again.
func (b *Bare) Failover() (time.Duration, error) {
	if _, err := b.Leader(); err != nil {
		return 0, err
	}
	m := b.leader()
	if m == nil {
		return 0, errors.New("bench: the bare quorum lost its leader")
	}
	began := time.Now()
	closed := make(chan error, 1)
	node := m.node
	m.node = nil
	go func() { closed <- node.Close() }()
	_, err := b.Leader()
	took := time.Since(began)
	return took, errors.Join(err, <-closed, m.open())
}

// nothing is a state machine without state.
type nothing struct{}

// Apply implements raft.FSM.
func (nothing) Apply(*raft.Log) any { return nil }

// ApplyBatch implements raft.BatchingFSM, as the product does.
func (nothing) ApplyBatch(logs []*raft.Log) []any { return make([]any, len(logs)) }

// Snapshot implements raft.FSM.
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }

// Restore implements raft.FSM.
func (nothing) Restore(rc io.ReadCloser) error { return rc.Close() }

// Persist implements raft.FSMSnapshot.
func (nothing) Persist(sink raft.SnapshotSink) error { return sink.Close() }

// Release implements raft.FSMSnapshot.
func (nothing) Release() {}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
