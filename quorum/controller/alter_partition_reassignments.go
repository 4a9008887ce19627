package controller

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// AlterPartitionReassignmentsRequest starts, re-targets and cancels moves (KIP-455).
type AlterPartitionReassignmentsRequest struct {
	Partitions   []ReassignableTopicPartition
	ValidateOnly bool
}

// ReassignableTopicPartition says where the replicas of a partition shall be.
type ReassignableTopicPartition struct {
	Topic     string
	Partition int32
	// Replicas in order of preference; nil cancels.
	Replicas []int32
}

// AlterPartitionReassignmentsResponse holds the answers in the order of the request.
type AlterPartitionReassignmentsResponse struct {
	Results []PartitionResult
	// Records that would be written, with ValidateOnly.
	Records []*metadatapb.Record
}

// AlterPartitionReassignments starts, re-targets or cancels reassignments, in one atomic decision.
//
//	UNKNOWN_TOPIC_OR_PARTITION      no such topic or partition
//	INVALID_REQUEST                 the partition stands in the request a second time
//	NO_REASSIGNMENT_IN_PROGRESS     cancel: there is nothing to cancel
//	INVALID_REPLICA_ASSIGNMENT      cancel: none of the original replicas is in the ISR, and the topic forbids unclean elections
//	INVALID_REPLICA_ASSIGNMENT      start: no replicas, one that is not registered, or one twice
//	POLICY_VIOLATION                the whole request: more records or bytes than one batch may have
//
// The replicas become the target followed by those that are to go. Adding are those of the target that were not replicas
// before the move began, removing those that are not in the target. The ISR stays; a target that is in sync ends the
// move at once. Fenced brokers may be in a target. No unclean election is made for it.
//
// A cancel restores the original replicas in their order, also after several targets (Kafka undoes only the last one).
func AlterPartitionReassignments(v View, req *AlterPartitionReassignmentsRequest) (Decision[*AlterPartitionReassignmentsResponse], error) {
	d := Decision[*AlterPartitionReassignmentsResponse]{Atomic: true, Response: &AlterPartitionReassignmentsResponse{}}
	if err := v.Limits.CheckAtomic(len(req.Partitions), 0); err != nil {
		return Decision[*AlterPartitionReassignmentsResponse]{}, err
	}
	e := newElectorate(v)
	seen := make(map[image.PartitionID]bool)
	var records []*metadatapb.Record
	for _, r := range req.Partitions {
		id, p, err := findPartition(v.Image, r.Topic, r.Partition)
		var record *metadatapb.Record
		switch {
		case err != nil:
		case seen[id]:
			err = controllerpb.NewError(codeInvalidRequest, "the partition stands in the request twice")
		case r.Replicas == nil:
			seen[id] = true
			record, err = e.cancelReassignment(id, p)
		default:
			seen[id] = true
			record, err = e.startReassignment(id, p, r.Replicas)
		}
		if record != nil {
			records = append(records, record)
		}
		d.Response.Results = append(d.Response.Results, PartitionResult{Topic: r.Topic, Partition: r.Partition, Err: err})
	}
	if err := v.Limits.CheckAtomic(len(records), sizeOf(records)); err != nil {
		return Decision[*AlterPartitionReassignmentsResponse]{}, err
	}
	if req.ValidateOnly {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

func (e *electorate) startReassignment(id image.PartitionID, p image.Partition, replicas []int32) (*metadatapb.Record, *controllerpb.Error) {
	target, err := checkReplicas(e.im, id.Partition, replicas)
	if err != nil {
		return nil, err
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
		return nil, controllerpb.NewError(codeNoReassignmentInProgress, "the partition is not being reassigned")
	}
	original := p.OriginalReplicas
	if len(original) == 0 {
		original = image.Without(p.Replicas, p.AddingReplicas...)
	}
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED)
	c.isr = image.Intersect(p.ISR, original)
	if len(c.isr) == 0 && len(p.ISR) > 0 && c.mode != electUnclean {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment,
			"none of the original replicas %s is in the ISR %s, and unclean.leader.election.enable is off: let the reassignment end",
			image.FormatReplicas(original), image.FormatReplicas(p.ISR))
	}
	c.replicas, c.adding, c.removing, c.original = original, nil, nil, nil
	record, after := c.build()
	if len(after.ISR) == 0 && len(p.ISR) > 0 {
		return nil, controllerpb.NewError(codeInvalidReplicaAssignment, "none of the original replicas %s can lead: let the reassignment end", image.FormatReplicas(original))
	}
	return record, nil
}
