package clienttest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Controller answers with its functions. They run on the server's goroutines.
type Controller struct {
	controllerpb.UnimplementedReaderApiServer
	controllerpb.UnimplementedOperatorApiServer
	controllerpb.UnimplementedBrokerApiServer
	brokerpb.UnimplementedReplicaStatusApiServer

	// Address is host:port, set by Start.
	Address string

	mu       sync.Mutex
	status   *controllerpb.NodeStatusResponse
	handlers Handlers
}

// Handlers are the answers of a controller; nil ones are Unimplemented.
type Handlers struct {
	// NodeStatus overrides the status that Set gave.
	NodeStatus     func(context.Context) (*controllerpb.NodeStatusResponse, error)
	CreateTopics   func(context.Context, *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error)
	DeleteTopics   func(context.Context, *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error)
	Heartbeat      func(context.Context, *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error)
	AlterPartition func(context.Context, *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error)
	DescribeTopics func(*controllerpb.DescribeTopicsRequest, grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error
	DumpImage      func(*controllerpb.DumpImageRequest, grpc.ServerStreamingServer[controllerpb.DumpImageResponse]) error
	ListBrokers    func(context.Context, *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error)
	WaitMetadata   func(context.Context, *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error)

	CreatePartitions            func(context.Context, *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error)
	AlterConfigs                func(context.Context, *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error)
	ElectLeaders                func(context.Context, *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error)
	AlterPartitionReassignments func(context.Context, *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error)
	AddController               func(context.Context, *controllerpb.AddControllerRequest) (*controllerpb.AddControllerResponse, error)
	RemoveController            func(context.Context, *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error)
	TransferLeadership          func(context.Context, *controllerpb.TransferLeadershipRequest) (*controllerpb.TransferLeadershipResponse, error)
	UnregisterBroker            func(context.Context, *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error)
	UpdateFeatures              func(context.Context, *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error)
	DescribeFeatures            func(context.Context, *controllerpb.DescribeFeaturesRequest) (*controllerpb.DescribeFeaturesResponse, error)
	ListReassignments           func(context.Context, *controllerpb.ListReassignmentsRequest) (*controllerpb.ListReassignmentsResponse, error)
	ListDeletions               func(context.Context, *controllerpb.ListDeletionsRequest) (*controllerpb.ListDeletionsResponse, error)
	CheckStop                   func(context.Context, *controllerpb.CheckStopRequest) (*controllerpb.CheckStopResponse, error)
	ReadLog                     func(*controllerpb.ReadLogRequest, grpc.ServerStreamingServer[controllerpb.ReadLogResponse]) error
	DescribeReplicas            func(context.Context, *brokerpb.DescribeReplicasRequest) (*brokerpb.DescribeReplicasResponse, error)
	ReadHistory                 func(*controllerpb.ReadHistoryRequest, grpc.ServerStreamingServer[controllerpb.ReadHistoryResponse]) error
	ConfirmLineage              func(context.Context, *controllerpb.ConfirmLineageRequest) (*controllerpb.ConfirmLineageResponse, error)
	DescribeConfigs             func(context.Context, *controllerpb.DescribeConfigsRequest) (*controllerpb.DescribeConfigsResponse, error)
}

// Start serves a new controller on a loopback port until the test ends.
func Start(t testing.TB, h Handlers) *Controller {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{Address: listener.Addr().String(), handlers: h, status: &controllerpb.NodeStatusResponse{State: "follower"}}
	server := grpc.NewServer(client.ServerOptions(nil)...)
	controllerpb.RegisterReaderApiServer(server, c)
	controllerpb.RegisterOperatorApiServer(server, c)
	controllerpb.RegisterBrokerApiServer(server, c)
	brokerpb.RegisterReplicaStatusApiServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return c
}

// Silent is the address of a listener that the kernel accepts connections for and nobody serves, like a stopped process.
func Silent(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// Set changes what the controller says of itself.
func (c *Controller) Set(status *controllerpb.NodeStatusResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// SetHandlers changes the answers.
func (c *Controller) SetHandlers(change func(*Handlers)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.handlers)
}

func (c *Controller) now() (Handlers, *controllerpb.NodeStatusResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handlers, c.status
}

// NodeStatus implements ReaderApi.
func (c *Controller) NodeStatus(ctx context.Context, _ *controllerpb.NodeStatusRequest) (*controllerpb.NodeStatusResponse, error) {
	h, s := c.now()
	if h.NodeStatus != nil {
		return h.NodeStatus(ctx)
	}
	return s, nil
}

// CreateTopics implements OperatorApi.
func (c *Controller) CreateTopics(ctx context.Context, r *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.CreateTopics)
}

// DeleteTopics implements OperatorApi.
func (c *Controller) DeleteTopics(ctx context.Context, r *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.DeleteTopics)
}

// BrokerHeartbeat implements BrokerApi.
func (c *Controller) BrokerHeartbeat(ctx context.Context, r *controllerpb.BrokerHeartbeatRequest) (*controllerpb.BrokerHeartbeatResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.Heartbeat)
}

// AlterPartition implements BrokerApi.
func (c *Controller) AlterPartition(ctx context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.AlterPartition)
}

// ListBrokers implements ReaderApi.
func (c *Controller) ListBrokers(ctx context.Context, r *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.ListBrokers)
}

// WaitMetadata implements ReaderApi.
func (c *Controller) WaitMetadata(ctx context.Context, r *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
	h, _ := c.now()
	return unary(ctx, r, h.WaitMetadata)
}

// DescribeTopics implements ReaderApi.
func (c *Controller) DescribeTopics(r *controllerpb.DescribeTopicsRequest, s grpc.ServerStreamingServer[controllerpb.DescribeTopicsResponse]) error {
	h, _ := c.now()
	if h.DescribeTopics == nil {
		return status.Error(codes.Unimplemented, "not set")
	}
	return h.DescribeTopics(r, s)
}

// DumpImage implements ReaderApi.
func (c *Controller) DumpImage(r *controllerpb.DumpImageRequest, s grpc.ServerStreamingServer[controllerpb.DumpImageResponse]) error {
	h, _ := c.now()
	if h.DumpImage == nil {
		return status.Error(codes.Unimplemented, "not set")
	}
	return h.DumpImage(r, s)
}

func unary[Q, A any](ctx context.Context, q Q, h func(context.Context, Q) (A, error)) (A, error) {
	if h == nil {
		var none A
		return none, status.Error(codes.Unimplemented, "not set")
	}
	return h(ctx, q)
}
