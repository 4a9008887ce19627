package broker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

const controllerAddress = "controller:9192"

// fakeQuorum is a controller that decides just enough: registrations, fencing, ISR changes, hand-over at a shutdown.
type fakeQuorum struct {
	controllerpb.UnimplementedBrokerApiServer
	controllerpb.UnimplementedOperatorApiServer
	controllerpb.UnimplementedReaderApiServer
	controllerpb.UnimplementedMetadataStreamServer
	t    testing.TB
	grpc *grpc.Server
	stop context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	log     *metadataLog
	im      *image.Image
	changed chan struct{}
	// refused makes registrations fail while it is set; held keeps brokers from stopping.
	refused       controllerpb.ErrorCode
	held          bool
	amendsRefused controllerpb.ErrorCode
	registrations []*controllerpb.RegisterBrokerRequest
	reports       []*controllerpb.ReportDeletionsRequest
	lastHeartbeat map[int32]*controllerpb.BrokerHeartbeatRequest
}

// startQuorum runs the controller on a network of its own. Both end with the test.
func startQuorum(t testing.TB) (*envtest.Network, *fakeQuorum) {
	t.Helper()
	network := envtest.NewNetwork()
	t.Cleanup(network.Close)
	ctx, cancel := context.WithCancel(context.Background())
	q := &fakeQuorum{
		t: t, grpc: grpc.NewServer(append(client.ServerOptions(nil), grpc.WaitForHandlers(true))...), stop: ctx, end: cancel,
		log: newMetadataLog(), im: image.Empty(), changed: make(chan struct{}), lastHeartbeat: map[int32]*controllerpb.BrokerHeartbeatRequest{},
	}
	controllerpb.RegisterBrokerApiServer(q.grpc, q)
	controllerpb.RegisterOperatorApiServer(q.grpc, q)
	controllerpb.RegisterReaderApiServer(q.grpc, q)
	controllerpb.RegisterMetadataStreamServer(q.grpc, q)
	ln, err := network.Host("controller").Listen(ctx, controllerAddress)
	if err != nil {
		t.Fatal(err)
	}
	q.wg.Go(func() { _ = q.grpc.Serve(ln) })
	t.Cleanup(q.close)
	return network, q
}

// startCluster runs it with broker 1 on the directory, and waits until that one is ready.
func startCluster(t testing.TB, dir string) (*envtest.Network, *fakeQuorum, *testBroker) {
	t.Helper()
	network, q := startQuorum(t)
	b := startBroker(t, network, 1, dir)
	awaitReady(t, b)
	return network, q, b
}

func (q *fakeQuorum) close() {
	q.end()
	q.grpc.Stop()
	q.wg.Wait()
}

// put commits records; it returns the offset of the last one.
func (q *fakeQuorum) put(records ...*metadatapb.Record) image.MetadataOffset {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.putLocked(records...)
}

func (q *fakeQuorum) putLocked(records ...*metadatapb.Record) image.MetadataOffset {
	if len(records) == 0 {
		return q.im.Offset()
	}
	next, err := replayEntry(q.im, q.log.append(q.t, records...))
	if err != nil {
		panic(err)
	}
	q.im = next
	close(q.changed)
	q.changed = make(chan struct{})
	return next.Offset()
}

func (q *fakeQuorum) image() *image.Image {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.im
}

// refuse makes registrations fail with a code; 0 ends that.
func (q *fakeQuorum) refuse(code controllerpb.ErrorCode) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = code
}

// refuseAmends makes registrations of a life that is registered already fail with a code; 0 ends that.
func (q *fakeQuorum) refuseAmends(code controllerpb.ErrorCode) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.amendsRefused = code
}

func (q *fakeQuorum) hold(held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = held
}

// registration is the newest one of a broker.
func (q *fakeQuorum) registration(id int32) *controllerpb.RegisterBrokerRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range slices.Backward(q.registrations) {
		if r.BrokerId == id {
			return r
		}
	}
	return nil
}

// reset forgets the log, as a controller formatted anew.
func (q *fakeQuorum) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log, q.im = newMetadataLog(), image.Empty()
}

func (q *fakeQuorum) active() *controllerpb.ActiveController {
	return &controllerpb.ActiveController{NodeId: 1001, Address: controllerAddress, ControllerEpoch: 1}
}

func (q *fakeQuorum) NodeStatus(context.Context, *controllerpb.NodeStatusRequest) (*controllerpb.NodeStatusResponse, error) {
	return &controllerpb.NodeStatusResponse{ClusterId: "test", NodeId: 1001, State: "leader", ActiveController: q.active()}, nil
}

