package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) quorumTransferCommand() *cobra.Command {
	var change changeFlags
	c := &cobra.Command{
		Use:   "transfer [NODE]",
		Short: "Hand the active role over to another controller",
		Long: "Hand the active role over to a voter that has caught up: the one that is named, else the one that is furthest. The former active\n" +
			"controller goes on as a standby. If the other one hangs meanwhile, the former stays active; should Raft not let it claim the\n" +
			"role again within three election time-outs, its process ends, another controller is elected, and its supervisor starts it again.",
		Example: "  quorate quorum transfer\n  quorate quorum transfer 1002",
		Args:    cobra.MaximumNArgs(1),
	}
	change.registerQuorum(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		request := &controllerpb.TransferLeadershipRequest{RequestId: node.RandomUUID().String()}
		if len(args) == 1 {
			id, err := parseController(args[0])
			if err != nil {
				return err
			}
			request.ControllerId = &id
		}
		if err := change.check(c); err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.quorumTransfer(ctx, &change, request)
		})(c, args)
	}
	return c
}

// quorumTransfer chooses by a dry run if no target is named: with a target the request may be repeated when its answer is
// lost, without one it would be handed on a second time.
func (a *app) quorumTransfer(ctx context.Context, change *changeFlags, request *controllerpb.TransferLeadershipRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	api := controllerpb.NewOperatorApiClient(c)
	dry := &controllerpb.TransferLeadershipRequest{ControllerId: request.ControllerId, RequestId: request.GetRequestId(), ValidateOnly: true}
	resp, err := api.TransferLeadership(ctx, dry)
	if err != nil {
		return err
	}
	from, to := resp.GetFormerControllerId(), resp.GetControllerId()
	if !change.dryRun && from != to {
		request.ControllerId = &to
		if resp, err = api.TransferLeadership(ctx, request); err != nil {
			return err
		}
	}
	var waited error
	if change.waits() {
		waited = a.awaitControllers(ctx, c, "the new active controller", func(s *controllerpb.NodeStatusResponse) bool {
			return s.GetActiveController().GetControllerEpoch() >= resp.GetControllerEpoch()
		})
	}
	a.printTransfer(from, to, resp.GetControllerEpoch(), change.dryRun)
	return waited
}

func (a *app) printTransfer(from, to int32, epoch uint64, dryRun bool) {
	switch {
	case a.json() && dryRun:
		a.print(object{{"from", from}, {"to", to}, {"controllerEpoch", epoch}, {"records", list{}}})
	case a.json():
		a.print(object{{"from", from}, {"to", to}, {"controllerEpoch", epoch}})
	case from == to:
		a.printf("controller %d is active already", to)
	case dryRun:
		a.printf("would have transferred the active role from controller %d to controller %d", from, to)
	default:
		a.printf("transferred the active role from controller %d to controller %d controllerEpoch=%d", from, to, epoch)
	}
}

// parseController reads a node id.
func parseController(s string) (int32, error) {
	id, err := parseBroker(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a controller id", s)
	}
	return id, nil
}
