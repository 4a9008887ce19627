package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ElectionType says what an operator asks for (KIP-460).
type ElectionType int

const (
	// PreferredElection makes the first replica the leader.
	PreferredElection ElectionType = iota
	// UncleanElection gives a leader to a partition without one, from outside the ISR if nobody in it can lead.
	UncleanElection
)

// ElectLeadersRequest asks for elections.
type ElectLeadersRequest struct {
	Type ElectionType
	// Partitions to elect for; nil for all.
	Partitions []ElectableTopicPartition
	// ValidateOnly decides and writes nothing.
	ValidateOnly bool
}

// ElectableTopicPartition names a partition by topic name.
type ElectableTopicPartition struct {
	Topic     string
	Partition int32
	// Candidate is who shall lead if the election is unclean; [image.NoBroker] for the first that can.
	Candidate image.BrokerID
}

// PartitionResult is the answer for one partition.
type PartitionResult struct {
	Topic     string
	Partition int32
	// Err is nil for NONE.
	Err *controllerpb.Error
}

// ElectLeadersResponse holds the answers in the order of the request.
type ElectLeadersResponse struct {
	Results []PartitionResult
	// Records that would be written, with ValidateOnly.
	Records []*metadatapb.Record
}

// ElectLeaders elects by request. The partitions do not affect each other; configs on unclean elections are ignored.
//
//	UNKNOWN_TOPIC_OR_PARTITION        no such topic or partition
//	INVALID_REQUEST                   the partition stands in the request a second time
//	ELECTION_NOT_NEEDED               preferred: the first replica leads; unclean: there is a leader
//	PREFERRED_LEADER_NOT_AVAILABLE    preferred: the first replica cannot lead, and a leaderless partition got none either
//	ELIGIBLE_LEADERS_NOT_AVAILABLE    unclean: nobody can lead (or the candidate cannot)
//
// A preferred election never leaves the ISR. A request for all partitions answers only for those that changed (KAFKA-13162).
func ElectLeaders(v View, req *ElectLeadersRequest) (Decision[*ElectLeadersResponse], error) {
	d := Decision[*ElectLeadersResponse]{Response: &ElectLeadersResponse{}}
	e := newElectorate(v)
	seen := make(map[image.PartitionID]bool)
	var records []*metadatapb.Record
	for _, t := range req.electables(v.Image) {
		id, p, err := findPartition(v.Image, t.Topic, t.Partition)
		var record *metadatapb.Record
		switch {
		case err != nil:
		case seen[id]:
			err = controllerpb.NewError(codeInvalidRequest, "the partition stands in the request twice")
		default:
			seen[id] = true
			record, err = e.electByRequest(req.Type, id, p, t.Candidate)
		}
		if record != nil {
			records = append(records, record)
		}
		if err == nil || req.Partitions != nil {
			d.Response.Results = append(d.Response.Results, PartitionResult{Topic: t.Topic, Partition: t.Partition, Err: err})
		}
	}
	if req.ValidateOnly {
		d.Response.Records = records
	} else {
		d.Records = records
	}
	return d, nil
}

// electables lists what a request is about; for all partitions only those that can need an election.
func (r *ElectLeadersRequest) electables(im *image.Image) []ElectableTopicPartition {
	if r.Partitions != nil {
		return r.Partitions
	}
	var list []ElectableTopicPartition
	add := func(id image.PartitionID) {
		if t, ok := im.TopicByID(id.Topic); ok {
			list = append(list, ElectableTopicPartition{Topic: t.Name(), Partition: id.Partition, Candidate: image.NoBroker})
		}
	}
	if r.Type == PreferredElection {
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
		return image.PartitionID{}, image.Partition{}, controllerpb.NewError(codeUnknownTopicOrPartition, "no topic has the name %q", topic)
	}
	p, ok := t.Partition(partition)
	if !ok {
		return image.PartitionID{}, p, controllerpb.NewError(codeUnknownTopicOrPartition, "topic %s has partitions 0 to %d, not %d", topic, t.Len()-1, partition)
	}
	return image.PartitionID{Topic: t.ID(), Partition: partition}, p, nil
}

func (e *electorate) electByRequest(kind ElectionType, id image.PartitionID, p image.Partition, candidate image.BrokerID) (*metadatapb.Record, *controllerpb.Error) {
	if kind == PreferredElection {
		if p.Leader == p.Replicas[0] {
			return nil, controllerpb.NewError(codeElectionNotNeeded, "the preferred replica %v leads", p.Leader)
		}
		if record, _ := e.electPreferred(id, p); record != nil {
			return record, nil
		}
		return nil, controllerpb.NewError(codePreferredLeaderNotAvailable, "the preferred replica %v is fenced, shutting down or not in the ISR %s", p.Replicas[0], image.FormatReplicas(p.ISR))
	}
	if p.Leader != image.NoBroker {
		return nil, controllerpb.NewError(codeElectionNotNeeded, "broker %v leads", p.Leader)
	}
	c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION)
	c.mode, c.candidate = electUnclean, candidate
	record, after := c.build()
	if record == nil || after.Leader == image.NoBroker {
		return nil, controllerpb.NewError(codeEligibleLeadersNotAvailable, "none of the replicas %s can lead", image.FormatReplicas(p.Replicas))
	}
	return record, nil
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
