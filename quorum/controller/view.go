package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// View is everything that a decision may look at.
type View struct {
	// Image is the pending image: what is committed, and what was proposed since.
	Image *image.Image
	// NextOffset is the metadata offset that the first record of the decision will get.
	NextOffset image.MetadataOffset
	// Liveness is what the active controller heard from brokers since its claim.
	Liveness Liveness
	Limits   Limits
	Defaults Defaults
	// Members are the controllers in Raft's configuration, voters or not; only UpdateFeatures looks at them.
	Members []image.BrokerID
	// ClusterID is the id that requests must name.
	ClusterID string
	// Now is the active controller's time. Sessions are measured by its monotonic reading, records are stamped with its
	// time of day.
	Now time.Time
	// Rand places replicas; the same seed gives the same placement.
	Rand *rand.Rand
	// NewID draws the id of a topic whose creator named none.
	NewID func() image.UUID
}

func (v View) lastOffset() image.MetadataOffset { return v.NextOffset - 1 }

func (v View) nowMs() int64 { return v.Now.UnixMilli() }

// Limits bound requests and sessions.
type Limits struct {
	// RecordsMax is the most records of one atomic decision, metadata.max.records.per.batch. Default 10000.
	RecordsMax int
	// BytesMax is the most bytes of one atomic decision over its encoded records, metadata.max.bytes.per.batch.
	// Default 1 MiB.
	BytesMax int
	// SessionTimeout is how long an unfenced broker may be silent, broker.session.timeout.ms; above HeartbeatInterval.
	// Default 9 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is how often brokers beat, broker.heartbeat.interval.ms. Default 2 s.
	HeartbeatInterval time.Duration
}

// DefaultLimits returns the defaults named at the fields.
func DefaultLimits() Limits {
	return Limits{RecordsMax: 10000, BytesMax: 1 << 20, SessionTimeout: 9 * time.Second, HeartbeatInterval: 2 * time.Second}
}

// Validate names the field at fault.
func (l Limits) Validate() error {
	switch {
	case l.RecordsMax < 1:
		return fmt.Errorf("controller: RecordsMax is %d, must be at least 1", l.RecordsMax)
	case l.BytesMax < 1:
		return fmt.Errorf("controller: BytesMax is %d, must be at least 1", l.BytesMax)
	case l.HeartbeatInterval <= 0:
		return fmt.Errorf("controller: HeartbeatInterval is %v, must be positive", l.HeartbeatInterval)
	case l.SessionTimeout <= l.HeartbeatInterval:
		return fmt.Errorf("controller: SessionTimeout %v is not larger than HeartbeatInterval %v", l.SessionTimeout, l.HeartbeatInterval)
	}
	return nil
}

// CheckAtomic refuses an atomic decision that is larger than one batch may be, with POLICY_VIOLATION.
func (l Limits) CheckAtomic(records, bytes int) error {
	if records > l.RecordsMax {
		return controllerpb.Refuse(codePolicyViolation,
			"the request needs %d records, metadata.max.records.per.batch is %d: split it", records, l.RecordsMax)
	}
	if bytes > l.BytesMax {
		return controllerpb.Refuse(codePolicyViolation,
			"the request needs %d bytes of records, metadata.max.bytes.per.batch is %d: split it", bytes, l.BytesMax)
	}
	return nil
}

// Defaults are values of the active controller's own file that decisions fall back to (KIP-464).
type Defaults struct {
	// Partitions is num.partitions. Default 1.
	Partitions int32
	// ReplicationFactor is default.replication.factor. Default 1.
	ReplicationFactor int32
	// MinInsyncReplicas is min.insync.replicas. It is written into an empty log by the first claim, and never read
	// after that: the image holds the value that counts. Default 1.
	MinInsyncReplicas int
	// UncleanLeaderElection is unclean.leader.election.enable where neither topic nor cluster say otherwise. Default false.
	UncleanLeaderElection bool
	// EligibleLeaderReplicas is the level of eligible.leader.replicas.version in a new cluster, 0 or 1.
	EligibleLeaderReplicas int32
}

// DefaultDefaults returns the defaults named at the fields, with eligible leader replicas on.
func DefaultDefaults() Defaults {
	return Defaults{Partitions: 1, ReplicationFactor: 1, MinInsyncReplicas: 1, EligibleLeaderReplicas: 1}
}

// Validate names the field at fault.
func (d Defaults) Validate() error {
	switch {
	case d.Partitions < 1:
		return errors.New("controller: Partitions must be at least 1")
	case d.ReplicationFactor < 1:
		return errors.New("controller: ReplicationFactor must be at least 1")
	case d.MinInsyncReplicas < 1:
		return errors.New("controller: MinInsyncReplicas must be at least 1")
	case d.EligibleLeaderReplicas < 0 || d.EligibleLeaderReplicas > 1:
		return errors.New("controller: EligibleLeaderReplicas must be 0 or 1")
	}
	return nil
}
