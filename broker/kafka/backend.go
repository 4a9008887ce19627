package kafka

import (
	"context"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Backend is the broker as its Kafka listener sees it. Every method may be called from any goroutine.
type Backend struct {
	Metadata    Metadata
	Configs     Configs
	Partitions  Partitions
	Admin       Admin
	ProducerIDs ProducerIDs
}

// Metadata is this broker's view of the cluster.
type Metadata interface {
	// Image returns the newest image that this broker has acted on. It does not block.
	Image() *image.Image
	BrokerID() image.BrokerID
	// ClusterID is never empty: a null cluster id crashes a client.
	ClusterID() string
}

// Configs knows the values that are not in the metadata log. Keys are those of the broker's own configuration.
type Configs interface {
	// Default returns the built-in value of a key; ok is false if the product has no such key.
	Default(key string) (value string, ok bool)
	// Static returns the value that the broker's file, environment or command line gives; ok is false if none does.
	Static(key string) (value string, ok bool)
}

// Partitions finds replicas hosted here.
type Partitions interface {
	// Lookup returns the hosted replica. Its error is a [kerr.Error], or wraps one:
	// NOT_LEADER_OR_FOLLOWER if the partition exists and is not hosted here, KAFKA_STORAGE_ERROR if its log
	// is broken.
	Lookup(id image.PartitionID) (Partition, error)
}

// Partition is a replica hosted here. Errors are or wrap a [kerr.Error], whose code goes to the client.
//
// Whoever implements it calls [Server.Notify] after each change that a waiting request may depend on: the high
// watermark or the last stable offset moved, the leader epoch or the role changed, the log was truncated, its
// directory failed, or the replica was removed.
type Partition interface {
	// CanAppend makes the checks that come before the records are looked at: NOT_LEADER_OR_FOLLOWER; with
	// requiredAcks -1 also NOT_ENOUGH_REPLICAS when the committed ISR is smaller than min.insync.replicas.
	CanAppend(requiredAcks int16) error
	// AppendAsLeader appends what a client sent, which must be exactly one batch. It judges the batch and the
	// producer's epoch and sequence, repeats the checks of CanAppend, patches offset and leader epoch into the bytes,
	// and does not keep the slice. A batch that the producer has sent before succeeds with its former offsets.
	AppendAsLeader(records []byte, requiredAcks int16) (AppendResult, error)
	// IsReplicated decides an append with acks -1. An error decides it as failed: NOT_LEADER_OR_FOLLOWER if this
	// replica has not led without a break since the given epoch, NOT_ENOUGH_REPLICAS_AFTER_APPEND if the watermark
	// has passed the offset and the maximal ISR is below min.insync.replicas. Otherwise it tells whether the
	// high watermark has reached the offset, which is the last appended one + 1.
	IsReplicated(offset int64, epoch image.LeaderEpoch) (bool, error)

	// Read makes the epoch and leadership checks, then returns whole batches from the one that holds the offset on.
	// It is the one read path of clients and followers.
	Read(r ReadRequest) (ReadResult, error)
	// Readable tells how many bytes a Read would find, at most r.BytesMax, without reading them; it makes the same
	// checks. It may estimate, but is 0 only if Read would return no records and no divergence.
	Readable(r ReadRequest) (int, error)
	// ListOffset finds an offset for a timestamp in milliseconds, or for one of the special timestamps.
	ListOffset(r ListOffsetRequest) (TimestampedOffset, error)
	// EpochEnd returns the largest epoch not above the given one, and its end offset; both -1 if there is none.
	EpochEnd(current, epoch image.LeaderEpoch) (EpochEnd, error)
}

// AppendResult is what became of one batch.
type AppendResult struct {
	// FirstOffset and LastOffset are those of the batch's records.
	FirstOffset, LastOffset int64
	LogStartOffset          int64
	// LogAppendTimeMs is the time stamped into the batch, -1 unless the topic uses LogAppendTime.
	LogAppendTimeMs int64
	// LeaderEpoch is the epoch stamped into the batch.
	LeaderEpoch image.LeaderEpoch
}

// NoEpoch stands where a request names no leader epoch.
const NoEpoch image.LeaderEpoch = -1

// Isolation is the upper bound of a read.
type Isolation int8

// ReadUncommitted reads up to the high watermark, ReadCommitted up to the last stable offset.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// ReadRequest asks for records of one partition.
type ReadRequest struct {
	Offset int64
	// CurrentLeaderEpoch is the epoch that the asker believes in, or NoEpoch. Below ours: FENCED_LEADER_EPOCH,
	// above: UNKNOWN_LEADER_EPOCH (KIP-320).
	CurrentLeaderEpoch image.LeaderEpoch
	// LastFetchedEpoch is the epoch of the record before Offset in the asker's log, or NoEpoch. It lets the leader
	// find a divergence.
	LastFetchedEpoch image.LeaderEpoch
	Isolation        Isolation
	// LeaderOnly refuses a read from a replica that does not lead.
	LeaderOnly bool
	BytesMax   int
	// OneBatch returns the first batch whole even if it is larger than BytesMax.
	OneBatch bool
}

// ReadResult is what a read found. An offset between the bound and the log's end gives no records and no error;
// one outside the log fails with OFFSET_OUT_OF_RANGE.
type ReadResult struct {
	// Records are whole batches, below the bound. The receiver only reads them.
	Records          []byte
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	// Diverging is set when the asker's log has left ours; Records is then empty.
	Diverging *EpochEnd
}

// EpochEnd is a leader epoch and the offset after its last record.
type EpochEnd struct {
	Epoch     image.LeaderEpoch
	EndOffset int64
}

// Special timestamps of ListOffset, with Kafka's numbers.
const (
	LatestTimestamp   int64 = -1
	EarliestTimestamp int64 = -2
	MaxTimestamp      int64 = -3
)

// ListOffsetRequest asks a leader for an offset. A leader whose high watermark has not reached the start of its epoch
// answers OFFSET_NOT_AVAILABLE to LatestTimestamp and to a lookup past the watermark (KIP-207).
type ListOffsetRequest struct {
	Timestamp          int64
	CurrentLeaderEpoch image.LeaderEpoch
	Isolation          Isolation
}

// TimestampedOffset is the first offset whose timestamp is at least the one asked for; all fields are -1 if there is
// none. The timestamp is -1 for LatestTimestamp and EarliestTimestamp.
type TimestampedOffset struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch image.LeaderEpoch
}

