package controller

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// AlterPartitionReassignments starts, re-targets or cancels reassignments, in one atomic decision.
//
//	UNKNOWN_TOPIC_OR_PARTITION      no such topic or partition
//	INVALID_REQUEST                 the partition stands in the request a second time
//	NO_REASSIGNMENT_IN_PROGRESS     cancel: there is nothing to cancel
//	INVALID_REPLICA_ASSIGNMENT      cancel: none of the original replicas may lead cleanly (a member of the ISR, of the ELR if
//	                                that is empty, or the last known leader if both are), while another one may, and the
//	                                topic forbids unclean elections
//	INVALID_REPLICA_ASSIGNMENT      start: no replicas, one that is not registered, or one twice
//	INVALID_REPLICATION_FACTOR      start: another number of replicas, and the request keeps the number (KIP-860)
//	POLICY_VIOLATION                the whole request: more records or bytes than one batch may have
//
// The replicas become the target followed by those that are to go. Adding are those of the target that were not replicas
// before the move began, removing those that are not in the target. The ISR stays; a target that is in sync ends the
// move at once. Fenced brokers may be in a target. No unclean election is made for it.
//
// A cancel restores the original replicas in their order, also after several targets (Kafka undoes only the last one).
func AlterPartitionReassignments(v View, req *controllerpb.AlterPartitionReassignmentsRequest) (Decision[*controllerpb.AlterPartitionReassignmentsResponse], error) {
	d := Decision[*controllerpb.AlterPartitionReassignmentsResponse]{Atomic: true, Response: &controllerpb.AlterPartitionReassignmentsResponse{}}
	if err := v.Limits.CheckAtomic(len(req.GetPartitions()), 0); err != nil {
		return Decision[*controllerpb.AlterPartitionReassignmentsResponse]{}, err
	}
	e := newElectorate(v)
	seen := make(map[image.PartitionID]bool)
	var records []*metadatapb.Record
	for _, r := range req.GetPartitions() {
		id, p, err := findPartition(v.Image, r.GetTopic(), r.GetPartition())
		var record *metadatapb.Record
		switch {
		case err != nil:
		case seen[id]:
			err = partitionRepeated()
		case r.Replicas == nil:
			seen[id] = true
			record, err = e.cancelReassignment(id, p)
		default:
			seen[id] = true
			record, err = e.startReassignment(id, p, r.GetReplicas().GetIds(), req.GetKeepReplicationFactor())
		}
		if record != nil {
			records = append(records, record)
		}
		d.Response.Results = append(d.Response.Results, &controllerpb.ReassignmentResult{Topic: r.GetTopic(), Partition: r.GetPartition(), Error: err})
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*controllerpb.AlterPartitionReassignmentsResponse]{}, err
	}
	if req.GetValidateOnly() {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

func (e *electorate) startReassignment(id image.PartitionID, p image.Partition, replicas []int32, keepFactor bool) (*metadatapb.Record, *controllerpb.Error) {
	target, err := checkReplicas(e.im, id.Partition, replicas)
	if err != nil {
		return nil, err
	}
	if factor := len(image.Without(p.Replicas, p.RemovingReplicas...)); keepFactor && len(target) != factor {
		return nil, controllerpb.NewError(codeInvalidReplicationFactor,
			"the target %s has %d replicas, the partition has %d and the request keeps the number: give as many", image.FormatReplicas(target), len(target), factor)
	}
	original := p.OriginalReplicas
	if !p.IsReassigning() {
		original = p.Replicas
	}
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_STARTED)
	c.mode = electOnline
	removing := image.Without(p.Replicas, target...)
	slices.Sort(removing)
	adding := image.Without(target, original...)
	slices.Sort(adding)
	c.replicas, c.removing, c.adding = image.With(target, removing...), removing, adding
	c.original = nil
	if len(removing) > 0 || len(adding) > 0 {
		c.original = original
	}
	record, _ := c.build()
	return record, nil
}

func (e *electorate) cancelReassignment(id image.PartitionID, p image.Partition) (*metadatapb.Record, *controllerpb.Error) {
	if !p.IsReassigning() {
		return nil, controllerpb.NewError(codeNoReassignmentInProgress, "the partition is not being reassigned, so there is nothing to cancel: `quorate partition reassignments` lists the moves")
	}
	original := p.OriginalReplicas
	if len(original) == 0 {
		original = image.Without(p.Replicas, p.AddingReplicas...)
	}
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED)
	where, candidates := candidatesOf(p)
	lost := len(candidates) > 0 && len(image.Intersect(candidates, original)) == 0
	if lost && c.mode != electUnclean {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment,
			"none of the original replicas %s is in the %s %s, and unclean.leader.election.enable is off: let the reassignment end",
			image.FormatReplicas(original), where, image.FormatReplicas(candidates))
	}
	c.isr = image.Intersect(p.ISR, original)
	c.replicas, c.adding, c.removing, c.original = original, nil, nil, nil
	record, after := c.build()
	if lost && len(after.ISR) == 0 {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "none of the original replicas %s can lead: let the reassignment end", image.FormatReplicas(original))
	}
	return record, nil
}

// candidatesOf returns the replicas that hold what is acknowledged, as far as any is known to, and the list they are in: who
// leads next without an unclean election is one of them (KIP-966).
func candidatesOf(p image.Partition) (list string, ids []image.BrokerID) {
	switch {
	case len(p.ISR) > 0:
		return "ISR", p.ISR
	case len(p.ELR) > 0:
		return "ELR", p.ELR
	default:
		return "last known ELR", p.LastKnownELR
	}
}
