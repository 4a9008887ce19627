package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ElectLeaders elects by request. The partitions do not affect each other; configs on unclean elections are ignored.
//
//	UNKNOWN_TOPIC_OR_PARTITION        no such topic or partition
//	INVALID_REQUEST                   the partition stands in the request a second time
//	ELECTION_NOT_NEEDED               preferred: the first replica leads; unclean: there is a leader
//	PREFERRED_LEADER_NOT_AVAILABLE    preferred: the first replica cannot lead, and a leaderless partition got none either
//	ELIGIBLE_LEADERS_NOT_AVAILABLE    unclean: nobody can lead (or the candidate cannot)
//
// Refusal of the whole request:
//
//	INVALID_REQUEST                   no election type, or partitions named together with all of them
//	POLICY_VIOLATION                  more partitions are named than one batch may have records
//
// A preferred election never leaves the ISR. A request for all partitions answers only for those that changed (KAFKA-13162).
func ElectLeaders(v View, req *controllerpb.ElectLeadersRequest) (Decision[*controllerpb.ElectLeadersResponse], error) {
	d := Decision[*controllerpb.ElectLeadersResponse]{Response: &controllerpb.ElectLeadersResponse{}}
	switch t := req.GetType(); {
	case t != electionPreferred && t != electionUnclean:
		return Decision[*controllerpb.ElectLeadersResponse]{}, controllerpb.Refuse(codeInvalidRequest, "election type %d is unknown: ask for a preferred or an unclean election", t)
	case req.GetAllPartitions() && len(req.GetPartitions()) > 0:
		return Decision[*controllerpb.ElectLeadersResponse]{}, controllerpb.Refuse(codeInvalidRequest, "%d partitions are named together with all partitions: leave one out", len(req.GetPartitions()))
	}
	if err := v.Limits.CheckAtomic(len(req.GetPartitions()), 0); err != nil {
		return Decision[*controllerpb.ElectLeadersResponse]{}, err
	}
	e := newElectorate(v)
	seen := make(map[image.PartitionID]bool)
	var records []*metadatapb.Record
	for _, t := range electables(req, v.Image) {
		id, p, err := findPartition(v.Image, t.GetTopic(), t.GetPartition())
		result := &controllerpb.ElectLeadersResult{Topic: t.GetTopic(), Partition: t.GetPartition()}
		var record *metadatapb.Record
		switch {
		case err != nil:
		case seen[id]:
			err = partitionRepeated()
		default:
			seen[id] = true
			var after image.Partition
			record, after, err = e.electByRequest(req.GetType(), id, p, t.Candidate)
			if record != nil {
				leader := int32(after.Leader)
				result.Leader = &leader
				result.RecordsMayBeLost = !image.Contains(p.ISR, after.Leader) && !image.Contains(p.ELR, after.Leader)
			}
		}
		if record != nil {
			records = append(records, record)
		}
		if err == nil || !req.GetAllPartitions() {
			result.Error = err
			d.Response.Results = append(d.Response.Results, result)
		}
	}
	if req.GetValidateOnly() {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

const (
	electionPreferred = controllerpb.ElectionType_ELECTION_TYPE_PREFERRED
	electionUnclean   = controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN
)

// electables lists what a request is about; for all partitions only those that can need an election.
func electables(req *controllerpb.ElectLeadersRequest, im *image.Image) []*controllerpb.ElectablePartition {
	if !req.GetAllPartitions() {
		return req.GetPartitions()
	}
	var list []*controllerpb.ElectablePartition
	seen := make(map[image.PartitionID]bool)
	add := func(id image.PartitionID) {
		if t, ok := im.TopicByID(id.Topic); ok && !seen[id] {
			seen[id] = true
			list = append(list, &controllerpb.ElectablePartition{Topic: t.Name(), Partition: id.Partition})
		}
	}
	if req.GetType() == electionPreferred {
		for id := range im.NotPreferred() {
			add(id)
		}
	}
	for id := range im.Leaderless() {
		add(id)
	}
	return list
}

func findPartition(im *image.Image, topic string, partition int32) (image.PartitionID, image.Partition, *controllerpb.Error) {
	t, ok := im.TopicByName(topic)
	if !ok {
		return image.PartitionID{}, image.Partition{}, noTopicNamed(topic)
	}
	p, ok := t.Partition(partition)
	if !ok {
		return image.PartitionID{}, p, noSuchPartition(t, partition)
	}
	return image.PartitionID{Topic: t.ID(), Partition: partition}, p, nil
}

// electByRequest returns the record of the election and the partition after it.
func (e *electorate) electByRequest(kind controllerpb.ElectionType, id image.PartitionID, p image.Partition, candidate *int32) (*metadatapb.Record, image.Partition, *controllerpb.Error) {
	if kind == electionPreferred {
		if p.Leader == p.Replicas[0] {
			return nil, p, controllerpb.NewError(codeElectionNotNeeded, "the preferred replica %v leads already: there is nothing to elect", p.Leader)
		}
		if record, after := e.electPreferred(id, p); record != nil {
			return record, after, nil
		}
		return nil, p, controllerpb.NewError(codePreferredLeaderNotAvailable, "the preferred replica %v is fenced, shutting down or not in the ISR %s: bring it back into the ISR, or reassign the partition with another first replica",
			p.Replicas[0], image.FormatReplicas(p.ISR))
	}
	if p.Leader != image.NoBroker {
		return nil, p, controllerpb.NewError(codeElectionNotNeeded, "broker %v leads: an unclean election is for a partition without a leader; a preferred election or a reassignment moves a leader", p.Leader)
	}
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION)
	c.mode = electUnclean
	if candidate != nil {
		c.candidate = image.BrokerID(*candidate)
	}
	record, after := c.build()
	if record == nil || after.Leader == image.NoBroker {
		return nil, p, controllerpb.NewError(codeEligibleLeadersNotAvailable, "none of the replicas %s can lead: start one of their brokers", image.FormatReplicas(p.Replicas))
	}
	return record, after, nil
}

// electPreferred returns a record only if it brings a leader from the ISR or the ELR.
func (e *electorate) electPreferred(id image.PartitionID, p image.Partition) (*metadatapb.Record, image.Partition) {
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_PREFERRED_ELECTION)
	c.mode = electPreferred
	record, after := c.build()
	if record == nil || after.Leader == p.Leader || after.Leader == image.NoBroker || after.Recovering && !p.Recovering {
		return nil, p
	}
	return record, after
}
