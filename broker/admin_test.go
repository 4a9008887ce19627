package broker

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/broker/kafka"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

var errHeard = errors.New("heard")

// listeningConn notes whom each call was made for, and answers none.
type listeningConn struct{ principals []string }

func (c *listeningConn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	c.principals = append(c.principals, sent.Get("quorate-principal-bin")...)
	return errHeard
}

func (c *listeningConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errHeard
}

// Whatever a client asks for is asked of the controller in the client's name.
func TestForwardedRequestsNameThePrincipal(t *testing.T) {
	conn := &listeningConn{}
	ad := &admin{operator: controllerpb.NewOperatorApiClient(conn)}
	ctx, alice := t.Context(), kafka.Caller{Principal: "User:alice"}
	calls := []func() error{
		func() error { _, err := ad.CreateTopics(ctx, alice, nil); return err },
		func() error { _, err := ad.DeleteTopics(ctx, alice, nil); return err },
		func() error { _, err := ad.CreatePartitions(ctx, alice, nil); return err },
		func() error { _, err := ad.AlterConfigs(ctx, alice, nil); return err },
		func() error { _, err := ad.ElectLeaders(ctx, alice, nil); return err },
		func() error { _, err := ad.AlterPartitionReassignments(ctx, alice, nil); return err },
		func() error { _, err := ad.UnregisterBroker(ctx, alice, nil); return err },
		func() error { _, err := ad.UpdateFeatures(ctx, alice, nil); return err },
	}
	for i, call := range calls {
		if err := call(); !errors.Is(err, errHeard) {
			t.Fatalf("call %d: %v", i, err)
		}
		if len(conn.principals) != i+1 || conn.principals[i] != "User:alice" {
			t.Fatalf("call %d was made for %q", i, conn.principals)
		}
	}
}
