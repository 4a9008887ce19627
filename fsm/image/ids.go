package image

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"github.com/quorate/quorate/fsm/record"
)

// BrokerID names a node of the cluster, broker or controller.
type BrokerID int32

// NoBroker stands where a partition has no leader. It is never a registered id.
const NoBroker BrokerID = -1

// String returns the decimal id.
func (id BrokerID) String() string { return strconv.Itoa(int(id)) }

// LeaderEpoch counts the leaderships of one partition, leaderless spells included.
type LeaderEpoch int32

// PartitionEpoch counts the committed changes of one partition.
type PartitionEpoch int32

// BrokerEpoch is the metadata offset of the RegisterBroker record that opened an incarnation of a broker.
type BrokerEpoch int64

// NoBrokerEpoch stands where no epoch is known.
const NoBrokerEpoch BrokerEpoch = -1

// MetadataOffset is the dense number of a record in the metadata log; the first is 0.
type MetadataOffset = record.MetadataOffset

// NoOffset is the offset of the empty image, and of things that have not happened.
const NoOffset = record.NoOffset

// ControllerEpoch is the Raft term of the claim under which a controller is active.
type ControllerEpoch uint64

// Chain is the running hash over the accepted entries with records.
type Chain = record.Chain

// UUID is 16 bytes, written as Kafka writes it: 22 characters of base64url without padding.
type UUID [16]byte

// TopicID names a topic for ever; a topic that is deleted and made again has another one.
type TopicID = UUID

// ErrUUID tells that bytes or text are no UUID.
var ErrUUID = errors.New("image: not a uuid")

// String returns Kafka's 22-character form.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero tells whether no id was set.
func (id UUID) IsZero() bool { return id == UUID{} }

// Bytes returns a copy of the 16 bytes.
func (id UUID) Bytes() []byte { return append([]byte(nil), id[:]...) }

// UUIDFrom returns the id held in b, which must be 16 bytes long; otherwise the error wraps [ErrUUID].
func UUIDFrom(b []byte) (UUID, error) {
	if len(b) != 16 {
		return UUID{}, fmt.Errorf("%w: %d bytes instead of 16", ErrUUID, len(b))
	}
	return UUID(b), nil
}

// ParseUUID reads what [UUID.String] writes; otherwise the error wraps [ErrUUID].
func ParseUUID(s string) (UUID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 16 {
		return UUID{}, fmt.Errorf("%w: %q is not 22 characters of base64url", ErrUUID, s)
	}
	return UUID(b), nil
}

// PartitionID names a partition for ever.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

// String returns the topic id and the partition number, joined by a colon.
func (id PartitionID) String() string {
	return id.Topic.String() + ":" + strconv.Itoa(int(id.Partition))
}

// Compare orders by topic id, then by number.
func (id PartitionID) Compare(other PartitionID) int {
	if c := compareUUID(id.Topic, other.Topic); c != 0 {
		return c
	}
	return int(id.Partition) - int(other.Partition)
}
