package broker

import (
	"context"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// openVia opens metadata streams over the connections that a client keeps.
func openVia(c *client.Client) openStream {
	return func(ctx context.Context, address string, r *controllerpb.FollowRequest) (metadataStream, error) {
		conn, err := c.Conn(address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		s, err := controllerpb.NewMetadataStreamClient(conn).Follow(ctx, r)
		if err != nil {
			cancel()
			return nil, err
		}
		return &grpcStream{s, cancel}, nil
	}
}

// grpcStream is a metadata stream that can be ended.
type grpcStream struct {
	grpc.ServerStreamingClient[controllerpb.FollowFrame]
	cancel context.CancelFunc
}

// Close ends the stream; a waiting Recv returns.
func (s *grpcStream) Close() { s.cancel() }
