package partition

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// FetchOrder says what a follower's fetcher has to do.
type FetchOrder uint8

// The orders of a fetcher.
const (
	// FetchKeep leaves it alone, running or not.
	FetchKeep FetchOrder = iota
	// FetchRestart stops it and starts it again at the present leader and leader epoch.
	FetchRestart
	// FetchStop stops it; the data stays.
	FetchStop
)

// Outcome says what a step made of a proposal's answer. Counters follow it.
type Outcome uint8

// The outcomes of an answer.
const (
	// NoAnswer: the event was none.
	NoAnswer Outcome = iota
	// Expanded and Shrunk: the change is committed and installed.
	Expanded
	Shrunk
	// Reverted: it was proved that nothing was nor will be applied.
	Reverted
	// Waiting: the change may have been applied; metadata will tell.
	Waiting
	// Repeated: the same proposal is to be submitted again.
	Repeated
	// Ignored: the answer is for a proposal that is not pending any more.
	Ignored
)

// Failed tells whether an outcome counts as a failed change.
func (o Outcome) Failed() bool { return o == Reverted || o == Waiting || o == Repeated }

// EpochStart is an entry of a leader epoch cache.
type EpochStart struct {
	Epoch  image.LeaderEpoch
	Offset int64
}

// Effects are the consequences of a step, to be carried out by the caller in the order of the fields: StartEpoch
// before the state is shown to anyone, the rest after the partition's lock was released.
type Effects struct {
	// Skipped: the event is older than what is known; nothing changed.
	Skipped bool
	// Refused is the answer to a fetch whose state was not taken, UNSPECIFIED if it was.
	Refused controllerpb.ErrorCode
	// StartEpoch is to be put into the log's epoch cache and synced, though no record of that epoch exists yet:
	// followers with later epochs are cut by it.
	StartEpoch *EpochStart
	// NewLeader: this replica did not lead before. NewLeaderEpoch: the leader epoch has grown.
	NewLeader, NewLeaderEpoch bool
	// Fetch is an order for the replica's fetcher.
	Fetch FetchOrder
	// HighWatermarkMoved: the state's watermark is new and is to be told to the log and to parked fetches.
	HighWatermarkMoved bool
	// CompleteWaiters: waiting produces and fetches are to be looked at again.
	CompleteWaiters bool
	// Submit is to be handed to the sender. A repetition is the proposal that was sent before.
	Submit *Proposal
	Answer Outcome
}
