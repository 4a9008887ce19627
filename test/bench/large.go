package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/quorumtest"
	"github.com/quorate/quorate/quorum/raftnode"
	"github.com/quorate/quorate/test/cluster"
)

const (
	// largeSession and largeHeartbeat are a session and a beat of the large quorum, short so that rounds are.
	largeSession   = 4 * time.Second
	largeHeartbeat = time.Second
	// followWait bounds what a follower is waited for.
	followWait = time.Minute
	// snapshotBuffer is the size of writes to a snapshot.
	snapshotBuffer = 256 << 10
	// probePause lies between two heartbeats that are timed.
	probePause = 2 * time.Millisecond
)

// plant puts an image into the Raft directory of a node that was formatted and has not run, as a snapshot that covers the
// entry with the initial configuration and nothing else. The node starts from it as from one that it took.
func plant(dir, clusterID string, im *image.Image) error {
	made, err := raftnode.OpenOffline(env.OS(""), dir)
	if err != nil {
		return err
	}
	configuration := made.Configuration
	if err := made.Close(); err != nil {
		return err
	}
	var servers raft.Configuration
	for _, s := range configuration.Servers {
		servers.Servers = append(servers.Servers, raft.Server{ID: s.ID.Raft(), Address: raft.ServerAddress(s.Address)})
	}
	store, err := raft.NewFileSnapshotStore(dir, 2, io.Discard)
	if err != nil {
		return err
	}
	_, transport := raft.NewInmemTransport("")
	const index, term = 1, 1 // those of the entry that formatting writes
	sink, err := store.Create(1, index, term, servers, configuration.Index, transport)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(sink, snapshotBuffer)
	err = snapshot.Write(w, &metadatapb.SnapshotHeader{ClusterId: clusterID, RaftIndex: index, TimeMs: time.Now().UnixMilli()}, im)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Large is a quorum of three processes, with real files, over 2,000,000 partitions. Its 100 brokers beat from this process.
type Large struct {
	// Brokers are by id.
	Brokers []*quorumtest.Broker
	// Follower is fed by a controller's stream as a broker is.
	Follower *Follower

	clusterID   string
	controllers *client.Client
	bare        *Bare
}

// StartLarge starts it, and bare Raft beside it.
func StartLarge(b *testing.B) *Large {
	b.Helper()
	im := TwoMillion.mustBuild(b)
	l := &Large{}
	var addresses []string
	for _, s := range cluster.NewControllers(b, 3) {
		startLarge(b, s, im)
		l.clusterID, addresses = s.ClusterID, append(addresses, s.GRPC)
	}
	var err error
	l.controllers, err = client.New(client.Config{Network: env.OS("").Network, Controllers: addresses, ClusterID: l.clusterID})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.controllers.Close() })
	quorum := &quorumtest.Cluster{Client: l.controllers}
	var begun sync.WaitGroup // all at once: the sessions have begun with the claim
	for broker := range im.Brokers() {
		beats := quorum.NewBroker(int32(broker.ID), 0)
		beats.Epoch = int64(broker.Epoch)
		begun.Go(func() { beats.Beat(b) })
		l.Brokers = append(l.Brokers, beats)
	}
	if begun.Wait(); b.Failed() {
		b.FailNow()
	}
	l.Follower = l.follow(b, im)
	if l.bare, err = OpenBare(b.TempDir()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.bare.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// startLarge formats a controller, gives it the image, and starts it.
func startLarge(b *testing.B, s *cluster.Solo, im *image.Image) {
	b.Helper()
	if _, errs, code := cluster.Run(b, s.Format()...); code != 0 {
		b.Fatalf("format: exit %d: %s", code, errs)
	}
	if err := plant(filepath.Join(s.DataDir, "raft"), s.ClusterID, im); err != nil {
		b.Fatal(err)
	}
	appendTo(b, s.Config, fmt.Sprintf("broker.session.timeout.ms=%d\nbroker.heartbeat.interval.ms=%d\n",
		largeSession.Milliseconds(), largeHeartbeat.Milliseconds()))
	log, err := os.Create(filepath.Join(s.Dir, "server.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close() // the process has its own
	s.Start(b, log)
}

func appendTo(b *testing.B, path, text string) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		if closing := f.Close(); err == nil {
			err = closing
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// commitBare commits entries of the same sizes by bare Raft, in milliseconds until the last one.
func (l *Large) commitBare(b *testing.B, sizes []int) float64 {
	b.Helper()
	leader, err := l.bare.Leader()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	var proposals []*raftnode.Proposal
	for _, size := range sizes {
		proposals = append(proposals, leader.Apply(make([]byte, size)))
	}
	for _, p := range proposals {
		if out := p.Wait(); out.Fate != raftnode.FateApplied {
			b.Fatalf("bare raft: %v: %v", out.Fate, out.Err)
		}
	}
	return milliseconds(time.Since(began))
}

// probe beats for a broker without a pause worth the name until stop is closed, and gives the longest wait for an answer. One
// that is refused because it waited is sent again, and goes on waiting.
func (l *Large) probe(broker *quorumtest.Broker, stop <-chan struct{}) (longest time.Duration) {
	pause := time.NewTicker(probePause)
	defer pause.Stop()
	for {
		sent := time.Now()
		for {
			if _, err := broker.Heartbeat(false); err == nil {
				break
			}
		}
		longest = max(longest, time.Since(sent))
		select {
		case <-stop:
			return longest
		case <-pause.C:
		}
	}
}

// Follower holds the image that a controller's stream leads to, applied entry by entry.
type Follower struct {
	mu      sync.Mutex
	image   *image.Image
	sizes   []int // of the entries since Forget
	err     error
	changed chan struct{}
}

// follow begins a stream at an image.
func (l *Large) follow(b *testing.B, im *image.Image) *Follower {
	b.Helper()
	f := &Follower{image: im, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := l.stream(ctx, &controllerpb.FollowRequest{
		ClusterId: l.clusterID, BrokerId: 0, MetadataOffset: int64(im.Offset()), Chain: uint64(im.Chain()),
	})
	if err != nil {
		cancel()
		b.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { f.run(stream.Recv) })
	b.Cleanup(func() { cancel(); done.Wait() })
	return f
}

// stream opens a stream from the active controller.
func (l *Large) stream(ctx context.Context, r *controllerpb.FollowRequest) (grpc.ServerStreamingClient[controllerpb.FollowFrame], error) {
	active, ok := l.controllers.Cached()
	if !ok {
		return nil, errors.New("bench: the client knows no active controller")
	}
	conn, err := l.controllers.Conn(active.Address)
	if err != nil {
		return nil, err
	}
	return controllerpb.NewMetadataStreamClient(conn).Follow(ctx, r)
}

func (f *Follower) run(receive func() (*controllerpb.FollowFrame, error)) {
	for im := f.image; ; {
		frame, err := receive()
		entry := frame.GetEntry()
		if err == nil && entry == nil {
			continue // a position
		}
		if err == nil {
			im, err = applyFrame(im, entry)
		}
		f.mu.Lock()
		f.image, f.err, f.sizes = im, err, append(f.sizes, len(entry.GetEntry()))
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// applyFrame does what a broker does with an entry.
func applyFrame(at *image.Image, frame *controllerpb.EntryFrame) (*image.Image, error) {
	entry, err := record.ScanEntry(frame.GetEntry())
	if err != nil {
		return at, err
	}
	if entry.BaseOffset != at.Offset()+1 {
		return at, fmt.Errorf("bench: entry at offset %d, the image ends at %d", entry.BaseOffset, at.Offset())
	}
	d := at.Fork()
	if err := d.ReplayEntry(entry); err != nil {
		return at, err
	}
	return d.Seal(entry.LastOffset(), image.Chain(frame.GetChain())), nil
}

// Forget begins to count entries anew.
func (f *Follower) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes = nil
}

// Until waits for an image of which ok holds, and returns it with the sizes of the entries since Forget.
func (f *Follower) Until(ok func(*image.Image) bool) (*image.Image, []int, error) {
	limit := time.NewTimer(followWait)
	defer limit.Stop()
	for {
		f.mu.Lock()
		im, sizes, err, changed := f.image, f.sizes, f.err, f.changed
		f.mu.Unlock()
		switch {
		case ok(im):
			return im, sizes, nil
		case err != nil:
			return im, nil, err
		}
		select {
		case <-changed:
		case <-limit.C:
			return im, nil, fmt.Errorf("bench: the follower stands at offset %d after %v", im.Offset(), followWait)
		}
	}
}
