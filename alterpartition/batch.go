package alterpartition

import (
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// codeUnknownServerError is Kafka's UNKNOWN_SERVER_ERROR, which no controller of ours sends. It settles an answer that
// cannot be read; the partition repeats its proposal.
const codeUnknownServerError controllerpb.ErrorCode = -1

// buildRequest groups items by topic, topics and partitions in the order of the items.
func buildRequest(id image.BrokerID, epoch image.BrokerEpoch, items []Item) *controllerpb.AlterPartitionRequest {
	r := &controllerpb.AlterPartitionRequest{BrokerId: int32(id), BrokerEpoch: int64(epoch)}
	topics := make(map[image.TopicID]*controllerpb.AlterPartitionTopic)
	for _, item := range items {
		topic := topics[item.Partition.Topic]
		if topic == nil {
			topic = &controllerpb.AlterPartitionTopic{TopicId: item.Partition.Topic.Bytes()}
			topics[item.Partition.Topic] = topic
			r.Topics = append(r.Topics, topic)
		}
		topic.Partitions = append(topic.Partitions, buildItem(item))
	}
	return r
}

func buildItem(item Item) *controllerpb.AlterPartitionItem {
	p := item.Proposal
	out := &controllerpb.AlterPartitionItem{
		Partition: item.Partition.Partition, LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED, Reason: p.Kind.Reason(),
		Isr: make([]*controllerpb.IsrMember, len(p.ISR)),
	}
	for i, m := range p.ISR {
		member := &controllerpb.IsrMember{BrokerId: int32(m.ID)}
		if m.Epoch != image.NoBrokerEpoch {
			epoch := int64(m.Epoch)
			member.BrokerEpoch = &epoch
		}
		out.Isr[i] = member
	}
	return out
}

// readResponse finds the answer to each item; nil for an item that the response leaves out. Answers to what was not asked
// are ignored, as is every answer to a partition after its first.
func readResponse(items []Item, r *controllerpb.AlterPartitionResponse) []*partition.AlterPartitionAnswered {
	at := make(map[image.PartitionID]int, len(items))
	for i, item := range items {
		at[item.Partition] = i
	}
	answers := make([]*partition.AlterPartitionAnswered, len(items))
	for _, topic := range r.GetTopics() {
		id, err := image.UUIDFrom(topic.GetTopicId())
		if err != nil {
			continue
		}
		for _, result := range topic.GetPartitions() {
			i, asked := at[image.PartitionID{Topic: id, Partition: result.GetPartition()}]
			if !asked || answers[i] != nil {
				continue
			}
			answers[i] = readResult(items[i].Proposal, result, image.MetadataOffset(r.GetMetadataOffset()))
		}
	}
	return answers
}

func readResult(p *partition.Proposal, r *controllerpb.AlterPartitionResult, offset image.MetadataOffset) *partition.AlterPartitionAnswered {
	a := &partition.AlterPartitionAnswered{
		Proposal: p, Code: r.GetError().GetCode(), LeaderEpoch: image.LeaderEpoch(r.GetLeaderEpoch()),
		PartitionEpoch: image.PartitionEpoch(r.GetPartitionEpoch()), ISR: image.BrokerIDs(r.GetIsr()),
		MinISR: int(r.GetMinInsyncReplicas()), MetadataOffset: offset,
	}
	if a.Code == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED && !isReadable(r) {
		a.Code = codeUnknownServerError
	}
	return a
}

// isReadable tells whether an accepted change is told completely.
func isReadable(r *controllerpb.AlterPartitionResult) bool {
	switch r.GetLeaderRecoveryState() {
	case metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
		metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING:
		return len(r.GetIsr()) > 0
	default:
		return false
	}
}
