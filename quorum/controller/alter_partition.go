package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// AlterPartition commits what partition leaders propose for their ISRs (KIP-497). One request is one decision with an
// answer for each partition; the partitions do not affect each other.
//
// Refusal of the whole request:
//
//	STALE_BROKER_EPOCH  the sender is not registered, or under another epoch
//	POLICY_VIOLATION    more partitions than one request may name
//
// Refusals of one partition, in this order. "I know less than you" is retriable, "you know less than I" is final (KAFKA-14154):
//
//	UNKNOWN_TOPIC_ID            no such topic; all its partitions get it
//	UNKNOWN_TOPIC_OR_PARTITION  no such partition
//	INVALID_REQUEST             the partition stands in the request a second time
//	NOT_CONTROLLER              leader epoch ahead of ours; then partition epoch ahead of ours
//	FENCED_LEADER_EPOCH         leader epoch behind ours
//	INVALID_REQUEST             the sender is not the leader
//	INVALID_UPDATE_VERSION      partition epoch behind ours
//	INVALID_REQUEST             the ISR holds a broker twice, or one that is not a replica, or lacks the leader (fluss #3927)
//	INVALID_REQUEST             recovering with more than one member, or turning back to recovering (KIP-704)
//	INELIGIBLE_REPLICA          a member is not registered, shutting down, fenced (KIP-841), or was fetched from under
//	                            another broker epoch than it has now (KIP-903)
//
// No difference: answered with the values as they are, nothing written. If the change ends a reassignment and with it
// the sender's leadership the answer is NEW_LEADER_ELECTED, and the change is written all the same.
//
// An answer tells the min.insync.replicas that the ELR was decided by: it may overtake the metadata that raised it.
func AlterPartition(v View, req *controllerpb.AlterPartitionRequest) (Decision[*controllerpb.AlterPartitionResponse], error) {
	var d Decision[*controllerpb.AlterPartitionResponse]
	if _, err := checkBrokerEpoch(v.Image, req.GetBrokerId(), req.GetBrokerEpoch()); err != nil {
		return d, err
	}
	if n := countItems(req); n > alterPartitionItemsMax {
		return d, controllerpb.Refuse(codePolicyViolation, "the request names %d partitions, at most %d are taken: split it", n, alterPartitionItemsMax)
	}
	a := alteration{
		view: v, electorate: newElectorate(v), sender: image.BrokerID(req.GetBrokerId()),
		seen: make(map[image.PartitionID]bool),
	}
	d.Response = &controllerpb.AlterPartitionResponse{}
	for _, t := range req.GetTopics() {
		result := &controllerpb.AlterPartitionTopicResult{TopicId: t.GetTopicId()}
		id, err := image.UUIDFrom(t.GetTopicId())
		topic, known := v.Image.TopicByID(id)
		for _, item := range t.GetPartitions() {
			var answer *controllerpb.AlterPartitionResult
			if err != nil || !known {
				answer = refusePartition(item, controllerpb.NewError(codeUnknownTopicID, "no topic has the id %x", t.GetTopicId()))
			} else {
				var record *metadatapb.Record
				if record, answer = a.alter(topic, item); record != nil {
					d.Records = append(d.Records, record)
				}
			}
			result.Partitions = append(result.Partitions, answer)
		}
		d.Response.Topics = append(d.Response.Topics, result)
	}
	d.Response.MetadataOffset = int64(v.lastOffset()) + int64(len(d.Records))
	return d, nil
}

// alterPartitionItemsMax bounds the partitions of one request, as brokers do.
const alterPartitionItemsMax = 10000

func countItems(req *controllerpb.AlterPartitionRequest) int {
	n := 0
	for _, t := range req.GetTopics() {
		n += max(len(t.GetPartitions()), 1)
	}
	return n
}

// alteration is one request under way.
type alteration struct {
	view       View
	electorate *electorate
	sender     image.BrokerID
	seen       map[image.PartitionID]bool
}

func (a *alteration) alter(topic image.Topic, item *controllerpb.AlterPartitionItem) (*metadatapb.Record, *controllerpb.AlterPartitionResult) {
	p, ok := topic.Partition(item.GetPartition())
	if !ok {
		return nil, refusePartition(item, controllerpb.NewError(codeUnknownTopicOrPartition,
			"topic %s has partitions 0 to %d, not %d", topic.Name(), topic.Len()-1, item.GetPartition()))
	}
	id := image.PartitionID{Topic: topic.ID(), Partition: item.GetPartition()}
	if a.seen[id] {
		return nil, refusePartition(item, controllerpb.NewError(codeInvalidRequest, "the partition stands in the request twice"))
	}
	a.seen[id] = true
	if err := a.check(p, item); err != nil {
		return nil, refusePartition(item, err)
	}
	c := a.electorate.changePartition(id, p, alterReason(p, item))
	c.isr = make([]image.BrokerID, len(item.GetIsr()))
	for i, m := range item.GetIsr() {
		c.isr[i] = image.BrokerID(m.GetBrokerId())
	}
	c.recovering = item.GetLeaderRecoveryState() == metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	record, after := c.build()
	answer := &controllerpb.AlterPartitionResult{Partition: item.GetPartition()}
	if after.Leader != p.Leader {
		answer.Error = controllerpb.NewError(codeNewLeaderElected,
			"the change ended a reassignment, and broker %v no longer leads: wait for the metadata log", p.Leader)
		return record, answer
	}
	leader := int32(after.Leader)
	answer.Leader = &leader
	answer.LeaderEpoch, answer.PartitionEpoch = int32(after.LeaderEpoch), int32(after.PartitionEpoch)
	answer.Isr, answer.LeaderRecoveryState = image.Int32s(after.ISR), recoveryState(after.Recovering)
	answer.MinInsyncReplicas = int32(c.minInsyncReplicas())
	return record, answer
}

func refusePartition(item *controllerpb.AlterPartitionItem, err *controllerpb.Error) *controllerpb.AlterPartitionResult {
	return &controllerpb.AlterPartitionResult{Partition: item.GetPartition(), Error: err}
}

// alterReason takes the sender's word where it makes sense, and else the ISR's.
func alterReason(p image.Partition, item *controllerpb.AlterPartitionItem) metadatapb.ChangeReason {
	switch item.GetReason() {
	case metadatapb.ChangeReason_CHANGE_REASON_LAG, metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP,
		metadatapb.ChangeReason_CHANGE_REASON_RECOVERED:
		return item.GetReason()
	}
	if len(item.GetIsr()) < len(p.ISR) {
		return metadatapb.ChangeReason_CHANGE_REASON_LAG
	}
	if len(item.GetIsr()) == len(p.ISR) && p.Recovering {
		return metadatapb.ChangeReason_CHANGE_REASON_RECOVERED
	}
	return metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP
}
