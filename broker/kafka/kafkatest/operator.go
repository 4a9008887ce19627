package kafkatest

import (
	"context"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// The changes below are made as a small controller would make them: enough of its rules to see each answer.

// change makes a change under the lock, with what every answer says of it.
func (b *Backend) change(requestID string, make func()) (offset int64, brokers []int32, err error) {
	if err := ask(b.Refuse); err != nil {
		return 0, nil, err
	}
	b.mu.Lock()
	b.requests = append(b.requests, requestID)
	make()
	offset, brokers = int64(b.offset), []int32{int32(b.id)}
	b.mu.Unlock()
	return offset, brokers, ask(b.ApplyThenFail)
}

// find returns a partition and its topic's id.
func (b *Backend) find(topic string, partition int32) (id image.TopicID, p image.Partition, ok bool) {
	t, ok := b.im.TopicByName(topic)
	if !ok {
		return id, p, false
	}
	p, ok = t.Partition(partition)
	return t.ID(), p, ok
}

func noSuch(topic string) *controllerpb.Error {
	return controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "no topic has the name %q", topic)
}

// CreatePartitions implements [kafka.Admin].
func (b *Backend) CreatePartitions(_ context.Context, _ kafka.Caller, req *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error) {
	resp := &controllerpb.CreatePartitionsResponse{}
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		for _, t := range req.GetTopics() {
			out := &controllerpb.CreatePartitionsTopicResult{Name: t.GetName()}
			resp.Topics = append(resp.Topics, out)
			topic, ok := b.im.TopicByName(t.GetName())
			switch {
			case !ok:
				out.Error = noSuch(t.GetName())
			case int(t.GetCount()) <= topic.Len() || t.GetCount() > partitionsMax:
				out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS, "there are %d", topic.Len())
			case !req.GetValidateOnly():
				first, _ := topic.Partition(0)
				for i := int32(topic.Len()); i < t.GetCount(); i++ {
					leader := int32(first.Replicas[0])
					b.replay(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
						TopicId: topic.ID().Bytes(), Partition: i, Replicas: image.Int32s(first.Replicas), Isr: image.Int32s(first.Replicas), Leader: &leader,
						LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED}}})
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// AlterConfigs implements [kafka.Admin]: any key may be set.
func (b *Backend) AlterConfigs(_ context.Context, _ kafka.Caller, req *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error) {
	resp := &controllerpb.AlterConfigsResponse{}
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		for _, r := range req.GetResources() {
			out := &controllerpb.AlterableResourceResult{Type: r.GetType(), Name: r.GetName(), Error: b.checkResource(r)}
			resp.Resources = append(resp.Resources, out)
			if out.Error == nil && !req.GetValidateOnly() {
				b.alter(r)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (b *Backend) checkResource(r *controllerpb.AlterableResource) *controllerpb.Error {
	switch r.GetType() {
	case metadatapb.ResourceType_RESOURCE_TYPE_TOPIC:
		if _, ok := b.im.TopicByName(r.GetName()); !ok {
			return noSuch(r.GetName())
		}
	case metadatapb.ResourceType_RESOURCE_TYPE_BROKER:
	default:
		return controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "type %d", r.GetType())
	}
	if slices.ContainsFunc(r.GetChanges(), func(c *controllerpb.ConfigChange) bool {
		known := c.GetOperation() == controllerpb.ConfigOperation_CONFIG_OPERATION_SET && c.Value != nil ||
			c.GetOperation() == controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE
		return !known || c.GetName() == ""
	}) {
		return controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG, "only sets and deletes")
	}
	return nil
}

func (b *Backend) alter(r *controllerpb.AlterableResource) {
	write := func(key string, value *string) {
		b.replay(&metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
			ResourceType: r.GetType(), ResourceName: r.GetName(), Key: key, Value: value}}})
	}
	if r.GetReplace() {
		var old []string
		for key := range b.im.Configs(r.GetType(), r.GetName()) {
			old = append(old, key)
		}
		for _, key := range old {
			write(key, nil)
		}
	}
	for _, c := range r.GetChanges() {
		if c.GetOperation() == controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE {
			c.Value = nil
		}
		write(c.GetName(), c.Value)
	}
}

// ElectLeaders implements [kafka.Admin]: preferred elections only, for named partitions.
func (b *Backend) ElectLeaders(_ context.Context, _ kafka.Caller, req *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
	resp := &controllerpb.ElectLeadersResponse{}
	if req.GetType() == controllerpb.ElectionType_ELECTION_TYPE_UNSPECIFIED {
		return nil, controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "no type")
	}
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		for _, p := range req.GetPartitions() {
			out := &controllerpb.ElectLeadersResult{Topic: p.GetTopic(), Partition: p.GetPartition()}
			resp.Results = append(resp.Results, out)
			id, state, ok := b.find(p.GetTopic(), p.GetPartition())
			switch {
			case !ok:
				out.Error = noSuch(p.GetTopic())
			case state.Leader == state.Replicas[0]:
				out.Error = controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, "it leads")
			default:
				leader := int32(state.Replicas[0])
				b.replay(&metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{
					TopicId: id.Bytes(), Partition: p.GetPartition(), Leader: &metadatapb.LeaderChange{Leader: &leader}}}})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// AlterPartitionReassignments implements [kafka.Admin]: a move begins and never ends.
