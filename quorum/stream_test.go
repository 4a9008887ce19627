package quorum_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// tail follows one member's stream as a broker does, until its image has the offset. It returns the image, and how many
// snapshots and entries brought it there.
func tail(t *testing.T, c *quorumtest.Cluster, m *quorumtest.Member, im *image.Image, to image.MetadataOffset) (_ *image.Image, snapshots, entries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, m)).Follow(ctx, &controllerpb.FollowRequest{
		ClusterId: quorumtest.ClusterID, BrokerId: 99, MetadataOffset: int64(im.Offset()), Chain: uint64(im.Chain()),
	})
	if err != nil {
		t.Fatal(err)
	}
	var parts bytes.Buffer
	for im.Offset() < to {
		frame, err := stream.Recv()
		if err != nil {
			t.Fatalf("at offset %d of %d: %v", im.Offset(), to, err)
		}
		switch f := frame.GetFrame().(type) {
		case *controllerpb.FollowFrame_Snapshot:
			parts.Write(f.Snapshot.GetData())
			if f.Snapshot.GetLast() {
				snapshots++
				if _, im, err = snapshot.Read(&parts); err != nil {
					t.Fatal(err)
				}
			}
		case *controllerpb.FollowFrame_Entry:
			entries++
			im = replay(t, im, f.Entry)
		}
	}
	return im, snapshots, entries
}

func replay(t *testing.T, im *image.Image, frame *controllerpb.EntryFrame) *image.Image {
	t.Helper()
	entry, err := record.DecodeEntry(frame.GetEntry())
	if err != nil {
		t.Fatal(err)
	}
	if image.MetadataOffset(entry.GetBaseOffset()) != im.Offset()+1 || image.Chain(entry.GetChain()) != im.Chain() {
		t.Fatalf("entry at %d after chain %016x does not continue %d %s", entry.GetBaseOffset(), entry.GetChain(), im.Offset(), im.Chain())
	}
	delta, offset := im.Fork(), im.Offset()
	for _, d := range entry.GetDecisions() {
		for _, r := range d.GetRecords() {
			offset++
			if err := delta.Replay(offset, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return delta.Seal(offset, image.Chain(frame.GetChain()))
}

func offsetOf(m *quorumtest.Member) image.MetadataOffset {
	return image.MetadataOffset(m.Node.Status().GetMetadataOffset())
}

// Any controller feeds a follower, from any position, to the image that it holds itself.
func TestStreamLeadsToTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "first", 3, 1)
		c.SameImages(t)
		at, _, _ := tail(t, c, c.Members[0], image.Empty(), offsetOf(c.Members[0]))
		c.CreateTopic(t, "second", 3, 1)
		c.SameImages(t)
		for _, m := range c.Members {
			im, snapshots, entries := tail(t, c, m, at, offsetOf(m))
			if snapshots != 0 || entries == 0 {
				t.Errorf("controller %d sent %d snapshots and %d entries for what is at hand", m.ID, snapshots, entries)
			}
			if _, ok := im.TopicByName("second"); !ok || uint64(im.Chain()) != m.Node.Status().GetChain() {
				t.Errorf("controller %d led to %v", m.ID, im)
			}
		}
	})
}

// A follower that is further behind than the log reaches gets a snapshot, and then goes on with entries.
func TestStreamSendsASnapshotBehindTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1, Configure: func(cfg *quorum.Config) {
			cfg.SnapshotEntries, cfg.TrailingEntries = 10, 2
		}})
		c.RegisterBroker(t, 1)
		for i := range 20 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), 1, 1)
		}
		<-time.After(10 * time.Second) // several snapshot intervals
		m := c.Members[0]
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Run(t, m)
		c.Active(t)
		c.CreateTopic(t, "after", 1, 1)
		im, snapshots, _ := tail(t, c, m, image.Empty(), offsetOf(m))
		if snapshots != 1 || im.TopicCount() != 21 || uint64(im.Chain()) != m.Node.Status().GetChain() {
			t.Errorf("%d snapshots led to %d topics, chain %s", snapshots, im.TopicCount(), im.Chain())
		}
	})
}

// Equal offset and unequal chain is an alarm, not a position to go on from.
func TestStreamRefusesAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		m := c.Active(t)
		ctx := soon(t)
		stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, m)).Follow(ctx, &controllerpb.FollowRequest{
			ClusterId: quorumtest.ClusterID, MetadataOffset: int64(offsetOf(m)), Chain: 12345,
		})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.DataLoss || m.Node.Metrics().ChainMismatches.Load() == 0 {
			t.Errorf("ended with %v, %d mismatches counted", err, m.Node.Metrics().ChainMismatches.Load())
		}
	})
}

// A subscriber that takes nothing holds up nobody.
func TestSlowSubscriberHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		m := c.Active(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 20 {
			stream, err := controllerpb.NewMetadataStreamClient(c.Conn(t, m)).Follow(ctx, &controllerpb.FollowRequest{ClusterId: quorumtest.ClusterID, MetadataOffset: -1})
			if err == nil {
				_, err = stream.Recv() // its first position, and nothing after it
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			c.CreateTopic(t, fmt.Sprintf("wide-%d", i), 100, 1)
		}
		if got := m.Node.Metrics().StreamsOpen.Load(); got != 20 {
			t.Errorf("%d streams open, want 20", got)
		}
	})
}

// An idle stream tells its position, and a broker of another cluster gets none.
func TestIdleStreamTellsItsPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		m := c.Active(t)
		api := controllerpb.NewMetadataStreamClient(c.Conn(t, m))
		stream, err := api.Follow(soon(t), &controllerpb.FollowRequest{ClusterId: quorumtest.ClusterID, MetadataOffset: -1})
		if err != nil {
			t.Fatal(err)
		}
		positions := 0
		for begun := time.Now(); time.Since(begun) < time.Second; {
			frame, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if p := frame.GetPosition(); p != nil {
				positions++
				if p.GetActiveController().GetNodeId() != int32(m.ID) {
					t.Errorf("position names %v", p.GetActiveController())
				}
			}
		}
		if positions < 8 {
			t.Errorf("%d positions in a second, want about 10", positions)
		}
		stream, err = api.Follow(soon(t), &controllerpb.FollowRequest{ClusterId: "another", MetadataOffset: -1})
		if err == nil {
			_, err = stream.Recv()
		}
		if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID) {
			t.Errorf("another cluster's broker got %v", err)
		}
	})
}
