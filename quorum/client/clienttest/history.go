package clienttest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// ReadHistory implements ReaderApi.
func (c *Controller) ReadHistory(r *controllerpb.ReadHistoryRequest, s grpc.ServerStreamingServer[controllerpb.ReadHistoryResponse]) error {
	h, _ := c.now()
	if h.ReadHistory == nil {
		return status.Error(codes.Unimplemented, "not set")
	}
	return h.ReadHistory(r, s)
}
