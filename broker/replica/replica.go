package replica

import (
	"errors"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

var (
	// ErrBadRecords marks an append that failed for what the records are: they are fetched again.
	ErrBadRecords = errors.New("replica: bad records")
	// ErrOvertaken marks a change that came too late: metadata has given the replica another role or leader epoch
	// already, and its fetch is about to be removed. It is left alone without a word.
	ErrOvertaken = errors.New("replica: overtaken by newer metadata")
)

// Replica is a followed partition's log. Only one goroutine at a time changes it through these methods. An error that wraps
// neither [ErrBadRecords] nor [ErrOvertaken] ends the fetching of the partition, with a line in the log.
type Replica interface {
	partition.Epochs
	// Offsets are log start, high watermark and log end of one moment.
	Offsets() (start, high, end int64)
	// LatestEpoch is the newest leader epoch in the log's cache; false if the cache is empty.
	LatestEpoch() (image.LeaderEpoch, bool)
	// TruncateTo cuts the log at an offset, or before it at the start of the batch that holds it, with every leader
	// epoch that starts there or later. It returns the log end.
	TruncateTo(offset int64) (end int64, err error)
	// RestartAt discards the whole log; the next record gets the offset.
	RestartAt(offset int64) error
	// AppendAsFollower appends whole batches as the leader of that epoch sent them, which must begin at the log end.
	// An error about the records wraps [ErrBadRecords], and nothing was appended then.
	AppendAsFollower(records []byte, epoch image.LeaderEpoch) error
	// FollowHighWatermark takes the leader's watermark over, not beyond the log end nor below the log start.
	FollowHighWatermark(leader int64)
	// AdvanceLogStart takes the leader's log start over. It may remove segments.
	AdvanceLogStart(offset int64) error
}

// Assignment says where a partition is fetched from.
type Assignment struct {
	Partition image.PartitionID
	Replica   Replica
	Leader    image.BrokerID
	// Address is host:port of the leader's GRPC listener.
	Address string
	// LeaderEpoch is sent with every fetch; the leader refuses another one than its own.
	LeaderEpoch image.LeaderEpoch
}

// Status is how the fetching of a partition goes.
type Status uint8

// The states of a fetch.
const (
	// StatusNone: the partition is not fetched.
	StatusNone Status = iota
	StatusFetching
	// StatusDelayed: it failed and will be tried again.
	StatusDelayed
	// StatusFailed: it is left alone until it is added again.
	StatusFailed
)

// String returns the state's name.
func (s Status) String() string { return [...]string{"none", "fetching", "delayed", "failed"}[s] }