func (b *Backend) AlterPartitionReassignments(_ context.Context, _ kafka.Caller, req *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error) {
	resp := &controllerpb.AlterPartitionReassignmentsResponse{}
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		for _, p := range req.GetPartitions() {
			resp.Results = append(resp.Results, &controllerpb.ReassignmentResult{
				Topic: p.GetTopic(), Partition: p.GetPartition(), Error: b.move(p, req.GetKeepReplicationFactor()),
			})
		}
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (b *Backend) move(p *controllerpb.ReassignablePartition, keepFactor bool) *controllerpb.Error {
	id, state, ok := b.find(p.GetTopic(), p.GetPartition())
	target := image.BrokerIDs(p.GetReplicas().GetIds())
	change := &metadatapb.PartitionChange{TopicId: id.Bytes(), Partition: p.GetPartition()}
	list := func(ids []image.BrokerID) *metadatapb.BrokerIds { return &metadatapb.BrokerIds{Ids: image.Int32s(ids)} }
	switch {
	case !ok:
		return noSuch(p.GetTopic())
	case p.GetReplicas() == nil && !state.IsReassigning():
		return controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_NO_REASSIGNMENT_IN_PROGRESS, "it does not move")
	case keepFactor && len(target) != len(state.Replicas):
		return controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "another number")
	case p.GetReplicas() == nil:
		change.Replicas, change.AddingReplicas, change.RemovingReplicas = list(state.OriginalReplicas), list(nil), list(nil)
		change.OriginalReplicas = list(nil)
	default:
		removing := image.Without(state.Replicas, target...)
		change.Replicas, change.AddingReplicas = list(image.With(target, removing...)), list(image.Without(target, state.Replicas...))
		change.RemovingReplicas, change.OriginalReplicas = list(removing), list(state.Replicas)
	}
	b.replay(&metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: change}})
	return nil
}

// UnregisterBroker implements [kafka.Admin].
func (b *Backend) UnregisterBroker(_ context.Context, _ kafka.Caller, req *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
	resp := &controllerpb.UnregisterBrokerResponse{}
	known := true
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		var broker image.Broker
		if broker, known = b.im.Broker(image.BrokerID(req.GetBrokerId())); known {
			b.replay(&metadatapb.Record{Kind: &metadatapb.Record_UnregisterBroker{UnregisterBroker: &metadatapb.UnregisterBroker{
				BrokerId: req.GetBrokerId(), BrokerEpoch: int64(broker.Epoch)}}})
		}
	})
	if err == nil && !known {
		err = controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, "broker %s is not registered", strconv.Itoa(int(req.GetBrokerId())))
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// UpdateFeatures implements [kafka.Admin]: every node supports levels 0 and 1 of every feature.
func (b *Backend) UpdateFeatures(_ context.Context, _ kafka.Caller, req *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error) {
	resp := &controllerpb.UpdateFeaturesResponse{}
	refused := false
	var err error
	resp.MetadataOffset, resp.UnfencedBrokers, err = b.change(req.GetRequestId(), func() {
		refused = slices.ContainsFunc(req.GetUpdates(), func(u *controllerpb.FeatureUpdate) bool {
			old, up := b.im.Feature(u.GetName()), u.GetType() == controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
			return u.GetLevel() > 1 || up && u.GetLevel() < old || !up && u.GetLevel() > old
		})
		for _, u := range req.GetUpdates() {
			if !refused && !req.GetValidateOnly() {
				b.replay(&metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: u.GetName(), Level: u.GetLevel()}}})
			}
		}
	})
	if err == nil && refused {
		err = controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, "not that level")
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// DescribeQuorum implements [kafka.Admin]: three controllers, one of which does not answer, and this broker.
func (b *Backend) DescribeQuorum(context.Context) (kafka.Quorum, error) {
	if err := ask(b.Refuse); err != nil {
		return kafka.Quorum{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	replica := func(id image.BrokerID, offset image.MetadataOffset, heardMs int64) kafka.QuorumReplica {
		return kafka.QuorumReplica{ID: id, DirectoryID: image.UUID{15: byte(id)}, MetadataOffset: offset, HeardMs: heardMs}
	}
	return kafka.Quorum{
		Leader: 1001, ControllerEpoch: 3, MetadataOffset: b.offset,
		Voters:    []kafka.QuorumReplica{replica(1001, b.offset, 1000), replica(1002, b.offset-1, 1000), replica(1003, image.NoOffset, -1)},
		Observers: []kafka.QuorumReplica{replica(b.id, b.offset, 900)},
	}, nil
}
