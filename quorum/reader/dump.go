package reader

import (
	"bufio"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

const (
	// pieceBytesMax is the size of one message of a dump.
	pieceBytesMax = 256 << 10
	// dumpWaitMax is how long a node that follows waits for the offset of a dump, which may be on its way. The active
	// controller has the newest and waits for none; who wants to wait for longer names min_offset.
	dumpWaitMax = time.Second
)

// DumpImage streams the canonical JSON of an image.
func (s *Server) DumpImage(r *controllerpb.DumpImageRequest, stream grpc.ServerStreamingServer[controllerpb.DumpImageResponse]) error {
	im, err := s.dumped(stream.Context(), r)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(pieces{stream}, pieceBytesMax)
	if err := im.WriteJSON(out); err != nil {
		return err
	}
	return out.Flush()
}

// dumped is the image that a dump is of.
func (s *Server) dumped(ctx context.Context, r *controllerpb.DumpImageRequest) (*image.Image, error) {
	if r.AtOffset == nil {
		return s.source.Read(ctx, r.GetOptions())
	}
	at := image.MetadataOffset(r.GetAtOffset())
	if at < 0 {
		return nil, client.RefusalStatus(codes.InvalidArgument, &controllerpb.RefusalDetail{Error: controllerpb.NewError(
			controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "metadata offset %d is asked for, and the first one is 0; ask for 0 to %d, the newest here", at, s.source.Status().GetMetadataOffset())}).Err()
	}
	if r.GetOptions().GetMinOffset() > 0 {
		if _, err := s.source.Read(ctx, r.GetOptions()); err != nil {
			return nil, err
		}
	}
	if err := s.awaitOffset(ctx, at); err != nil {
		return nil, err
	}
	return s.source.ReadAt(ctx, at)
}

// awaitOffset refuses an offset that the node does not have, nor gets soon.
func (s *Server) awaitOffset(ctx context.Context, at image.MetadataOffset) error {
	status := s.source.Status()
	if status.GetMetadataOffset() >= int64(at) {
		return nil
	}
	if active := status.GetActiveController(); active == nil || active.GetNodeId() != status.GetNodeId() {
		bounded, cancel := context.WithTimeout(ctx, dumpWaitMax)
		defer cancel()
		wanted := int64(at)
		if _, err := s.source.Read(bounded, &controllerpb.ReadOptions{MinOffset: &wanted}); err == nil || bounded.Err() == nil || ctx.Err() != nil {
			return err
		}
		status = s.source.Status()
	}
	return client.RefusalStatus(codes.OutOfRange, &controllerpb.RefusalDetail{Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE,
		"metadata offset %d is beyond the newest that node %d has applied, which is %d; ask for one up to that, or wait with --min-offset %d",
		at, status.GetNodeId(), status.GetMetadataOffset(), at)}).Err()
}

type pieces struct {
	stream grpc.ServerStreamingServer[controllerpb.DumpImageResponse]
}

func (p pieces) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := min(len(rest), pieceBytesMax)
		if err := p.stream.Send(&controllerpb.DumpImageResponse{Data: rest[:n:n]}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(data), nil
}
