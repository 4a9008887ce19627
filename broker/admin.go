package broker

import (
	"context"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// admin forwards what clients want changed to the active controller, in the client's name, and waits until it is visible.
// It is stateless; any goroutine may call it.
type admin struct {
	id       image.BrokerID
	operator controllerpb.OperatorApiClient
	// reader asks the active controller.
	reader controllerpb.ReaderApiClient
	// connect gives the connection to a node's GRPC listener.
	connect func(address string) (grpc.ClientConnInterface, error)
	applied *imageCell
	newest  func() *image.Image
	now     func() time.Time
}

// CreateTopics forwards a creation. The sender has drawn request id and topic ids, so a repetition is answered alike.
func (ad *admin) CreateTopics(ctx context.Context, c kafka.Caller, r *controllerpb.CreateTopicsRequest) (*controllerpb.CreateTopicsResponse, error) {
	return ad.operator.CreateTopics(client.WithPrincipal(ctx, c.Principal), r)
}

// DeleteTopics forwards a deletion.
func (ad *admin) DeleteTopics(ctx context.Context, c kafka.Caller, r *controllerpb.DeleteTopicsRequest) (*controllerpb.DeleteTopicsResponse, error) {
	return ad.operator.DeleteTopics(client.WithPrincipal(ctx, c.Principal), r)
}

// CreatePartitions forwards an addition of partitions.
func (ad *admin) CreatePartitions(ctx context.Context, c kafka.Caller, r *controllerpb.CreatePartitionsRequest) (*controllerpb.CreatePartitionsResponse, error) {
	return ad.operator.CreatePartitions(client.WithPrincipal(ctx, c.Principal), r)
}

// AlterConfigs forwards a change of configs.
func (ad *admin) AlterConfigs(ctx context.Context, c kafka.Caller, r *controllerpb.AlterConfigsRequest) (*controllerpb.AlterConfigsResponse, error) {
	return ad.operator.AlterConfigs(client.WithPrincipal(ctx, c.Principal), r)
}

// ElectLeaders forwards elections.
func (ad *admin) ElectLeaders(ctx context.Context, c kafka.Caller, r *controllerpb.ElectLeadersRequest) (*controllerpb.ElectLeadersResponse, error) {
	return ad.operator.ElectLeaders(client.WithPrincipal(ctx, c.Principal), r)
}

// AlterPartitionReassignments forwards moves of replicas.
func (ad *admin) AlterPartitionReassignments(ctx context.Context, c kafka.Caller, r *controllerpb.AlterPartitionReassignmentsRequest) (*controllerpb.AlterPartitionReassignmentsResponse, error) {
	return ad.operator.AlterPartitionReassignments(client.WithPrincipal(ctx, c.Principal), r)
}

// UnregisterBroker forwards the removal of a registration.
func (ad *admin) UnregisterBroker(ctx context.Context, c kafka.Caller, r *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
	return ad.operator.UnregisterBroker(client.WithPrincipal(ctx, c.Principal), r)
}

// UpdateFeatures forwards an update of finalized levels.
func (ad *admin) UpdateFeatures(ctx context.Context, c kafka.Caller, r *controllerpb.UpdateFeaturesRequest) (*controllerpb.UpdateFeaturesResponse, error) {
	return ad.operator.UpdateFeatures(client.WithPrincipal(ctx, c.Principal), r)
}

// WaitApplied returns when this broker has acted on the offset, or with the context's error.
func (ad *admin) WaitApplied(ctx context.Context, offset image.MetadataOffset) error {
	_, err := ad.applied.waitOffset(ctx, offset)
	return err
}

// WaitEveryBroker returns when every broker named has acted on the offset, or with the context's error. A broker that
// is fenced or gone meanwhile is left out.
func (ad *admin) WaitEveryBroker(ctx context.Context, offset image.MetadataOffset, brokers []image.BrokerID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(brokersAskedMax)
	for _, id := range brokers {
		g.Go(func() error { return ad.waitBroker(ctx, offset, id) })
	}
	return g.Wait()
}

// brokersAskedMax bounds how many brokers one admin request asks at once.
const brokersAskedMax = 32

// waitBroker waits for one broker, as long as the newest image has it unfenced.
func (ad *admin) waitBroker(ctx context.Context, offset image.MetadataOffset, id image.BrokerID) error {
	if id == ad.id {
		return ad.WaitApplied(ctx, offset)
	}
	for {
		address, ok := activeAddress(ad.newest(), id)
		if !ok {
			return nil
		}
		err := ad.askBroker(ctx, address, offset)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if !sleep(ctx, retryBackoffMin) {
			return ctx.Err()
		}
	}
}

// askBroker is one long poll, cut short so that a broker that is fenced meanwhile is noticed.
func (ad *admin) askBroker(ctx context.Context, address string, offset image.MetadataOffset) error {
	conn, err := ad.connect(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, brokerPollMax)
	defer cancel()
	answer, err := controllerpb.NewReaderApiClient(conn).WaitMetadata(ctx, &controllerpb.WaitMetadataRequest{MetadataOffset: int64(offset)})
	if err == nil && answer.MetadataOffset < int64(offset) {
		return status.Error(codes.Unavailable, "broker: answered before it had acted on the offset")
	}
	return err
}

// brokerPollMax bounds one question to another broker.
const brokerPollMax = time.Second

// activeAddress is the GRPC address of a broker that is registered and not fenced.
func activeAddress(im *image.Image, id image.BrokerID) (string, bool) {
	b, ok := im.Broker(id)
	if !ok || b.Fenced {
		return "", false
	}
	return grpcAddress(b.Listeners)
}

func grpcAddress(ls []image.Listener) (string, bool) {
	l, ok := findListener(ls, listenerGRPC)
	if !ok {
		return "", false
	}
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), true
}
