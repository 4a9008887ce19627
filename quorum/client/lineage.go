package client

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// lineageKey is the gRPC metadata in which a client tells the newest lineage of the log that it has seen. A controller of an older one
// refuses: it is left from before an offline recovery.
const lineageKey = "quorate-seen-lineage"

// SeenLineage returns the newest lineage that the caller of a gRPC method has seen, 0 if it tells none.
func SeenLineage(ctx context.Context) int32 {
	values := metadata.ValueFromIncomingContext(ctx, lineageKey)
	if len(values) != 1 {
		return 0
	}
	n, err := strconv.ParseInt(values[0], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// tellLineage adds the newest lineage to what is sent.
func (c *Client) tellLineage(ctx context.Context) context.Context {
	if newest := c.newest.Load(); newest > 0 {
		return metadata.AppendToOutgoingContext(ctx, lineageKey, strconv.Itoa(int(newest)))
	}
	return ctx
}

// lineageOptions make every request tell the newest lineage.
func (c *Client) lineageOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			return invoke(c.tellLineage(ctx), method, request, reply, cc, options...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(c.tellLineage(ctx), desc, cc, method, options...)
		}),
	}
}

// see notes a lineage that a controller has told.
func (c *Client) see(lineage int32) {
	for {
		newest := c.newest.Load()
		if lineage <= newest || c.newest.CompareAndSwap(newest, lineage) {
			return
		}
	}
}

// lineageOf is the newest lineage that a status tells of.
func lineageOf(s *controllerpb.NodeStatusResponse) int32 {
	return max(s.GetLineage(), s.GetNewestLineage(), s.GetActiveController().GetLineage())
}
