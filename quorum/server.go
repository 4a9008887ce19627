package quorum

import (
	"cmp"
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/controller"
)

// brokerServer answers brokers.
type brokerServer struct {
	controllerpb.UnimplementedBrokerApiServer
	n *Node
}

// operatorServer answers operators, and brokers on behalf of Kafka clients.
type operatorServer struct {
	controllerpb.UnimplementedOperatorApiServer
	n *Node
}

// peerServer answers other controllers.
type peerServer struct {
	controllerpb.UnimplementedControllerApiServer
	n *Node
}

// ask puts a request of a gRPC method through the loop. extent is nil for what is always small.
func ask[Q proto.Message, R any](ctx context.Context, n *Node, cause *metadatapb.Cause, request Q,
	decide func(controller.View, Q) (controller.Decision[R], error), extent func(controller.View, Q) controller.Extent,
) (R, *image.Image, error) {
	op := &operation{
		ctx: ctx, cause: cause, bytes: int64(proto.Size(request)),
		decide: func(v controller.View) plan { return planOf(decide(v, request)) },
	}
	if extent != nil {
		op.extent = func(v controller.View) controller.Extent { return extent(v, request) }
	}
	response, im, err := await[R](ctx, n.loop, op)
	return response, im, refusal(err, n.activeController())
}

func brokerCause(ctx context.Context, name string, id int32) *metadatapb.Cause {
	return &metadatapb.Cause{Name: name, Principal: principalOf(ctx), BrokerId: &id}
}

// RegisterBroker implements BrokerApi.
func (s *brokerServer) RegisterBroker(ctx context.Context, r *controllerpb.RegisterBrokerRequest) (*controllerpb.RegisterBrokerResponse, error) {
	s.n.hearBroker(r.GetClusterId(), r.GetBrokerId(), r.GetLineage())
	response, _, err := ask(ctx, s.n, brokerCause(ctx, "RegisterBroker", r.GetBrokerId()), r, controller.RegisterBroker, controller.RegisterBrokerExtent)
	return response, err
}

// BrokerHeartbeat implements BrokerApi. One that waited for half a heartbeat interval only counts as a sign of life
// (KAFKA-15019). The committed offset is told as of the answer, so that a broker can see that its stream is behind.
func (s *brokerServer) BrokerHeartbeat(ctx context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
	n := s.n
	n.hearBroker(n.cfg.ClusterID, r.GetBrokerId(), r.GetLineage())
	n.compareChains(r)
	cause := brokerCause(ctx, "BrokerHeartbeat", r.GetBrokerId())
	response, im, err := await[*controllerpb.BrokerHeartbeatResponse](ctx, n.loop, &operation{
		ctx: ctx, cause: cause, bytes: int64(proto.Size(r)), lateAfter: n.cfg.HeartbeatInterval / 2, heartbeat: r,
		extent: func(v controller.View) controller.Extent { return controller.BrokerHeartbeatExtent(v, r) },
		decide: func(v controller.View) plan { return planOf(controller.BrokerHeartbeat(v, r)) },
		late:   func(v controller.View) plan { return planOf(controller.LateHeartbeat(v, r)) },
	})
	if err != nil {
		return nil, refusal(err, n.activeController())
	}
	if response == nil {
		return nil, refusal(ErrGivenUp, n.activeController())
	}
	response.CommittedOffset, response.Lineage = int64(im.Offset()), int32(im.Lineage().Number)
	response.ActiveController = n.activeController()
	return response, nil
}

// AlterPartition implements BrokerApi.
func (s *brokerServer) AlterPartition(ctx context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	response, im, err := ask(ctx, s.n, brokerCause(ctx, "AlterPartition", r.GetBrokerId()), r, controller.AlterPartition, controller.AlterPartitionExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset = int64(im.Offset())
	return response, nil
}

// AllocateProducerIds implements BrokerApi.
func (s *brokerServer) AllocateProducerIds(ctx context.Context, r *controllerpb.AllocateProducerIdsRequest) (*controllerpb.AllocateProducerIdsResponse, error) {
	response, _, err := ask(ctx, s.n, brokerCause(ctx, "AllocateProducerIds", r.GetBrokerId()), r, controller.AllocateProducerIds, nil)
	return response, err
}

// ReportDeletions implements BrokerApi.
func (s *brokerServer) ReportDeletions(ctx context.Context, r *controllerpb.ReportDeletionsRequest) (*controllerpb.ReportDeletionsResponse, error) {
	response, im, err := ask(ctx, s.n, brokerCause(ctx, "ReportDeletions", r.GetBrokerId()), r, controller.ReportDeletions, controller.ReportDeletionsExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset = int64(im.Offset())
	return response, nil
}

// CreateTopics implements OperatorApi.
func (s *operatorServer) CreateTopics(ctx context.Context, r *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
	cause := operatorCause(ctx, "CreateTopics", r.GetRequestId())
	response, im, err := ask(ctx, s.n, cause, r, controller.CreateTopics, controller.CreateTopicsExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// DeleteTopics implements OperatorApi.
func (s *operatorServer) DeleteTopics(ctx context.Context, r *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
	cause := operatorCause(ctx, "DeleteTopics", r.GetRequestId())
	response, im, err := ask(ctx, s.n, cause, r, controller.DeleteTopics, controller.DeleteTopicsExtent)
	if err != nil {
		return nil, err
	}
	response.MetadataOffset, response.UnfencedBrokers = int64(im.Offset()), unfenced(im)
	return response, nil
}

// RegisterController implements ControllerApi.
func (s *peerServer) RegisterController(ctx context.Context, r *controllerpb.RegisterControllerRequest) (*controllerpb.RegisterControllerResponse, error) {
	response, _, err := ask(ctx, s.n, &metadatapb.Cause{Name: "RegisterController", Principal: principalOf(ctx)}, r, controller.RegisterController, nil)
	return response, err
}

// requestIDMax bounds a request id in bytes: it goes into the metadata log.
const requestIDMax = 256

type principalKey struct{}

// principalOf is who sent the request, or on whose behalf a broker did.
func principalOf(ctx context.Context) string {
	if p, ok := ctx.Value(principalKey{}).(string); ok {
		return p
	}
	return PrincipalAnonymous
}

// authorize refuses methods that the table of roles does not know.
// Health and reflection are open to everyone.
func authorize(method string) error {
	if _, ok := MethodRoles[method]; ok || isOpen(method) {
		return nil
	}
	return status.Errorf(codes.Unimplemented, "method %s has no role", method)
}

// authorizeUnary gives every call its principal. As long as every caller has every role, every one may forward for others.
func authorizeUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := authorize(info.FullMethod); err != nil {
		return nil, err
	}
	principal, err := client.ForwardedPrincipal(ctx)
	if err != nil {
		return nil, refusal(controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v", err), nil)
	}
	if r, ok := request.(interface{ GetRequestId() string }); ok && len(r.GetRequestId()) > requestIDMax {
		return nil, refusal(controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"the request id has %d bytes, at most %d are taken", len(r.GetRequestId()), requestIDMax), nil)
	}
	return next(context.WithValue(ctx, principalKey{}, cmp.Or(principal, PrincipalAnonymous)), request)
}

func authorizeStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := authorize(info.FullMethod); err != nil {
		return err
	}
	return next(server, stream)
}
