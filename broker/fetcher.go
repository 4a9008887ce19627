package broker

import (
	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
)

// fetcher is both ends of the replica fetches: what this broker follows, and who follows it.
type fetcher struct {
	server *replica.Server
}

func newFetcher(b *Broker) (*fetcher, error) {
	server, err := replica.NewServer(replica.DefaultServerConfig(b.cfg.ID), b.replicas, b.env.Clock, b.log)
	if err != nil {
		return nil, err
	}
	return &fetcher{server: server}, nil
}

// register adds the leader's end to a gRPC server.
func (fe *fetcher) register(r grpc.ServiceRegistrar) { brokerpb.RegisterReplicaApiServer(r, fe.server) }

// changed tells followers' waiting fetches to look at a partition again.
func (fe *fetcher) changed(id image.PartitionID) { fe.server.Notify(id) }

func (fe *fetcher) remove(ids []image.PartitionID) {}

func (fe *fetcher) add(orders []fetchOrder) {}

// stop ends the leader's end.
func (fe *fetcher) stop() { fe.server.Close() }
