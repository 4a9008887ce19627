package image

// ReplicaState is what the image means for one replica, in the words of the older, ZooKeeper-based controller. It is a
// view: nothing keeps it, and every node derives the same at one offset.
type ReplicaState uint8

const (
	// ReplicaNonExistent is neither assigned nor pending deletion.
	ReplicaNonExistent ReplicaState = iota
	// ReplicaNew is being added by a reassignment and not in sync yet, on an unfenced broker.
	ReplicaNew
	// ReplicaOnline is assigned otherwise, on an unfenced broker.
	ReplicaOnline
	// ReplicaOffline is assigned, and its broker is fenced, unregistered or shutting down.
	ReplicaOffline
	// ReplicaDeletionStarted belongs to a deleted topic, and its broker can remove it.
	ReplicaDeletionStarted
	// ReplicaDeletionIneligible belongs to a deleted topic; its broker is not unfenced, or failed to remove it.
	ReplicaDeletionIneligible
)

// String is the state's name.
func (s ReplicaState) String() string {
	return [...]string{"NonExistent", "New", "Online", "Offline", "DeletionStarted", "DeletionIneligible"}[s]
}

// PartitionState is what the image means for one partition.
type PartitionState uint8

const (
	// PartitionOnline has a leader.
	PartitionOnline PartitionState = iota
	// PartitionOffline has none.
	PartitionOffline
)

// String is the state's name.
func (s PartitionState) String() string { return [...]string{"Online", "Offline"}[s] }

// State is the partition's.
func (p Partition) State() PartitionState {
	if p.Leader == NoBroker {
		return PartitionOffline
	}
	return PartitionOnline
}

// ReplicaState is that of a broker's replica of the partition, with the reason why it is offline.
func (im *Image) ReplicaState(p Partition, id BrokerID) (state ReplicaState, reason string) {
	switch b, ok := im.brokers.get(id); {
	case !Contains(p.Replicas, id):
		return ReplicaNonExistent, ""
	case !ok || !b.IsActive():
		return ReplicaOffline, im.brokerState(id, "")
	case Contains(p.AddingReplicas, id) && !Contains(p.ISR, id):
		return ReplicaNew, ""
	}
	return ReplicaOnline, ""
}

// DeletionState is that of a replica of a deleted topic, with the reason why it cannot be removed. One whose removal was
// reported is in no image any more.
func (im *Image) DeletionState(r PendingReplica) (state ReplicaState, reason string) {
	if b, ok := im.brokers.get(r.Broker); !ok || b.Fenced {
		return ReplicaDeletionIneligible, im.brokerState(r.Broker, "")
	}
	if r.Failure != "" {
		return ReplicaDeletionIneligible, r.Failure
	}
	return ReplicaDeletionStarted, ""
}
