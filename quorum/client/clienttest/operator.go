package clienttest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// CreatePartitions implements OperatorApi.
func (c *Controller) CreatePartitions(ctx context.Context, r *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.CreatePartitions)
}

// AlterConfigs implements OperatorApi.
func (c *Controller) AlterConfigs(ctx context.Context, r *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.AlterConfigs)
}

// ElectLeaders implements OperatorApi.
func (c *Controller) ElectLeaders(ctx context.Context, r *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.ElectLeaders)
}

// AlterPartitionReassignments implements OperatorApi.
func (c *Controller) AlterPartitionReassignments(ctx context.Context, r *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.AlterPartitionReassignments)
}

// UnregisterBroker implements OperatorApi.
func (c *Controller) UnregisterBroker(ctx context.Context, r *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.UnregisterBroker)
}

// UpdateFeatures implements OperatorApi.
func (c *Controller) UpdateFeatures(ctx context.Context, r *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.UpdateFeatures)
}

// DescribeFeatures implements ReaderApi.
func (c *Controller) DescribeFeatures(ctx context.Context, r *controllerpb.DescribeFeaturesRequest) (*controllerpb.DescribeFeaturesResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.DescribeFeatures)
}

// ListReassignments implements ReaderApi.
func (c *Controller) ListReassignments(ctx context.Context, r *controllerpb.ListReassignmentsRequest) (*controllerpb.ListReassignmentsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.ListReassignments)
}

// DescribeConfigs implements ReaderApi.
func (c *Controller) DescribeConfigs(ctx context.Context, r *controllerpb.DescribeConfigsRequest) (*controllerpb.DescribeConfigsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.DescribeConfigs)
}

// ListDeletions implements ReaderApi.
func (c *Controller) ListDeletions(ctx context.Context, r *controllerpb.ListDeletionsRequest) (*controllerpb.ListDeletionsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.ListDeletions)
}

// CheckStop implements ReaderApi.
func (c *Controller) CheckStop(ctx context.Context, r *controllerpb.CheckStopRequest) (*controllerpb.CheckStopResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.CheckStop)
}

// ReadLog implements ReaderApi.
func (c *Controller) ReadLog(r *controllerpb.ReadLogRequest, s grpc.ServerStreamingServer[controllerpb.ReadLogResponse]) error {
	h, _ := c.now()
	if h.ReadLog == nil {
		return status.Error(codes.Unimplemented, "not set")
	}
	return h.ReadLog(r, s)
}

// DescribeReplicas implements ReplicaStatusApi.
func (c *Controller) DescribeReplicas(ctx context.Context, r *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.DescribeReplicas)
}

// ConfirmLineage implements OperatorApi.
func (c *Controller) ConfirmLineage(ctx context.Context, r *controllerpb.ConfirmLineageRequest) (*controllerpb.ConfirmLineageResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.ConfirmLineage)
}
