package reader

import (
	"bufio"
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// pieceBytesMax is the size of one message of a dump.
const pieceBytesMax = 256 << 10

// AtWaitMax is how long a node that follows waits for the offset of [Source.ReadAt], which may be on its way. The active
// controller has the newest and waits for none; who wants to wait for longer names min_offset.
const AtWaitMax = time.Second

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
	if r.AtOffset == nil || r.GetOptions().GetMinOffset() > 0 {
		if im, err := s.source.Read(ctx, r.GetOptions()); err != nil || r.AtOffset == nil {
			return im, err
		}
	}
	return s.source.ReadAt(ctx, image.MetadataOffset(r.GetAtOffset()))
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
