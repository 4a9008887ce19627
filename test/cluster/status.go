package cluster

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// statusOf is what a node says of itself and of the quorum.
func (c *Cluster) statusOf(t testing.TB, id int) (*controllerpb.NodeStatusResponse, error) {
	t.Helper()
	conn, err := grpc.NewClient(c.Node(t, id).Addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 4*client.ProbeTimeout)
	defer cancel()
	return controllerpb.NewReaderApiClient(conn).NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
}

// StateOf is a node's state as it tells it itself.
func (c *Cluster) StateOf(t testing.TB, id int) (string, error) {
	t.Helper()
	s, err := c.statusOf(t, id)
	return s.GetState(), err
}
