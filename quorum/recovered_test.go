package quorum_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
	"github.com/quorate/quorate/quorum/raftnode"
	"github.com/quorate/quorate/quorum/recovery"
)

// recoverFrom makes a stopped member the only voter of the next lineage.
func recoverFrom(t *testing.T, m *quorumtest.Member) *recovery.Plan {
	t.Helper()
	raft := filepath.Join(m.Config.DataDir, "raft")
	id := raftnode.ServerID{NodeID: int32(m.Config.NodeID), DirectoryID: base64.RawURLEncoding.EncodeToString(m.Config.DirectoryID.Bytes())}
	address := m.Config.RaftAdvertised
	if address == "" {
		address = m.Config.RaftAddress
	}
	plan, err := recovery.Prepare(t.Context(), recovery.Options{
		Env: m.Config.Env, ClusterID: quorumtest.ClusterID, Force: true,
		Self:        raftnode.Server{ID: id, Address: address, Voter: true},
		Directories: []recovery.Directory{{Path: m.Config.DataDir, Raft: raft, ID: id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	made := raft + ".recovered"
	if err := errors.Join(plan.Write(m.Config.Env, made), os.RemoveAll(raft), os.Rename(made, raft)); err != nil {
		t.Fatal(err)
	}
	return plan
}

// One controller of three goes on alone in a new lineage: its history is there, brokers of before get it whole, brokers that
// know better are refused, and one that is left behind stays out.
func TestRecoveredControllerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "before", 3, 1)
		c.SameImages(t)
		at, _, _ := tail(t, c, c.Members[0], image.Empty(), offsetOf(c.Members[0]))
		for _, m := range c.Members {
			c.Kill(t, m)
		}
		m, left := c.Members[0], c.Members[1]
		plan := recoverFrom(t, m)
		if plan.Before.State.Offset < at.Offset() || plan.After.State.Offset <= plan.Before.State.Offset+fsm.RecordsSkipped {
			t.Fatalf("from %d to %d", plan.Before.State.Offset, plan.After.State.Offset)
		}
		c.Run(t, m)
		quorumtest.Eventually(t, "it is active", func() error {
			if !m.IsActive() {
				return errors.New("not yet")
			}
			return nil
		})
		status := m.Node.Status()
		if status.GetLineage() != 1 || !status.GetLineageUnconfirmed() || len(status.GetMembers()) != 1 || m.Node.Notice() == "" {
			t.Errorf("status %v, notice %q", status, m.Node.Notice())
		}
		im, snapshots, _ := tail(t, c, m, at, offsetOf(m))
		if _, ok := im.TopicByName("before"); !ok || snapshots != 1 || im.Lineage().Number != 1 {
			t.Errorf("%d snapshots led to %v", snapshots, im)
		}
		if _, err := follow(t, c, m, 2); err == nil {
			t.Error("a broker of a newer lineage is fed")
		} else if refusal, ok := client.AsRefusal(err); !ok || !strings.Contains(refusal.Message, "lineage 2") {
			t.Errorf("refused with %v", err)
		}

		c.Run(t, left) // with its old directory, which names three voters
		time.Sleep(20 * time.Second)
		if left.IsActive() || !m.IsActive() || m.Fatal() != nil {
			t.Errorf("the controller left behind disturbs: active %v, the recovered one %v, %v", left.IsActive(), m.IsActive(), m.Fatal())
		}
		if ok, why := left.Node.Ready(); ok {
			t.Errorf("it says that it is ready: %s", why)
		}

		// Two of them are a majority of what was; their leader writes nothing into the recovered log, not when that starts either.
		c.Run(t, c.Members[2])
		time.Sleep(10 * time.Second)
		for range 3 {
			if err := m.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Run(t, m)
			time.Sleep(10 * time.Second)
			if got := m.Node.Status(); !m.IsActive() || got.GetLineage() != 1 || m.Fatal() != nil {
				t.Fatalf("the recovered controller beside two old ones: %v, %v", got, m.Fatal())
			}
		}
	})
}

// follow opens a stream for a broker that has followed a lineage, and waits for its first frame.
func follow(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, lineage int32) (*controllerpb.FollowFrame, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, m)).Follow(ctx, &controllerpb.FollowRequest{
		ClusterId: quorumtest.ClusterID, BrokerId: 99, MetadataOffset: -1, Lineage: lineage,
	})
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}
