package broker

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
)

// fetcher is both ends of the replica fetches: what this broker follows, and who follows it.
type fetcher struct {
	server  *replica.Server
	manager *replica.Manager
}

func newFetcher(b *Broker) (*fetcher, error) {
	server, err := replica.NewServer(replica.DefaultServerConfig(b.cfg.ID), b.replicas, b.env.Clock, b.log)
	if err != nil {
		return nil, err
	}
	manager, err := replica.NewManager(replica.DefaultConfig(b.cfg.ID, b.epoch), replica.GRPC(b.env.Network, b.cfg.TLS), b.env.Clock, b.log)
	if err != nil {
		return nil, err
	}
	return &fetcher{server: server, manager: manager}, nil
}

// register adds the leader's end to a gRPC server.
func (fe *fetcher) register(r grpc.ServiceRegistrar) { brokerpb.RegisterReplicaApiServer(r, fe.server) }

// changed tells followers' waiting fetches to look at a partition again.
func (fe *fetcher) changed(id image.PartitionID) { fe.server.Notify(id) }

// run fetches until ctx ends.
func (fe *fetcher) run(ctx context.Context) { fe.manager.Run(ctx) }

// remove implements fetches.
func (fe *fetcher) remove(ids []image.PartitionID) { fe.manager.Remove(ids) }

// add implements fetches.
func (fe *fetcher) add(orders []fetchOrder) {
	list := make([]replica.Assignment, len(orders))
	for i, o := range orders {
		list[i] = replica.Assignment{
			Partition: o.replica.id, Replica: followedLog{o.replica, o.epoch},
			Leader: o.leader, Address: o.address, LeaderEpoch: o.epoch,
		}
	}
	fe.manager.Add(list)
}

// stop ends the leader's end.
func (fe *fetcher) stop() { fe.server.Close() }

// errNotFollowing says that a fetch was overtaken: the replica leads, or follows in another leader epoch. It is not a fault.
var errNotFollowing = fmt.Errorf("broker: the replica does not follow in this leader epoch any more: %w", replica.ErrOvertaken)

// followedLog is a log as the fetches of one leader epoch may change it. Each change holds the replica's lock shared, so
// that a step of the metadata comes before or after it and never between its check and its end.
type followedLog struct {
	r     *hostedReplica
	epoch image.LeaderEpoch
}

// change runs a change of the log, if the replica still follows in the epoch.
func (fl followedLog) change(f func(*log.Log) error) error {
	fl.r.mu.RLock()
	defer fl.r.mu.RUnlock()
	if fl.r.st.Role != partition.RoleFollower || fl.r.st.LeaderEpoch != fl.epoch {
		return errNotFollowing
	}
	return f(fl.r.log)
}

// EndOffsetForEpoch implements [partition.Epochs].
func (fl followedLog) EndOffsetForEpoch(epoch image.LeaderEpoch) (partition.EpochEnd, bool) {
	return epochsOf{fl.r.log}.EndOffsetForEpoch(epoch)
}

func (fl followedLog) Offsets() (start, high, end int64) { return fl.r.log.Offsets() }

func (fl followedLog) LatestEpoch() (image.LeaderEpoch, bool) {
	e, ok := fl.r.log.LatestEpoch()
	return e.Epoch, ok
}

func (fl followedLog) TruncateTo(offset int64) (end int64, err error) {
	err = fl.change(func(l *log.Log) error {
		end, err = l.TruncateTo(offset)
		return err
	})
	if err == nil {
		fl.r.deps.changed(fl.r.id)
	}
	return end, err
}

func (fl followedLog) RestartAt(offset int64) error {
	err := fl.change(func(l *log.Log) error { return l.TruncateFullyAndStartAt(offset) })
	if err == nil {
		fl.r.deps.changed(fl.r.id)
	}
	return err
}

func (fl followedLog) AppendAsFollower(records []byte, epoch image.LeaderEpoch) error {
	err := fl.change(func(l *log.Log) error {
		_, err := l.AppendAsFollower(records, epoch)
		return err
	})
	if errors.Is(err, log.ErrCorruptBatch) || errors.Is(err, log.ErrInvalidRecord) {
		return fmt.Errorf("%w: %w", replica.ErrBadRecords, err)
	}
	return err
}

// FollowHighWatermark takes the leader's watermark over; clients that read here look again when it has moved.
func (fl followedLog) FollowHighWatermark(leader int64) {
	moved := false
	_ = fl.change(func(l *log.Log) error {
		before := l.HighWatermark()
		moved = l.FollowHighWatermark(leader) != before
		return nil
	})
	if moved {
		fl.r.deps.changed(fl.r.id)
	}
}

func (fl followedLog) AdvanceLogStart(offset int64) error {
	return fl.change(func(l *log.Log) error { return l.AdvanceLogStart(offset) })
}
