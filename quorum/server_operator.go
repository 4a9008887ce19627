package quorum

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

func operatorCause(ctx context.Context, name, requestID string) *metadatapb.Cause {
	return &metadatapb.Cause{Name: name, Principal: principalOf(ctx), RequestId: requestID}
}

// CreatePartitions implements OperatorApi.
func (s *operatorServer) CreatePartitions(ctx context.Context, r *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error) {
	response, im, err := ask(ctx, s.n, operatorCause(ctx, "CreatePartitions", r.GetRequestId()), r, controller.CreatePartitions, controller.CreatePartitionsExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// AlterConfigs implements OperatorApi. What the values mean for partitions as they are is decided right after, before any
// other request, and the answer rests on both.
func (s *operatorServer) AlterConfigs(ctx context.Context, r *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error) {
	n, cause := s.n, operatorCause(ctx, "AlterConfigs", r.GetRequestId())
	response, im, err := await[*controllerpb.AlterConfigsResponse](ctx, n.loop, &operation{
		ctx: ctx, cause: cause, bytes: int64(proto.Size(r)),
		extent: func(v controller.View) controller.Extent { return controller.AlterConfigsExtent(v, r) },
		decide: func(v controller.View) plan {
			d, err := controller.AlterConfigs(v, r)
			p := planOf(d, err)
			if concern := controller.ConcernOf(d.Records); !concern.IsNone() {
				p.then = applyConfigs(cause, concern)
			}
			return p
		},
	})
	if err != nil {
		return nil, refusal(err, n.activeController())
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// applyConfigs is the event that follows a change of configs, on behalf of who made it.
func applyConfigs(because *metadatapb.Cause, concern controller.Concern) *operation {
	return &operation{
		cause:  &metadatapb.Cause{Name: "ApplyConfigs", Principal: because.GetPrincipal(), RequestId: because.GetRequestId()},
		decide: func(v controller.View) plan { return planOf(controller.ApplyConfigs(v, concern)) },
		extent: func(v controller.View) controller.Extent { return controller.ApplyConfigsExtent(v, concern) },
	}
}

// ElectLeaders implements OperatorApi.
func (s *operatorServer) ElectLeaders(ctx context.Context, r *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
	response, im, err := ask(ctx, s.n, operatorCause(ctx, "ElectLeaders", r.GetRequestId()), r, controller.ElectLeaders, controller.ElectLeadersExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// AlterPartitionReassignments implements OperatorApi.
func (s *operatorServer) AlterPartitionReassignments(ctx context.Context, r *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error) {
	response, im, err := ask(ctx, s.n, operatorCause(ctx, "AlterPartitionReassignments", r.GetRequestId()), r, controller.AlterPartitionReassignments, controller.AlterPartitionReassignmentsExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// ConfirmLineage implements OperatorApi.
func (s *operatorServer) ConfirmLineage(ctx context.Context, r *controllerpb.ConfirmLineageRequest) (*controllerpb.ConfirmLineageResponse, error) {
	response, im, err := ask(ctx, s.n, operatorCause(ctx, "ConfirmLineage", r.GetRequestId()), r, controller.ConfirmLineage, nil)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// UnregisterBroker implements OperatorApi.
func (s *operatorServer) UnregisterBroker(ctx context.Context, r *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
	cause := operatorCause(ctx, "UnregisterBroker", r.GetRequestId())
	id := r.GetBrokerId()
	cause.BrokerId = &id
	response, im, err := ask(ctx, s.n, cause, r, controller.UnregisterBroker, controller.UnregisterBrokerExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// UpdateFeatures implements OperatorApi. A controller that is in Raft's configuration has a say, registered or not: nobody
// joins meanwhile.
func (s *operatorServer) UpdateFeatures(ctx context.Context, r *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error) {
	if !r.GetValidateOnly() {
		end, err := s.n.beginChange(ctx, "feature update")
		if err != nil {
			return nil, refusal(err, s.n.activeController())
		}
		defer end()
	}
	configuration, err := s.n.raft.GetConfiguration()
	if err != nil {
		return nil, refusal(err, s.n.activeController())
	}
	var members []image.BrokerID
	for _, server := range configuration.Servers {
		members = append(members, image.BrokerID(server.ID.NodeID))
	}
	decide := func(v controller.View, r *controllerpb.UpdateFeaturesRequest) (controller.Decision[*controllerpb.UpdateFeaturesResponse], error) {
		v.Members = members
		return controller.UpdateFeatures(v, r)
	}
	response, im, err := ask(ctx, s.n, operatorCause(ctx, "UpdateFeatures", r.GetRequestId()), r, decide, controller.UpdateFeaturesExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// unfenced are the brokers that serve at an image.
func unfenced(im *image.Image) []int32 {
	var ids []int32
	for b := range im.Brokers() {
		if !b.Fenced {
			ids = append(ids, int32(b.ID))
		}
	}
	return ids
}
