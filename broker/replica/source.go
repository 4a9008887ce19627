package replica

import (
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Source is the broker's hosted partitions, as followers read them.
type Source interface {
	// ReadForReplica is the one read path of clients and followers: leader epoch, leadership, the follower's assignment
	// and broker epoch, divergence, bounds, in this order; then the records from the position on, up to the log end. If
	// the read counts and nothing was refused nor diverges, the follower's position is taken, with the log end of the
	// same moment. It may be called from any goroutine; it does not block on anything but the disk.
	ReadForReplica(image.PartitionID, ReadRequest) ReadResult
}

// ReadRequest is a follower's fetch of one partition.
type ReadRequest struct {
	Replica     image.BrokerID
	BrokerEpoch image.BrokerEpoch
	LeaderEpoch image.LeaderEpoch
	// FetchOffset is where the follower's log ends, LogStartOffset where it starts.
	FetchOffset, LogStartOffset int64
	// LastFetchedEpoch is the leader epoch of the follower's last record, [partition.NoLeaderEpoch] if it has none.
	LastFetchedEpoch image.LeaderEpoch
	// BytesMax bounds the records. OneBatch returns the first batch whole even if it is larger.
	BytesMax int
	OneBatch bool
	// Counts: the position is what the follower says at this time, At. Otherwise the read repeats one that counted.
	Counts bool
	At     time.Time
}

// ReadResult is what a fetch of one partition finds.
type ReadResult struct {
	// Error refuses the fetch. With OFFSET_OUT_OF_RANGE the bounds of the log are told all the same.
	Error *controllerpb.Error
	// HighWatermark is the one from before the follower's position was taken.
	HighWatermark                int64
	LogStartOffset, LogEndOffset int64
	// Diverging is where the follower's log parts from the leader's; nil if it does not.
	Diverging *partition.EpochEnd
	// Records are whole batches. The receiver only reads them.
	Records []byte
}

// isUrgent tells whether the follower can do something about it, beside taking the offsets over.
func (r *ReadResult) isUrgent() bool {
	return r.Error != nil || r.Diverging != nil || len(r.Records) > 0
}
