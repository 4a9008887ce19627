package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) brokerUnregisterCommand() *cobra.Command {
	var change changeFlags
	c := &cobra.Command{
		Use:   "unregister ID",
		Short: "Remove a broker's registration",
		Long: "Remove a broker's registration, for a broker that will not come back. It leaves every ISR; the replica lists keep its id until\n" +
			"quorate partition reassign gives the replicas to others. A broker that runs is removed too, and is back when it is started again.",
		Example: "  quorate broker unregister 3",
		Args:    cobra.ExactArgs(1),
	}
	change.register(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := parseBroker(args[0])
		if err != nil {
			return err
		}
		if err := change.check(c); err != nil {
			return err
		}
		request := &controllerpb.UnregisterBrokerRequest{BrokerId: id, ValidateOnly: change.dryRun, RequestId: node.RandomUUID().String()}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.brokerUnregister(ctx, &change, request)
		})(c, args)
	}
	return c
}

func (a *app) brokerUnregister(ctx context.Context, change *changeFlags, request *controllerpb.UnregisterBrokerRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).UnregisterBroker(ctx, request)
	if err != nil {
		return err
	}
	id := request.GetBrokerId()
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "unregistered", list: "brokers", items: []item{{
		name: fmt.Sprintf("broker %d", id), text: fmt.Sprintf("broker %d", id), fields: object{{"id", id}},
	}}}
	return a.finish(done, change.dryRun, a.brokersKnow(ctx, c, change, resp, true))
}
