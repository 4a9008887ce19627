package reader

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// piecePartitionsMax closes a message of topic descriptions.
const piecePartitionsMax = 2000

// Source is the node that answers.
type Source interface {
	// Read returns the image that the options ask for, once it is there.
	Read(ctx context.Context, options *controllerpb.ReadOptions) (*image.Image, error)
	// ReadAt returns the image at exactly the offset. It refuses with OFFSET_OUT_OF_RANGE what the node does not have any more,
	// naming the oldest, and what it does not have within [AtWaitMax], naming the newest.
	ReadAt(ctx context.Context, offset image.MetadataOffset) (*image.Image, error)
	// Heard returns what the node has heard from a broker itself.
	Heard(id image.BrokerID) Heard
	// Status is what the node knows of itself and of the quorum.
	Status() *controllerpb.NodeStatusResponse
	// Settings are the node's own configuration.
	Settings() Settings
	// Wait returns when the node has applied, and on a broker acted on, what the request names.
	Wait(ctx context.Context, request *controllerpb.WaitMetadataRequest) (image.MetadataOffset, error)
}

// Heard is what a controller keeps of a broker's heartbeats.
type Heard struct {
	MetadataOffset image.MetadataOffset
	Chain          image.Chain
	// AgeMs is the time since the last heartbeat in milliseconds, -1 if there was none.
	AgeMs int64
}

// Nothing is what a node knows of a broker that it has not heard.
var Nothing = Heard{MetadataOffset: image.NoOffset, AgeMs: -1}

// Server implements ReaderApi.
type Server struct {
	controllerpb.UnimplementedReaderApiServer
	source Source
}

// New makes a server over a source.
func New(source Source) *Server { return &Server{source: source} }

// DescribeTopics streams topics by name, each with its partitions.
func (s *Server) DescribeTopics(r *controllerpb.DescribeTopicsRequest, stream grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error {
	im, err := s.source.Read(stream.Context(), r.GetOptions())
	if err != nil {
		return err
	}
	piece := &controllerpb.DescribeTopicsResponse{MetadataOffset: int64(im.Offset())}
	partitions := 0
	send := func(t image.Topic) error {
		d := describe(im, t, r)
		if r.GetUnhealthy() && len(d.GetPartitions()) == 0 {
			return nil
		}
		piece.Topics = append(piece.Topics, d)
		if partitions += len(d.GetPartitions()) + 1; partitions < piecePartitionsMax {
			return nil
		}
		err := stream.Send(piece)
		piece, partitions = &controllerpb.DescribeTopicsResponse{MetadataOffset: int64(im.Offset())}, 0
		return err
	}
	if len(r.GetNames()) == 0 {
		for t := range im.Topics() {
			if err := send(t); err != nil {
				return err
			}
		}
		return stream.Send(piece)
	}
	names := slices.Compact(slices.Sorted(slices.Values(r.GetNames())))
	for _, name := range names {
		t, ok := im.TopicByName(name)
		if !ok {
			piece.Unknown = append(piece.Unknown, name)
			continue
		}
		if err := send(t); err != nil {
			return err
		}
	}
	return stream.Send(piece)
}

func describe(im *image.Image, t image.Topic, r *controllerpb.DescribeTopicsRequest) *controllerpb.TopicDescription {
	d := &controllerpb.TopicDescription{Name: t.Name(), TopicId: t.ID().Bytes()}
	for key, value := range im.Configs(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, t.Name()) {
		d.Configs = append(d.Configs, &controllerpb.ConfigValue{Name: key, Value: value})
	}
	for i, p := range t.Partitions() {
		reason := im.Unhealthy(t.Name(), p)
		if r.GetUnhealthy() && reason == "" {
			continue
		}
		pd := &controllerpb.PartitionDescription{State: p.Record(image.PartitionID{Topic: t.ID(), Partition: i}), Reason: reason}
		if r.GetStates() {
			addStates(im, p, pd)
		}
		d.Partitions = append(d.Partitions, pd)
	}
	return d
}

// ListBrokers returns every registration by id, with what the node has heard of the broker.
func (s *Server) ListBrokers(ctx context.Context, r *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
	im, err := s.source.Read(ctx, r.GetOptions())
	if err != nil {
		return nil, err
	}
	response := &controllerpb.ListBrokersResponse{
		MetadataOffset: int64(im.Offset()), Lineage: int32(im.Lineage().Number), LineageUnconfirmed: im.Lineage().IsUnconfirmed(),
	}
	for b := range im.Brokers() {
		heard := s.source.Heard(b.ID)
		response.Brokers = append(response.Brokers, &controllerpb.BrokerDescription{
			Registration:   b.Record(),
			MetadataOffset: int64(heard.MetadataOffset), Chain: uint64(heard.Chain), LastHeartbeatMs: heard.AgeMs,
			Leaders: int32(im.LeaderCount(b.ID)), Replicas: int32(im.ReplicaCount(b.ID)),
		})
	}
	return response, nil
}

// NodeStatus answers at once, without a leader too.
func (s *Server) NodeStatus(context.Context, *controllerpb.NodeStatusRequest) (*controllerpb.NodeStatusResponse, error) {
	return s.source.Status(), nil
}

// WaitMetadata is a long poll: it returns when the node is there, or with the caller's deadline.
func (s *Server) WaitMetadata(ctx context.Context, r *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
	offset, err := s.source.Wait(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, status.Errorf(codes.DeadlineExceeded, "applied metadata offset is %d, asked for %d", offset, r.GetMetadataOffset())
		}
		return nil, err
	}
	return &controllerpb.WaitMetadataResponse{MetadataOffset: int64(offset)}, nil
}
