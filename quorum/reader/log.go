package reader

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// LogSource is a source that keeps the log and its history, not only the image.
type LogSource interface {
	// ReadLog hands over the applied entries that hold the records from from_offset to end, in order and whole, and what is
	// missing between them. It refuses with OFFSET_OUT_OF_RANGE, and names the oldest offset, if it does not reach back
	// that far and the request does not want the oldest.
	ReadLog(ctx context.Context, r *controllerpb.ReadLogRequest, end image.MetadataOffset, take func(*controllerpb.ReadLogResponse) error) error
	// ReadHistory hands over the head, then the events of one partition up to the image's offset, in order. It refuses with
	// UNKNOWN_TOPIC_OR_PARTITION what it finds nowhere.
	ReadHistory(ctx context.Context, im *image.Image, r *controllerpb.ReadHistoryRequest, take func(*controllerpb.ReadHistoryResponse) error) error
}

// errNoLog tells that a node has no log.
var errNoLog = status.Error(codes.Unimplemented, "brokers keep no metadata log; ask a controller")

// ReadLog streams the entries of log and history from the one with the offset up to the newest when the request came.
func (s *Server) ReadLog(r *controllerpb.ReadLogRequest, stream grpc.ServerStreamingServer[controllerpb.ReadLogResponse]) error {
	source, ok := s.source.(LogSource)
	if !ok {
		return errNoLog
	}
	im, err := s.source.Read(stream.Context(), r.GetOptions())
	if err != nil {
		return err
	}
	end := im.Offset()
	if r.ToOffset != nil {
		end = min(end, image.MetadataOffset(r.GetToOffset()))
	}
	return source.ReadLog(stream.Context(), r, end, stream.Send)
}

// ReadHistory streams what happened to one partition up to the newest record when the request came.
func (s *Server) ReadHistory(r *controllerpb.ReadHistoryRequest, stream grpc.ServerStreamingServer[controllerpb.ReadHistoryResponse]) error {
	source, ok := s.source.(LogSource)
	if !ok {
		return errNoLog
	}
	im, err := s.source.Read(stream.Context(), r.GetOptions())
	if err != nil {
		return err
	}
	return source.ReadHistory(stream.Context(), im, r, stream.Send)
}
