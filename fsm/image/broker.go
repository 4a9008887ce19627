package image

import metadatapb "github.com/quorate/quorate/proto/metadata/v1"

// Listener is an address that a node serves.
type Listener struct {
	// KAFKA, GRPC, RAFT or HTTP.
	Name string
	Host string
	Port uint16
}

// FeatureRange is the range of levels of a feature that a node supports, both ends included.
type FeatureRange struct {
	Name     string
	Min, Max int32
}

// Broker is a registration. It is a value; its slices and pointers must not be changed by the receiver.
type Broker struct {
	ID            BrokerID
	IncarnationID UUID
	DirectoryID   UUID
	// Epoch is the metadata offset of the RegisterBroker record that opened this incarnation.
	Epoch BrokerEpoch
	// RegistrationOffset is the metadata offset of the newest RegisterBroker record of this id;
	// a broker is unfenced only after it has applied it.
	RegistrationOffset MetadataOffset
	Listeners          []Listener
	// Rack is nil when the broker named none.
	Rack                 *string
	Features             []FeatureRange
	Fenced               bool
	InControlledShutdown bool
	// ControlledShutdownOffset is the metadata offset of the record that began the controlled shutdown, [NoOffset] when none is under way.
	ControlledShutdownOffset MetadataOffset
	// StopKind tells how the life before this one ended.
	StopKind metadatapb.StopKind
	// PreviousEpoch is the epoch that the clean-shutdown marker names, [NoBrokerEpoch] without one.
	PreviousEpoch BrokerEpoch
	// LostReplicas is the number of replicas that the broker reported as lost with this registration.
	LostReplicas int32
	// StateSinceMs is the active controller's clock when the present state began, in milliseconds since the epoch.
	StateSinceMs int64
}

// IsActive tells whether the broker may lead and join an ISR: neither fenced nor in controlled shutdown (KIP-841).
func (b Broker) IsActive() bool { return !b.Fenced && !b.InControlledShutdown }

// Listener returns the address of that name.
func (b Broker) Listener(name string) (Listener, bool) { return findListener(b.Listeners, name) }

// Controller is what a controller told of itself.
type Controller struct {
	ID            BrokerID
	IncarnationID UUID
	DirectoryID   UUID
	Listeners     []Listener
	Features      []FeatureRange
}

// Listener returns the address of that name.
func (c Controller) Listener(name string) (Listener, bool) { return findListener(c.Listeners, name) }

func findListener(list []Listener, name string) (Listener, bool) {
	for _, l := range list {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

// PendingReplica is a broker that held replicas of a deleted topic.
type PendingReplica struct {
	Broker BrokerID
	// Partitions is how many replicas it held, at least one.
	Partitions int32
	// Deleted tells that the broker reported that it holds nothing more.
	Deleted bool
	// Failure is the reason why the bytes could not be removed, empty as long as the broker reported none.
	Failure string
	// FailureSinceMs is the time of the failure in milliseconds since the epoch.
	FailureSinceMs int64
}

// PendingDeletion is a deleted topic whose data is not yet gone everywhere. Its slice must not be changed by the receiver.
type PendingDeletion struct {
	TopicID TopicID
	// Name is the name that the topic had; it is free for a new topic.
	Name string
	// Partitions is how many partitions the topic had.
	Partitions int32
	// Replicas are ordered by broker id; at least one is not deleted yet.
	Replicas []PendingReplica
}

// WaitsFor returns what is known of the part of a broker that has not reported yet that it holds nothing more.
func (p PendingDeletion) WaitsFor(id BrokerID) (PendingReplica, bool) {
	for _, r := range p.Replicas {
		if r.Broker == id {
			return r, !r.Deleted
		}
	}
	return PendingReplica{}, false
}

// isOver tells whether every broker has reported.
func (p *PendingDeletion) isOver() bool {
	for _, r := range p.Replicas {
		if !r.Deleted {
			return false
		}
	}
	return true
}
