package clienttest

import (
	"context"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// AddController implements OperatorApi.
func (c *Controller) AddController(ctx context.Context, r *controllerpb.AddControllerRequest) (*controllerpb.AddControllerResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.AddController)
}

// RemoveController implements OperatorApi.
func (c *Controller) RemoveController(ctx context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.RemoveController)
}

// TransferLeadership implements OperatorApi.
func (c *Controller) TransferLeadership(ctx context.Context, r *controllerpb.TransferLeadershipRequest) (*controllerpb.TransferLeadershipResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.TransferLeadership)
}
