package reader

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// LogSource is a source that keeps the log, not only the image.
type LogSource interface {
	// ReadLog hands over the applied entries that hold the records from to end, in order and whole. It refuses with
	// OFFSET_OUT_OF_RANGE, and names the oldest offset, if the log does not reach back that far.
	ReadLog(ctx context.Context, from, end image.MetadataOffset, take func(*controllerpb.EntryFrame) error) error
}

// ReadLog streams the entries of the log from the one with the offset up to the newest when the request came.
func (s *Server) ReadLog(r *controllerpb.ReadLogRequest, stream grpc.ServerStreamingServer[controllerpb.ReadLogResponse]) error {
	source, ok := s.source.(LogSource)
	if !ok {
		return status.Error(codes.Unimplemented, "brokers keep no metadata log; ask a controller")
	}
	im, err := s.source.Read(stream.Context(), r.GetOptions())
	if err != nil {
		return err
	}
	return source.ReadLog(stream.Context(), image.MetadataOffset(max(0, r.GetFromOffset())), im.Offset(), func(e *controllerpb.EntryFrame) error {
		return stream.Send(&controllerpb.ReadLogResponse{Entry: e})
	})
}
