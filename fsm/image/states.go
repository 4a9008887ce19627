package image

// ReplicaState is what the image means for one replica, in the words of the older, ZooKeeper-based controller. It is a
// view: nothing keeps it, and every node derives the same at one offset.
//
// A replica is also Offline in the older controller when its log is. The image does not know logs: a broker whose disk
// failed under one log leaves the ISR, and one that lost its directory is fenced.
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
	// ReplicaDeletionSuccessful belongs to a deleted topic that waits for other brokers; its own reported that it is gone.
	ReplicaDeletionSuccessful
	// ReplicaDeletionIneligible belongs to a deleted topic; its broker is not unfenced, or failed to remove it.
	ReplicaDeletionIneligible
)

// ReplicaStates are all states that a replica can be in.
const ReplicaStates = ReplicaDeletionIneligible + 1

// String is the state's name.
func (s ReplicaState) String() string {
	return [...]string{"NonExistent", "New", "Online", "Offline", "DeletionStarted", "DeletionSuccessful", "DeletionIneligible"}[s]
}

// PartitionState is what the image means for one partition.
type PartitionState uint8

const (
	// PartitionNonExistent is neither in a topic nor pending deletion.
	PartitionNonExistent PartitionState = iota
	// PartitionNew is passed within the decision that creates it, and seen in no image.
	PartitionNew
	// PartitionOnline has a leader.
	PartitionOnline
	// PartitionOffline has none, or belongs to a deleted topic whose data is not gone everywhere.
	PartitionOffline
)

// PartitionStates are all states that a partition can be in.
const PartitionStates = PartitionOffline + 1

// String is the state's name.
func (s PartitionState) String() string {
	return [...]string{"NonExistent", "New", "Online", "Offline"}[s]
}

// State is the partition's.
func (p Partition) State() PartitionState {
	if p.Leader == NoBroker {
		return PartitionOffline
	}
	return PartitionOnline
}

// PartitionState is that of any partition, also of one that never was or was deleted.
func (im *Image) PartitionState(id PartitionID) PartitionState {
	if p, ok := im.Partition(id); ok {
		return p.State()
	}
	if d, ok := im.PendingDeletion(id.Topic); ok && id.Partition >= 0 && id.Partition < d.Partitions {
		return PartitionOffline
	}
	return PartitionNonExistent
}

// ReplicaState is that of a broker's replica of the partition, with the reason why it is offline.
func (im *Image) ReplicaState(p Partition, id BrokerID) (state ReplicaState, reason string) {
	switch b, ok := im.brokers.get(id); {
	case !Contains(p.Replicas, id):
		return ReplicaNonExistent, ""
	case !ok || !b.IsActive():
		return ReplicaOffline, im.brokerState(id, "")
	case isNewReplica(&p, id):
		return ReplicaNew, ""
	}
	return ReplicaOnline, ""
}

// isNewReplica tells whether a reassignment is adding the replica, and it is not in sync yet.
func isNewReplica(p *Partition, id BrokerID) bool {
	return Contains(p.AddingReplicas, id) && !Contains(p.ISR, id) && Contains(p.Replicas, id)
}

// DeletionState is that of a broker's replicas of a deleted topic, with the reason why they cannot be removed. When the
// last broker has reported, the deletion is in no image any more.
func (im *Image) DeletionState(r PendingReplica) (state ReplicaState, reason string) {
	if r.Deleted {
		return ReplicaDeletionSuccessful, ""
	}
	if b, ok := im.brokers.get(r.Broker); !ok || b.Fenced {
		return ReplicaDeletionIneligible, im.brokerState(r.Broker, "")
	}
	if r.Failure != "" {
		return ReplicaDeletionIneligible, r.Failure
	}
	return ReplicaDeletionStarted, ""
}

// StateCounts is how many partitions and replicas are in each state.
type StateCounts struct {
	Partitions [PartitionStates]int
	Replicas   [ReplicaStates]int
}

// StateCounts counts all partitions and replicas by state, those of deleted topics included as long as some broker
// is waited for. It costs a look at each broker, however many partitions there are.
func (im *Image) StateCounts() StateCounts {
	var c StateCounts
	c.Partitions[PartitionOnline] = im.partitionCount - im.LeaderlessCount()
	c.Partitions[PartitionOffline] = im.LeaderlessCount() + im.deletingPartitions
	for id, ix := range im.indexes.brokers.all() {
		b, registered := im.brokers.get(id)
		if registered && b.IsActive() {
			c.Replicas[ReplicaNew] += ix.adding
			c.Replicas[ReplicaOnline] += ix.on.n - ix.adding
		} else {
			c.Replicas[ReplicaOffline] += ix.on.n
		}
		c.Replicas[ReplicaDeletionSuccessful] += ix.deleted
		if registered && !b.Fenced {
			c.Replicas[ReplicaDeletionStarted] += ix.deleting - ix.deletingFailed
			c.Replicas[ReplicaDeletionIneligible] += ix.deletingFailed
		} else {
			c.Replicas[ReplicaDeletionIneligible] += ix.deleting
		}
	}
	return c
}