func (q *fakeQuorum) Follow(r *controllerpb.FollowRequest, stream grpc.ServerStreamingServer[controllerpb.FollowFrame]) error {
	at := r.MetadataOffset
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	first := true
	for {
		q.mu.Lock()
		changed, position := q.changed, positionFrame(q.log.offset, uint64(q.log.chain), q.active())
		var frames []*controllerpb.FollowFrame
		for _, e := range q.log.entries {
			if e.BaseOffset > at {
				frames = append(frames, entryFrame(e))
			}
		}
		at = q.log.offset
		q.mu.Unlock()
		if first || len(frames) == 0 {
			frames = slices.Insert(frames, 0, position)
			first = false
		}
		for _, f := range frames {
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		case <-q.stop.Done():
			return nil
		}
	}
}

func refusalOf(d *controllerpb.RefusalDetail) error {
	return client.RefusalStatus(codes.FailedPrecondition, d).Err()
}

func (q *fakeQuorum) RegisterBroker(_ context.Context, r *controllerpb.RegisterBrokerRequest) (*controllerpb.RegisterBrokerResponse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.registrations = append(q.registrations, r)
	if q.refused != 0 {
		return nil, refusalOf(&controllerpb.RefusalDetail{Error: controllerpb.NewError(q.refused, "refused by the test")})
	}
	offset := int64(q.im.Offset()) + 1
	epoch := offset
	if old, ok := q.im.Broker(image.BrokerID(r.BrokerId)); ok && slices.Equal(old.IncarnationID.Bytes(), r.IncarnationId) {
		if q.amendsRefused != 0 {
			return nil, refusalOf(&controllerpb.RefusalDetail{Error: controllerpb.NewError(q.amendsRefused, "refused by the test")})
		}
		epoch = int64(old.Epoch)
		offset = int64(q.disown(r)) + 1
	}
	q.putLocked(&metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
		BrokerId: r.BrokerId, IncarnationId: r.IncarnationId, DirectoryId: r.DirectoryId, Listeners: r.Listeners, Features: r.Features,
		BrokerEpoch: epoch, RegistrationOffset: offset, Fenced: true, StopKind: r.StopKind,
	}}})
	return &controllerpb.RegisterBrokerResponse{BrokerEpoch: epoch, RegistrationOffset: offset}, nil
}

// disown takes the replicas that a life names as lost out of their ISRs.
func (q *fakeQuorum) disown(r *controllerpb.RegisterBrokerRequest) image.MetadataOffset {
	var records []*metadatapb.Record
	for _, l := range r.LostReplicas {
		for _, partition := range l.Partitions {
			id := image.PartitionID{Topic: image.TopicID(l.TopicId), Partition: partition}
			p, _ := q.im.Partition(id)
			records = append(records, change(id, &metadatapb.PartitionChange{Isr: idList(image.Without(p.ISR, image.BrokerID(r.BrokerId)))}))
		}
	}
	return q.putLocked(records...)
}

func (q *fakeQuorum) BrokerHeartbeat(_ context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastHeartbeat[r.BrokerId] = r
	b, ok := q.im.Broker(image.BrokerID(r.BrokerId))
	if !ok || int64(b.Epoch) != r.BrokerEpoch {
		return nil, refusalOf(&controllerpb.RefusalDetail{Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH, "stale")})
	}
	caughtUp := image.MetadataOffset(r.MetadataOffset) >= b.RegistrationOffset
	switch {
	case r.WantShutDown && !b.Fenced:
		q.handOver(b)
	case b.Fenced && !r.WantFence && !r.WantShutDown && caughtUp:
		q.fence(b, false)
	}
	b, _ = q.im.Broker(b.ID)
	return &controllerpb.BrokerHeartbeatResponse{
		IsCaughtUp: caughtUp, IsFenced: b.Fenced, ShouldShutDown: r.WantShutDown && b.Fenced && !q.held,
		CommittedOffset: int64(q.im.Offset()), ActiveController: q.active(),
	}, nil
}

func (q *fakeQuorum) fence(b image.Broker, fenced bool) {
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{
		BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), Fenced: &fenced,
	}}}}
	if !fenced { // elect it where nobody leads and it is in the ISR
		for id, p := range q.im.Leaderless() {
			if image.Contains(p.ISR, b.ID) {
				leader := int32(b.ID)
				records = append(records, change(id, &metadatapb.PartitionChange{Leader: &metadatapb.LeaderChange{Leader: &leader}}))
			}
		}
	}
	q.putLocked(records...)
}

// handOver takes a broker out of service in one decision.
func (q *fakeQuorum) handOver(b image.Broker) {
	var records []*metadatapb.Record
	for id, p := range q.im.PartitionsWithISR(b.ID) {
		rest := image.Without(p.ISR, b.ID)
		c := &metadatapb.PartitionChange{}
		if len(rest) > 0 {
			c.Isr = idList(rest)
		}
		if p.Leader == b.ID {
			c.Leader = &metadatapb.LeaderChange{}
			if len(rest) > 0 {
				leader := int32(rest[0])
				c.Leader.Leader = &leader
			}
		}
		records = append(records, change(id, c))
	}
	q.putLocked(records...)
	q.fence(b, true)
}

