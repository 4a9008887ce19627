package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/test/invariant"
)

// streamSilence is after how long a silent stream is given up, as a broker does.
const streamSilence = time.Second

// observerID is the broker id that an observer names; it never registers.
const observerID = 1 << 20

// Observer follows the metadata log as a broker would, and holds every invariant against each record.
type Observer struct {
	cluster *Cluster
	done    sync.WaitGroup

	mu       sync.Mutex
	image    *image.Image
	leaders  map[leadership]image.BrokerID
	records  int
	switches int
	broken   []string
}

// leadership names one leader epoch of a partition.
type leadership struct {
	partition image.PartitionID
	epoch     image.LeaderEpoch
}

// Observe starts an observer, which ends with the test.
func Observe(t testing.TB, c *Cluster) *Observer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{cluster: c, image: image.Empty(), leaders: map[leadership]image.BrokerID{}}
	o.done.Go(func() { o.run(ctx) })
	t.Cleanup(func() { cancel(); o.done.Wait() })
	return o
}

// Check fails the test with what the observer has seen break.
func (o *Observer) Check(t testing.TB) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.broken {
		t.Errorf("observer: %s", b)
	}
	o.broken = nil
}

// String tells how much was observed.
func (o *Observer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d records up to offset %d, %d leaderships, %d changes of controller",
		o.records, o.image.Offset(), len(o.leaders), o.switches)
}

func (o *Observer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		o.follow(ctx, o.cluster.Controllers[n%len(o.cluster.Controllers)])
		o.mu.Lock()
		o.switches++
		o.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// follow reads one controller's stream until it ends or is silent.
func (o *Observer) follow(ctx context.Context, address string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			return (&net.Dialer{Timeout: streamSilence}).DialContext(ctx, "tcp", a)
		}))
	if err != nil {
		return
	}
	defer conn.Close()
	o.mu.Lock()
	at := o.image
	o.mu.Unlock()
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	stream, err := controllerpb.NewMetadataStreamClient(conn).Follow(ctx, &controllerpb.FollowRequest{
		ClusterId: o.cluster.ClusterID, BrokerId: observerID, MetadataOffset: int64(at.Offset()), Chain: uint64(at.Chain()),
	})
	if err != nil {
		return
	}
	var snap bytes.Buffer
	for {
		frame, err := stream.Recv()
		if err != nil {
			return
		}
		silence.Reset(streamSilence)
		switch f := frame.GetFrame().(type) {
		case *controllerpb.FollowFrame_Snapshot:
			snap.Write(f.Snapshot.GetData())
			if f.Snapshot.GetLast() {
				o.onSnapshot(&snap)
				snap.Reset()
			}
		case *controllerpb.FollowFrame_Entry:
			if !o.onEntry(address, f.Entry) {
				return
			}
		case *controllerpb.FollowFrame_Position:
			o.onPosition(address, f.Position)
		}
	}
}

func (o *Observer) breaks(format string, args ...any) {
	o.broken = append(o.broken, fmt.Sprintf(format, args...))
}

func (o *Observer) onSnapshot(data *bytes.Buffer) {
	_, im, err := snapshot.Read(data)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.breaks("snapshot: %v", err)
		return
	}
	if im.Offset() < o.image.Offset() {
		return // from a standby that is behind
	}
	if err := invariant.EpochsMonotonic(o.image, im); err != nil {
		o.breaks("snapshot at %d: %v", im.Offset(), err)
	}
	o.image = im
}

// onEntry replays an entry record by record and holds the invariants against each step.
func (o *Observer) onEntry(address string, e *controllerpb.EntryFrame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	base := image.MetadataOffset(e.GetBaseOffset())
	if base <= o.image.Offset() {
		return true // seen before, from another controller
	}
	if base != o.image.Offset()+1 {
		o.breaks("%s: entry at %d does not go on from %d", address, base, o.image.Offset())
		return false
	}
	entry, err := record.DecodeEntry(e.GetEntry())
	if err != nil {
		o.breaks("%s: entry at %d: %v", address, base, err)
		return false
	}
	if image.Chain(entry.GetChain()) != o.image.Chain() {
		o.breaks("%s: at offset %d the chain is %s, the stream's %016x", address, o.image.Offset(), o.image.Chain(), entry.GetChain())
		return false
	}
	for _, d := range entry.GetDecisions() {
		for _, r := range d.GetRecords() {
			delta := o.image.Fork()
			offset := o.image.Offset() + 1
			if err := delta.Replay(offset, r); err != nil {
				o.breaks("record %d %s: %v", offset, record.String(r), err)
				return false
			}
			next := delta.Seal(offset, o.image.Chain())
			o.records++
			o.check(next, offset, record.String(r))
			for _, id := range delta.Partitions() {
				o.noteLeader(next, id)
			}
			o.image = next
		}
	}
	o.image = o.image.Fork().Seal(o.image.Offset(), image.Chain(e.GetChain()))
	return true
}

func (o *Observer) check(next *image.Image, offset image.MetadataOffset, line string) {
	if err := invariant.Step(o.image, next); err != nil {
		o.breaks("record %d %s: %v", offset, line, err)
	}
	if err := invariant.Image(next); err != nil {
		o.breaks("after record %d %s: %v", offset, line, err)
	}
}

// noteLeader holds that a leader epoch has one leader for ever.
func (o *Observer) noteLeader(im *image.Image, id image.PartitionID) {
	p, ok := im.Partition(id)
	if !ok {
		return
	}
	key := leadership{partition: id, epoch: p.LeaderEpoch}
	if was, known := o.leaders[key]; known && was != p.Leader {
		o.breaks("%s leader epoch %d had leader %d, now %d", id, p.LeaderEpoch, was, p.Leader)
	}
	o.leaders[key] = p.Leader
}

func (o *Observer) onPosition(address string, p *controllerpb.StreamPosition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.GetMetadataOffset() == int64(o.image.Offset()) && p.GetChain() != uint64(o.image.Chain()) {
		o.breaks("%s: at offset %d the chain is %016x, ours %s", address, p.GetMetadataOffset(), p.GetChain(), o.image.Chain())
	}
}
