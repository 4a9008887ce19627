package replica_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pid(p int32) image.PartitionID { return image.PartitionID{Topic: image.UUID{7}, Partition: p} }

// hosted is a partition at the leader. Its watermark is where its one follower stands.
type hosted struct {
	log   *memLog
	epoch image.LeaderEpoch
	// refuse is what reads are refused with, one each; the last one stays if sticky.
	refuse []controllerpb.ErrorCode
	sticky bool
}

// leader is a broker that leads partitions.
type leader struct {
	id     image.BrokerID
	server *replica.Server
	grpc   *grpc.Server
	served chan error

	mu         sync.Mutex
	partitions map[image.PartitionID]*hosted
	reads      []string // partition@offset of reads that counted
	readings   int
	epochs     []image.BrokerEpoch
}

func (l *leader) ReadForReplica(id image.PartitionID, r replica.ReadRequest) (out replica.ReadResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readings++
	refuse := func(c controllerpb.ErrorCode) replica.ReadResult {
		out.Error = controllerpb.NewError(c, "refused")
		return out
	}
	p := l.partitions[id]
	if p == nil {
		return refuse(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION)
	}
	if len(p.refuse) > 0 {
		code := p.refuse[0]
		if !p.sticky {
			p.refuse = p.refuse[1:]
		}
		return refuse(code)
	}
	switch {
	case r.LeaderEpoch < p.epoch:
		return refuse(controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH)
	case r.LeaderEpoch > p.epoch:
		return refuse(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH)
	}
	out.LogStartOffset, out.HighWatermark, out.LogEndOffset = p.log.Offsets()
	judged, end := partition.JudgePosition(p.log, r.LastFetchedEpoch, r.FetchOffset, out.LogStartOffset)
	if judged == partition.Diverging {
		out.Diverging = &end
		return out
	}
	if judged == partition.OutOfRange || r.FetchOffset < out.LogStartOffset || r.FetchOffset > out.LogEndOffset {
		return refuse(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE)
	}
	out.Records = p.log.read(r.FetchOffset, r.BytesMax, r.OneBatch)
	if r.Counts {
		l.reads = append(l.reads, fmt.Sprintf("%d@%d", id.Partition, r.FetchOffset))
		l.epochs = append(l.epochs, r.BrokerEpoch)
		if r.FetchOffset > out.HighWatermark {
			p.log.FollowHighWatermark(r.FetchOffset)
			l.server.Notify(id)
		}
	}
	return out
}

// write appends records to a partition and tells the server.
func (l *leader) write(id image.PartitionID, n, padding int) {
	l.mu.Lock()
	p := l.partitions[id]
	p.log.write(p.epoch, n, padding)
	l.mu.Unlock()
	l.server.Notify(id)
}

func (l *leader) readingsSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readings
}

func (l *leader) takeReads() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.reads
	l.reads = nil
	return out
}

// rig is one leader, one follower and the network between them.
type rig struct {
	t       *testing.T
	network *envtest.Network
	leader  *leader
	manager *replica.Manager
	start   time.Time
	logs    map[int32]*memLog // the follower's
	epoch   image.BrokerEpoch

	cancel  context.CancelFunc
	stopped chan struct{}
}

type tune struct {
	server func(*replica.ServerConfig)
	client func(*replica.Config)
}

const leaderAddress = "n1:9000"

// bubble runs a test with a rig inside a synctest bubble, in which time passes only when everybody waits.
func bubble(t *testing.T, with tune, test func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, network: envtest.NewNetwork(), start: time.Now(), logs: map[int32]*memLog{}, epoch: 102, stopped: make(chan struct{})}
		r.leader = r.serve("n1", leaderAddress, 1, with.server)
		cfg := replica.DefaultConfig(2, func() image.BrokerEpoch { return r.epoch })
		if with.client != nil {
			with.client(&cfg)
		}
		var err error
		r.manager, err = replica.NewManager(cfg, replica.GRPC(r.network.Host("n2"), nil), envtest.NewClock(), quiet())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.cancel = cancel
		go func() {
			defer close(r.stopped)
			r.manager.Run(ctx)
		}()
		test(r)
		r.stop()
		r.leader.close()
		r.network.Close()
	})
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func (r *rig) stop() {
	r.cancel()
	<-r.stopped
}

func (r *rig) serve(host, address string, id image.BrokerID, change func(*replica.ServerConfig)) *leader {
	l := &leader{id: id, partitions: map[image.PartitionID]*hosted{}, served: make(chan error, 1)}
	cfg := replica.DefaultServerConfig(id)
	if change != nil {
		change(&cfg)
	}
	var err error
	if l.server, err = replica.NewServer(cfg, l, envtest.NewClock(), quiet()); err != nil {
		r.t.Fatal(err)
	}
	listener, err := r.network.Host(host).Listen(r.t.Context(), address)
	if err != nil {
		r.t.Fatal(err)
	}
	l.grpc = grpc.NewServer(client.ServerOptions(nil)...)
	brokerpb.RegisterReplicaApiServer(l.grpc, l.server)
	go func() { l.served <- l.grpc.Serve(listener) }()
	return l
}

func (l *leader) close() {
	l.server.Close()
	l.grpc.GracefulStop()
	l.server.Wait()
	<-l.served
}

// host makes partitions at the leader, in epoch 1, with that many records each.
func (r *rig) host(records int, partitions ...int32) {
	r.leader.mu.Lock()
	defer r.leader.mu.Unlock()
	for _, p := range partitions {
		l := &memLog{}
		l.lead(1)
		l.write(1, records, 0)
		r.leader.partitions[pid(p)] = &hosted{log: l, epoch: 1}
	}
}

// follow begins to fetch partitions in a leader epoch. The logs are kept from one call to the next.
func (r *rig) follow(epoch image.LeaderEpoch, partitions ...int32) {
	var list []replica.Assignment
	for _, p := range partitions {
		if r.logs[p] == nil {
			r.logs[p] = &memLog{}
		}
		list = append(list, replica.Assignment{Partition: pid(p), Replica: r.logs[p], Leader: 1, Address: leaderAddress, LeaderEpoch: epoch})
	}
	r.manager.Add(list)
}

// after lets the bubble's time pass and everybody finish.
func (r *rig) after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (r *rig) want(p int32, state string) {
	r.t.Helper()
	if got := r.logs[p].String(); got != state {
		r.t.Errorf("after %v partition %d has %s, want %s", time.Since(r.start), p, got, state)
	}
}

func (r *rig) wantStatus(p int32, want replica.Status) {
	r.t.Helper()
	if got := r.manager.Status(pid(p)); got != want {
		r.t.Errorf("after %v partition %d is %v, want %v", time.Since(r.start), p, got, want)
	}
}
