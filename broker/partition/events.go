package partition

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Event is something that happens to a replica: one of the types of this file.
type Event interface {
	step(f *Facts, s State) (State, Effects)
}

// BecomeLeader installs a partition record that names this broker as leader. It may repeat what is already known.
// The log must exist.
type BecomeLeader struct {
	Partition image.Partition
	// MinISR is min.insync.replicas of the topic.
	MinISR int
	// MetadataOffset is that of the image which says so.
	MetadataOffset image.MetadataOffset
	// LogEndOffset and HighWatermark are the log's. The watermark is taken over only from a replica that did not lead.
	LogEndOffset, HighWatermark int64
	Now                         time.Time
}

// BecomeFollower installs a partition record that names another leader, or none. It may repeat what is already known.
type BecomeFollower struct {
	Partition image.Partition
	// InControlledShutdown tells that this broker is about to stop.
	InControlledShutdown bool
}

// MetadataChanged tells of news that are not in the partition's own record: the topic's min.insync.replicas,
// or the registration of a broker among the replicas.
type MetadataChanged struct {
	// MinISR is min.insync.replicas of the topic.
	MinISR int
	// MetadataOffset is that of the image which says so.
	MetadataOffset image.MetadataOffset
	Now            time.Time
}

// Deleted tells that the replica is no longer hosted: its topic was removed, it was taken out of the assignment,
// or its directory failed.
type Deleted struct{}

// LocalAppend tells that the leader's log has grown.
type LocalAppend struct {
	LogEndOffset int64
	Now          time.Time
}

// FollowerFetched tells of a follower's fetch that passed every check, the divergence check included,
// and that was read for the first time (not again after it had waited).
type FollowerFetched struct {
	Follower image.BrokerID
	// LeaderEpoch and BrokerEpoch are those of the request.
	LeaderEpoch image.LeaderEpoch
	BrokerEpoch image.BrokerEpoch
	// FetchOffset is the follower's log end offset, LogStartOffset its log's start.
	FetchOffset, LogStartOffset int64
	// LeaderLogEndOffset was read together with the data of the answer.
	LeaderLogEndOffset int64
	// At is the time at which the request came in.
	At time.Time
}

// CheckLag asks for followers that have fallen behind. It is due every half of the lag limit.
type CheckLag struct{ Now time.Time }

// AlterPartitionAnswered tells what became of a proposal.
type AlterPartitionAnswered struct {
	Proposal *Proposal
	// Code is UNSPECIFIED for success, OPERATION_NOT_ATTEMPTED also if the sender had no room for the proposal.
	Code controllerpb.ErrorCode
	// LeaderEpoch, PartitionEpoch and ISR are the partition's after an accepted change.
	LeaderEpoch    image.LeaderEpoch
	PartitionEpoch image.PartitionEpoch
	ISR            []image.BrokerID
	// MinISR is min.insync.replicas that the change was decided under, 0 if that is not told; MetadataOffset is what the
	// answer rests on.
	MinISR         int
	MetadataOffset image.MetadataOffset
	Now            time.Time
}

// Step returns the state after the event and what is to be carried out.
func (s State) Step(f Facts, e Event) (State, Effects) { return e.step(&f, s) }