// Caller is the client on whose behalf a request is forwarded.
type Caller struct {
	Principal string
	ClientID  string
	// Peer is the client's address.
	Peer string
}

// Admin forwards changes to the active controller and follows it wherever it goes. The context's deadline is the
// client's. An error that is or wraps a [controllerpb.RefusedError] or a [kerr.Error] other than NOT_CONTROLLER, and not
// [client.ErrOutcomeUnknown], means that certainly nothing was changed; any other leaves the outcome unknown. A request
// may be sent again under its own request id only.
type Admin interface {
	CreateTopics(ctx context.Context, c Caller, req *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error)
	DeleteTopics(ctx context.Context, c Caller, req *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error)
	CreatePartitions(ctx context.Context, c Caller, req *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error)
	AlterConfigs(ctx context.Context, c Caller, req *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error)
	ElectLeaders(ctx context.Context, c Caller, req *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error)
	AlterPartitionReassignments(ctx context.Context, c Caller, req *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error)
	UnregisterBroker(ctx context.Context, c Caller, req *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error)
	UpdateFeatures(ctx context.Context, c Caller, req *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error)
	// DescribeQuorum asks the active controller, and every other for itself.
	DescribeQuorum(ctx context.Context) (Quorum, error)
	// WaitApplied returns when this broker has applied the offset and acted on it.
	WaitApplied(ctx context.Context, offset image.MetadataOffset) error
	// WaitEveryBroker returns when each of the brokers has, or when the context ends.
	WaitEveryBroker(ctx context.Context, offset image.MetadataOffset, brokers []image.BrokerID) error
}

// Quorum is the controllers as the active one and each of them describe themselves.
type Quorum struct {
	// Leader is the active controller, ControllerEpoch its claim's.
	Leader          image.BrokerID
	ControllerEpoch image.ControllerEpoch
	// MetadataOffset is that of the last committed record; -1 for none.
	MetadataOffset image.MetadataOffset
	Voters         []QuorumReplica
	// Observers are controllers without a vote, and brokers.
	Observers []QuorumReplica
}

// QuorumReplica is one that follows the metadata log.
type QuorumReplica struct {
	ID          image.BrokerID
	DirectoryID image.UUID
	// MetadataOffset is the last one that it is known to have applied; NoOffset if it could not be asked.
	MetadataOffset image.MetadataOffset
	// HeardMs is the time of day, in milliseconds, at which it said so; -1 if it could not be asked.
	HeardMs int64
}

// ProducerIDs hands out producer ids, each once in the life of the cluster. A failure is answered with
// COORDINATOR_LOAD_IN_PROGRESS, upon which clients ask again.
type ProducerIDs interface {
	Next(ctx context.Context) (int64, error)
}
