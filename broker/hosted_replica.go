package broker

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// hostedReplica is one hosted partition: its log and the state that decides what may be done with it. Its lock guards the
// state; the log guards itself. Effects are carried out after the lock was released.
type hostedReplica struct {
	id   image.PartitionID
	log  *log.Log
	deps *replicaDeps

	mu sync.RWMutex
	st partition.State
	// ledSince is the leader epoch with which this replica became leader; it has led without a break since then.
	ledSince image.LeaderEpoch
	removed  bool
}

// replicaDeps is what all replicas share. Its functions may be called from any goroutine and never block.
type replicaDeps struct {
	self       image.BrokerID
	lagTimeMax time.Duration
	// epoch is that of the present registration.
	epoch func() image.BrokerEpoch
	// brokers is the newest metadata.
	brokers func() *image.Image
	now     func() time.Time
	// submit hands a proposal to the AlterPartition manager.
	submit func(alterpartition.Item) error
	// changed tells requests that wait for the partition to look again.
	changed func(image.PartitionID)
	// appended tells followers' fetches that wait for records to look again.
	appended func(image.PartitionID)
	metrics  *metrics
	slog     *slog.Logger
}

func newReplica(id image.PartitionID, lg *log.Log, deps *replicaDeps) *hostedReplica {
	return &hostedReplica{id: id, log: lg, deps: deps, st: partition.New(), ledSince: partition.NoLeaderEpoch}
}

// becomeLeader installs a record that names this broker as leader.
func (r *hostedReplica) becomeLeader(p image.Partition, minISR int, offset image.MetadataOffset) (partition.Effects, error) {
	r.mu.Lock()
	_, high, end := r.log.Offsets()
	fx, err := r.stepLocked(partition.BecomeLeader{
		Partition: p, MinISR: minISR, MetadataOffset: offset, LogEndOffset: end, HighWatermark: high, Now: r.deps.now(),
	})
	if err == nil && fx.NewLeader {
		r.ledSince = p.LeaderEpoch
	}
	r.mu.Unlock()
	r.carryOut(fx)
	return fx, err
}

// becomeFollower installs a record that names another leader, or none.
func (r *hostedReplica) becomeFollower(p image.Partition, inControlledShutdown bool) (partition.Effects, error) {
	return r.step(partition.BecomeFollower{Partition: p, InControlledShutdown: inControlledShutdown})
}

// remove ends the replica's life here: who waits for it is told, and every later request is refused.
func (r *hostedReplica) remove() {
	r.mu.Lock()
	r.removed = true
	fx, _ := r.stepLocked(partition.Deleted{})
	r.mu.Unlock()
	r.carryOut(fx)
}

// checkLag asks for followers that have fallen behind.
func (r *hostedReplica) checkLag() {
	if r.leads() {
		r.stepLogged(partition.CheckLag{Now: r.deps.now()})
	}
}

// metadataChanged tells of news beside the partition's record.
func (r *hostedReplica) metadataChanged(minISR int, offset image.MetadataOffset) {
	if r.leads() {
		r.stepLogged(partition.MetadataChanged{MinISR: minISR, MetadataOffset: offset, Now: r.deps.now()})
	}
}

// answered takes the answer to a proposal.
func (r *hostedReplica) answered(a partition.AlterPartitionAnswered) {
	a.Now = r.deps.now()
	r.stepLogged(a)
}

// followerFetched takes the position that a follower's fetch told.
func (r *hostedReplica) followerFetched(e partition.FollowerFetched) controllerpb.ErrorCode {
	fx, err := r.step(e)
	if err != nil {
		return log.CodeOf(err)
	}
	return fx.Refused
}

func (r *hostedReplica) leads() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.st.Role == partition.RoleLeader
}

// state is the state of this moment.
func (r *hostedReplica) state() partition.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.st
}

func (r *hostedReplica) stepLogged(e partition.Event) {
	if _, err := r.step(e); err != nil {
		r.deps.slog.Error("partition step failed", "partition", r.log.Name().String(), "event", fmt.Sprintf("%T", e), "error", err)
	}
}

func (r *hostedReplica) step(e partition.Event) (partition.Effects, error) {
	r.mu.Lock()
	fx, err := r.stepLocked(e)
	r.mu.Unlock()
	r.carryOut(fx)
	return fx, err
}

// stepLocked makes a step under the lock. What must not be seen apart from the new state is done here: the epoch entry
// before it, the log's watermark with it. On an error the state stays.
func (r *hostedReplica) stepLocked(e partition.Event) (partition.Effects, error) {
	next, fx := r.st.Step(r.facts(), e)
	if start := fx.StartEpoch; start != nil {
		if err := r.log.AssignEpoch(start.Epoch, start.Offset); err != nil {
			return partition.Effects{}, err
		}
	}
	r.st = next
	if fx.HighWatermarkMoved {
		r.log.RaiseHighWatermark(next.HighWatermark)
	}
	return fx, nil
}

func (r *hostedReplica) facts() partition.Facts {
	return partition.Facts{
		Self: r.deps.self, SelfEpoch: r.deps.epoch(), LagTimeMax: r.deps.lagTimeMax, Brokers: r.deps.brokers(),
	}
}

// carryOut does what may be done after the lock was released. The fetch order is the manager's.
func (r *hostedReplica) carryOut(fx partition.Effects) {
	switch {
	case fx.Answer == partition.Expanded:
		r.deps.metrics.isrExpands.Inc()
	case fx.Answer == partition.Shrunk:
		r.deps.metrics.isrShrinks.Inc()
	case fx.Answer.Failed():
		r.deps.metrics.isrFailures.Inc()
	}
	if fx.HighWatermarkMoved || fx.CompleteWaiters {
		r.deps.changed(r.id)
	}
	if fx.Submit != nil {
		r.submit(fx.Submit, fx.Answer == partition.Repeated)
	}
}

// submit hands a proposal over. If there is no room for it, because an earlier one is not answered yet or the queue is full, it is
// settled as never sent, as Kafka does: the state asks again by itself, for a newcomer at its next fetch, for one that has fallen
// behind at the next look at the followers. Why is logged, for it shows otherwise only as a failed change in the metrics.
func (r *hostedReplica) submit(p *partition.Proposal, repeat bool) {
	err := r.deps.submit(alterpartition.Item{Partition: r.id, Proposal: p, Repeat: repeat, Done: r.answered})
	if err != nil {
		r.deps.slog.Debug("a change of the ISR was not asked for; it will be again", "partition", r.log.Name().String(), "change", p.String(), "reason", err)
		r.answered(partition.AlterPartitionAnswered{Proposal: p, Code: controllerpb.ErrorCode_ERROR_CODE_OPERATION_NOT_ATTEMPTED})
	}
}
