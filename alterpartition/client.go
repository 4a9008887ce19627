package alterpartition

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Controller sends one request to the controller that is active, and gives up when the context ends. It may send it
// again only if it was certainly not executed. An error that is no [client.ErrNoController] and no refusal with a known
// outcome leaves open whether the request was, or will be, executed.
type Controller interface {
	AlterPartition(context.Context, *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error)
}

// Via sends requests through a client that follows the active controller.
func Via(c *client.Client) Controller { return via{c} }

type via struct{ client *client.Client }

// AlterPartition forbids the client to repeat a request without an answer: the manager repeats, and remembers that it did.
func (v via) AlterPartition(ctx context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	var response *controllerpb.AlterPartitionResponse
	err := v.client.Do(ctx, client.RepeatNever, func(ctx context.Context, cc grpc.ClientConnInterface) error {
		var err error
		response, err = controllerpb.NewBrokerApiClient(cc).AlterPartition(ctx, r)
		return err
	})
	return response, err
}

// isSettled tells whether a failed request is known to have changed nothing, now and later.
func isSettled(err error) bool {
	if errors.Is(err, client.ErrNoController) {
		return true
	}
	refusal, ok := client.AsRefusal(err)
	return ok && !refusal.OutcomeUnknown && !errors.Is(err, client.ErrOutcomeUnknown)
}
