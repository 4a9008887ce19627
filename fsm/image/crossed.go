package image

import "slices"

// Crossing is what a change of the image means for the states of one partition and of its replicas.
type Crossing struct {
	// Partition lists the partition's states in order, the one before the change first; nil if it stays in one state.
	Partition []PartitionState
	// Replicas are those whose state changes, by broker.
	Replicas []ReplicaCrossing
}

// ReplicaCrossing is the way of one replica.
type ReplicaCrossing struct {
	Broker BrokerID
	// States in order, the one before the change first.
	States []ReplicaState
	// Reason is why the last state is Offline or DeletionIneligible, empty otherwise.
	Reason string
}

// Crossed lists the states that one partition and its replicas pass between two images, which are as a rule those
// before and after one record. A change often passes several: the replica of a deleted topic is Offline before its
// deletion starts, and one that a reassignment drops passes all states of a deletion, for nobody waits for it.
//
// A deleted topic is remembered by broker and not by partition. deletedReplicas are the replicas that the partition had
// when its topic was deleted; if it is nil, every broker of the deleted topic counts as one of them.
func Crossed(before, after *Image, id PartitionID, deletedReplicas []BrokerID) Crossing {
	var c Crossing
	if from, to := before.PartitionState(id), after.PartitionState(id); from != to {
		c.Partition = partitionWay(from, to)
	}
	brokers := before.replicaBrokers(nil, id, deletedReplicas)
	brokers = after.replicaBrokers(brokers, id, deletedReplicas)
	slices.Sort(brokers)
	for _, b := range slices.Compact(brokers) {
		from, _ := before.stateOf(id, b)
		to, reason := after.stateOf(id, b)
		if from != to {
			c.Replicas = append(c.Replicas, ReplicaCrossing{Broker: b, States: replicaWay(from, to), Reason: reason})
		}
	}
	return c
}

// replicaBrokers adds the brokers whose replica of the partition exists in the image.
func (im *Image) replicaBrokers(to []BrokerID, id PartitionID, deletedReplicas []BrokerID) []BrokerID {
	if p, ok := im.Partition(id); ok {
		return append(to, p.Replicas...)
	}
	d, _ := im.PendingDeletion(id.Topic)
	if id.Partition >= d.Partitions {
		return to
	}
	for _, r := range d.Replicas {
		if deletedReplicas == nil || slices.Contains(deletedReplicas, r.Broker) {
			to = append(to, r.Broker)
		}
	}
	return to
}

// stateOf is the state of a broker's replica of any partition.
func (im *Image) stateOf(id PartitionID, b BrokerID) (ReplicaState, string) {
	if p, ok := im.Partition(id); ok {
		return im.ReplicaState(p, b)
	}
	d, _ := im.PendingDeletion(id.Topic)
	if i, ok := d.find(b); ok {
		return im.DeletionState(d.Replicas[i])
	}
	return ReplicaNonExistent, ""
}

func partitionWay(from, to PartitionState) []PartitionState {
	way := []PartitionState{from}
	switch {
	case from == PartitionNonExistent:
		way = append(way, PartitionNew)
	case to == PartitionNonExistent && from == PartitionOnline:
		way = append(way, PartitionOffline)
	}
	return append(way, to)
}

func replicaWay(from, to ReplicaState) []ReplicaState {
	way := []ReplicaState{from}
	for from != to {
		from = nextReplicaState(from, to)
		way = append(way, from)
	}
	return way
}

// nextReplicaState is the next one on the way to another state.
func nextReplicaState(from, to ReplicaState) ReplicaState {
	switch {
	case from == ReplicaNonExistent:
		return ReplicaNew
	case from == ReplicaDeletionSuccessful:
		return ReplicaNonExistent
	case to == ReplicaNew || to == ReplicaOnline || to == ReplicaOffline:
		return to
	}
	// The way ends in a deletion, or behind one.
	switch {
	case from == ReplicaNew || from == ReplicaOnline || from == ReplicaDeletionIneligible:
		return ReplicaOffline
	case to == ReplicaDeletionIneligible:
		return ReplicaDeletionIneligible
	case from == ReplicaOffline:
		return ReplicaDeletionStarted
	}
	return ReplicaDeletionSuccessful
}