func change(id image.PartitionID, c *metadatapb.PartitionChange) *metadatapb.Record {
	c.TopicId, c.Partition = id.Topic.Bytes(), id.Partition
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

func idList(ids []image.BrokerID) *metadatapb.BrokerIds {
	l := &metadatapb.BrokerIds{}
	for _, id := range ids {
		l.Ids = append(l.Ids, int32(id))
	}
	return l
}

func (q *fakeQuorum) AlterPartition(_ context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := &controllerpb.AlterPartitionResponse{}
	for _, t := range r.Topics {
		result := &controllerpb.AlterPartitionTopicResult{TopicId: t.TopicId}
		for _, item := range t.Partitions {
			id := image.PartitionID{Topic: image.TopicID(t.TopicId), Partition: item.Partition}
			p, _ := q.im.Partition(id)
			answer := &controllerpb.AlterPartitionResult{Partition: item.Partition}
			if int32(p.PartitionEpoch) != item.PartitionEpoch || int32(p.LeaderEpoch) != item.LeaderEpoch {
				answer.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, "stale")
				result.Partitions = append(result.Partitions, answer)
				continue
			}
			isr := &metadatapb.BrokerIds{}
			for _, m := range item.Isr {
				isr.Ids = append(isr.Ids, m.BrokerId)
			}
			q.putLocked(change(id, &metadatapb.PartitionChange{Isr: isr}))
			leader := int32(p.Leader)
			answer.Leader, answer.LeaderEpoch, answer.PartitionEpoch, answer.Isr = &leader, item.LeaderEpoch, item.PartitionEpoch+1, isr.Ids
			answer.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
			result.Partitions = append(result.Partitions, answer)
		}
		out.Topics = append(out.Topics, result)
	}
	out.MetadataOffset = int64(q.im.Offset())
	return out, nil
}

func (q *fakeQuorum) AllocateProducerIds(_ context.Context, r *controllerpb.AllocateProducerIdsRequest) (*controllerpb.AllocateProducerIdsResponse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.im.NextProducerID()
	q.putLocked(&metadatapb.Record{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{
		BrokerId: r.BrokerId, BrokerEpoch: r.BrokerEpoch, NextProducerId: first + 1000,
	}}})
	return &controllerpb.AllocateProducerIdsResponse{FirstProducerId: first, Count: 1000}, nil
}

func (q *fakeQuorum) ReportDeletions(_ context.Context, r *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reports = append(q.reports, r)
	if len(r.Deleted) > 0 {
		q.putLocked(&metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
			BrokerId: r.BrokerId, TopicIds: r.Deleted,
		}}})
	}
	return &controllerpb.ReportDeletionsResponse{MetadataOffset: int64(q.im.Offset())}, nil
}

// testBroker is a broker under test and its end.
type testBroker struct {
	*Broker
	ended chan error
	stop  context.CancelFunc
}

// startBroker runs a broker of the test cluster on the directory.
func startBroker(t testing.TB, network *envtest.Network, id image.BrokerID, dir string, with ...func(*Config, *env.Env)) *testBroker {
	t.Helper()
	host := fmt.Sprintf("b%d", id)
	e := env.OS("")
	e.Network = network.Host(host)
	cfg := DefaultConfig()
	cfg.ClusterID, cfg.ID, cfg.DirectoryID, cfg.LogDir = "test", id, image.UUID{3: byte(id) + 1}, dir
	cfg.KafkaAddress, cfg.GRPCAddress = host+":9092", host+":9193"
	cfg.Listeners = []image.Listener{{Name: "KAFKA", Host: host, Port: 9092}, {Name: "GRPC", Host: host, Port: 9193}}
	cfg.Controllers = []string{controllerAddress}
	for _, w := range with {
		w(&cfg, e)
	}
	b, err := New(cfg, e, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tb := &testBroker{Broker: b, ended: make(chan error, 1), stop: cancel}
	go func() { tb.ended <- b.Run(ctx) }()
	return tb
}

func (tb *testBroker) end(t testing.TB) {
	t.Helper()
	tb.stop()
	if err := <-tb.ended; err != nil {
		t.Errorf("broker %v: %v", tb.cfg.ID, err)
	}
}

// eventually waits, in the bubble's time, until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 600 {
		if holds() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("30 s have passed without: %s", what)
}

// awaitReady waits until brokers are ready.
func awaitReady(t testing.TB, brokers ...*testBroker) {
	t.Helper()
	for _, b := range brokers {
		eventually(t, fmt.Sprintf("broker %v is ready", b.cfg.ID), func() bool { ok, _ := b.Ready(); return ok })
	}
}

// awaitLeads waits until the broker leads a partition.
func (tb *testBroker) awaitLeads(t testing.TB, id image.PartitionID) *hostedReplica {
	t.Helper()
	var r *hostedReplica
	eventually(t, fmt.Sprintf("broker %v leads %v", tb.cfg.ID, id), func() (leads bool) {
		var err error
		r, err = tb.replicas.get(id)
		return err == nil && r.leads()
	})
	return r
}
